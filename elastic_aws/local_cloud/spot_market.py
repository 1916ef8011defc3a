"""The spot market at work: announces and makes interruptions, and writes a line about each."""

from __future__ import annotations

import heapq
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from elastic_aws.local_cloud.market import (
    Interrupt,
    MarketAct,
    Rebalance,
    Scheduled,
    SetCapacity,
    SpotInstance,
    choose,
    room,
)

REPLACEMENT_DELAY = timedelta(seconds=2)
"""How long the place of a lost instance stays empty. EC2's health checks take a minute or more; nobody waits here."""


class Fleet(Protocol):
    """The instances that the market acts on. Its methods take the cloud's lock themselves."""

    def spot_instances(self) -> list[SpotInstance]:
        """The running spot instances."""

    def announce(self, instance: str, at: datetime) -> None:
        """Show the interruption in the instance's metadata."""

    def recommend_rebalance(self, instance: str) -> None:
        """Show a rebalance recommendation."""

    def reclaim(self, instance: str) -> None:
        """Switch the instance off."""

    def capacity_changed(self) -> None:
        """Look again whether anything can be launched."""


class SpotMarket:
    """Interruptions and capacity, on demand and by a script."""

    def __init__(self, *, fleet: Fleet, journal: Path, script: Sequence[Scheduled] = ()) -> None:
        self._fleet = fleet
        self._journal = journal
        self._capacity: int | None = None
        self._unreplaced: set[str] = set()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._number = itertools.count()
        self._condition = threading.Condition()
        self._opened = False
        self._ended = False
        self._script = tuple(scheduled for scheduled in script if not self._from_the_start(scheduled))
        self._thread = threading.Thread(target=self._run, name="spot market", daemon=True)
        self._thread.start()

    def _from_the_start(self, scheduled: Scheduled) -> bool:
        """Take a capacity that is there before anything is launched; the clock of all else starts with a launch."""
        if scheduled.at or not isinstance(scheduled.act, SetCapacity):
            return False
        self._capacity = scheduled.act.instances
        self._note("capacity", instances=self._capacity)
        return True

    def open(self) -> None:
        """Called at every spot launch: the first one starts the script's clock."""
        with self._condition:
            if self._opened:
                return
            self._opened = True
        for scheduled in self._script:
            self._later(scheduled.at, partial(self.act, scheduled.act))

    def act(self, act: MarketAct) -> list[str]:
        """Do it now; answer the instances concerned."""
        match act:
            case SetCapacity(instances=instances):
                self._capacity = instances
                self._note("capacity", instances=instances)
                self._fleet.capacity_changed()
                return []
            case Rebalance(target=target):
                chosen = choose(target, self._fleet.spot_instances())
                for instance in chosen:
                    self._note("rebalance_recommended", instance=instance)
                    self._fleet.recommend_rebalance(instance)
                return chosen
            case Interrupt(target=target):
                chosen = choose(target, self._fleet.spot_instances())
                for instance in chosen:
                    self._interrupt(instance, act)
                return chosen

    def _interrupt(self, instance: str, act: Interrupt) -> None:
        if not act.replace:
            self._unreplaced.add(instance)
        if not act.notice:
            self._reclaim(instance)
            return
        at = datetime.now(UTC) + act.notice
        self._note("interruption_noticed", instance=instance, reclaimed_at=at.isoformat(timespec="milliseconds"))
        self._fleet.announce(instance, at)
        self._later(act.notice, lambda: self._reclaim(instance))

    def _reclaim(self, instance: str) -> None:
        self._note("instance_reclaimed", instance=instance)
        self._fleet.reclaim(instance)

    def room(self, running: int) -> int | None:
        """How many more spot instances can be had; None for any number."""
        return room(self._capacity, running)

    def replacement_delay(self, instance: str) -> timedelta | None:
        """How long a lost instance's place stays empty; None for as long as nobody asks anew."""
        return None if instance in self._unreplaced else REPLACEMENT_DELAY

    def close(self) -> None:
        """Do nothing more."""
        with self._condition:
            self._ended = True
            self._condition.notify()
        self._thread.join()

    def _later(self, delay: timedelta, act: Callable[[], object]) -> None:
        with self._condition:
            heapq.heappush(self._due, (time.monotonic() + delay.total_seconds(), next(self._number), act))
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._ended and (not self._due or self._due[0][0] > time.monotonic()):
                    self._condition.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._ended:
                    return
                _, _, act = heapq.heappop(self._due)
            act()

    def _note(self, event: str, **fields: object) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._condition, self._journal.open("a") as journal:
            journal.write(json.dumps({"at": at, "event": event} | fields) + "\n")
