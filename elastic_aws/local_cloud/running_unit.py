"""A unit of an instance at work: starting, restarting and stopping its processes. Standard library only."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from elastic_aws.local_cloud import processes
from elastic_aws.local_cloud.unit_file import Command, Unit


class UnitState(StrEnum):
    """systemd's words for what a unit does."""

    INACTIVE = "inactive"
    ACTIVATING = "activating"
    ACTIVE = "active"
    DEACTIVATING = "deactivating"
    FAILED = "failed"


class RunningUnit:
    """One unit and its processes.

    `on_change` is called with the unit after each change of `state`; the owner calls `reaped` for every child
    that ended and `tick` when `wakes_at` has come.
    """

    def __init__(self, unit: Unit, *, journal: Path, on_change: Callable[[RunningUnit], None]) -> None:
        self.unit = unit
        self.state = UnitState.INACTIVE
        self.pid = 0
        self.last_code: int | None = None
        self.restarts = 0
        self.wakes_at: float | None = None
        self._journal = journal
        self._on_change = on_change
        self._pending: list[Command] = []
        self._current: Command | None = None
        self._invocation = ""
        self._stopping = False
        self._starts: list[float] = []

    @property
    def running(self) -> bool:
        """Whether it has a process, or will start one by itself."""
        return self.state in {UnitState.ACTIVATING, UnitState.DEACTIVATING} or self.pid != 0

    def start(self) -> None:
        """Start it unless it runs."""
        if self.running:
            return
        self._starts = []
        self.restarts = 0
        self._begin()

    def stop(self, *, within_seconds: float | None = None) -> None:
        """End it: its signal first, SIGKILL after `TimeoutStopSec` or `within_seconds`, whichever is less."""
        self._pending = []
        if not self.pid:
            self.wakes_at = None
            self._set(UnitState.INACTIVE if self.state is not UnitState.FAILED else UnitState.FAILED)
            return
        patience = self.unit.stop_seconds if within_seconds is None else min(within_seconds, self.unit.stop_seconds)
        self._stopping = True
        self.wakes_at = time.monotonic() + patience
        self._set(UnitState.DEACTIVATING)
        targets = self._members() if self.unit.kill_mode == "control-group" else {self.pid}
        for pid in targets:
            processes.send(pid, signal.SIGTERM)

    def tick(self, now: float) -> None:
        """Do what was due: restart, or SIGKILL what did not stop in time."""
        if self.wakes_at is None or now < self.wakes_at:
            return
        self.wakes_at = None
        if self._stopping:
            for pid in self._members() | {self.pid}:
                processes.send(pid, signal.SIGKILL)
        else:
            self._begin()

    def reaped(self, code: int) -> None:
        """Its process ended with this status; negative for a signal."""
        self.pid = 0
        command, self._current = self._current, None
        failed = not self.unit.succeeded(code) and not (command is not None and command.may_fail)
        if self._pending and not failed and not self._stopping:
            self._next()
            return
        self.last_code = code
        self._pending = []
        if self.unit.kill_mode != "process":
            processes.kill_all(self._members)
        self._ended(failed)

    def _ended(self, failed: bool) -> None:
        code = self.last_code or 0
        if self._stopping:
            self._stopping = False
            self.wakes_at = None
            self._set(UnitState.FAILED if failed else UnitState.INACTIVE)
        elif self.unit.restarts_after(code) and self._may_start_again():
            self.restarts += 1
            self.wakes_at = time.monotonic() + self.unit.restart_seconds
            self._set(UnitState.ACTIVATING)
        elif failed:
            self._set(UnitState.FAILED)
        else:
            self._set(UnitState.ACTIVE if self.unit.remains else UnitState.INACTIVE)

    def _may_start_again(self) -> bool:
        since = time.monotonic() - self.unit.start_limit_seconds
        self._starts = [start for start in self._starts if start > since]
        return self.unit.start_limit == 0 or len(self._starts) < self.unit.start_limit

    def _begin(self) -> None:
        self._starts.append(time.monotonic())
        self._invocation = uuid.uuid4().hex
        self._pending = [*self.unit.before_start, *self.unit.start]
        self._next()

    def _next(self) -> None:
        self._current = self._pending.pop(0)
        output = self._open(self.unit.stdout, self._journal)
        error = output if self.unit.stderr == "inherit" else self._open(self.unit.stderr, self._journal)
        self.pid = processes.spawn(
            self._current.argv,
            environment=self.unit.environment | {"INVOCATION_ID": self._invocation},
            folder=self.unit.folder,
            stdout=output,
            stderr=error,
        )
        for descriptor in {output, error}:
            os.close(descriptor)
        oneshot = self.unit.kind == "oneshot"
        self._set(UnitState.ACTIVATING if self._pending or oneshot else UnitState.ACTIVE)

    @staticmethod
    def _open(target: str, journal: Path) -> int:
        kind, _, path = target.partition(":")
        if kind == "null":
            return os.open(os.devnull, os.O_WRONLY)
        file = Path(path) if kind in {"append", "file", "truncate"} else journal
        file.parent.mkdir(parents=True, exist_ok=True)
        truncate = os.O_TRUNC if kind == "truncate" else 0
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | truncate, 0o644)

    def _members(self) -> set[int]:
        """What systemd would find in the unit's cgroup: all that carries this start's INVOCATION_ID."""
        below = processes.descendants(os.getpid())
        return processes.with_variable(f"INVOCATION_ID={self._invocation}", below)

    def _set(self, state: UnitState) -> None:
        if state is not self.state:
            self.state = state
            self._on_change(self)
