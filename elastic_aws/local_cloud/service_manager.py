"""What `systemctl` asks of an instance, answered by its init. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastic_aws.local_cloud.running_unit import RunningUnit, UnitState
from elastic_aws.local_cloud.unit_file import UnitError, parse_unit

VERBS = (
    "daemon-reload enable disable start stop restart is-active is-failed is-enabled status reset-failed "
    "poweroff halt reboot"
)
"""What the local cloud's systemctl can do."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a command prints and its exit status."""

    code: int = 0
    out: str = ""
    err: str = ""


Answer = Callable[[Reply], None]


class ServiceManager:
    """All units of an instance."""

    def __init__(
        self,
        *,
        root: Path,
        environment: dict[str, str],
        report: Callable[[dict[str, Any]], None],
        power_off: Callable[[], None],
    ) -> None:
        self._root = root
        self._environment = environment
        self._report = report
        self._power_off = power_off
        self._units: dict[str, RunningUnit] = {}
        self._enabled: set[str] = set()
        self._waiting: list[tuple[RunningUnit, set[UnitState], Answer]] = []
        self._restarting: set[str] = set()

    def running(self) -> bool:
        """Whether any unit has a process."""
        return any(unit.running for unit in self._units.values())

    def wakes_at(self) -> float | None:
        """When `tick` is due next."""
        return min((unit.wakes_at for unit in self._units.values() if unit.wakes_at is not None), default=None)

    def tick(self, now: float) -> None:
        """Restart and kill what is due."""
        for unit in self._units.values():
            unit.tick(now)

    def reaped(self, pid: int, code: int) -> None:
        """Tell the unit whose process ended. Other processes are orphans and need nothing."""
        for unit in self._units.values():
            if unit.pid == pid:
                unit.reaped(code)

    def stop_all(self, *, within_seconds: float) -> None:
        """Stop every unit; what does not end in time is killed."""
        self._restarting.clear()
        for unit in self._units.values():
            unit.stop(within_seconds=within_seconds)

    def request(self, argv: list[str], answer: Answer) -> None:
        """Do what a `systemctl` command line asks and answer, at once or when it is done."""
        words = [word for word in argv if not word.startswith("-")]
        if not words:
            answer(Reply(code=1, err=f"systemctl: the local cloud's systemctl needs one of: {VERBS}\n"))
            return
        verb, *names = words
        try:
            self._do(verb, [unit_name(name) for name in names], argv, answer)
        except UnitError as error:
            answer(Reply(code=1, err=f"systemctl: {error}\n"))

    def _do(self, verb: str, names: list[str], argv: list[str], answer: Answer) -> None:
        match verb:
            case "daemon-reload" | "reset-failed":
                answer(Reply())
            case "enable" | "disable":
                self._enable(names, enabled=verb == "enable")
                self._start_or_stop(verb, names if "--now" in argv else [], answer)
            case "start" | "stop":
                self._start_or_stop("enable" if verb == "start" else "disable", names, answer)
            case "restart" | "try-restart" | "reload-or-restart":
                self._restart(names, answer)
            case "is-active" | "is-failed" | "is-enabled" | "status":
                answer(self._status(verb, names, quiet="--quiet" in argv or "-q" in argv))
            case "poweroff" | "halt" | "reboot":
                self._power_off()
                answer(Reply())
            case _:
                answer(Reply(code=1, err=f"systemctl: the local cloud cannot {verb!r}; it knows: {VERBS}\n"))

    def _enable(self, names: list[str], *, enabled: bool) -> None:
        for name in names:
            self._find(name)
            if enabled:
                self._enabled.add(name)
            else:
                self._enabled.discard(name)

    def _start_or_stop(self, verb: str, names: list[str], answer: Answer) -> None:
        if not names:
            answer(Reply())
        for position, name in enumerate(names):
            unit = self._load(name)
            last = answer if position == len(names) - 1 else (lambda _: None)
            if verb == "enable":
                unit.start()
                self._wait(unit, {UnitState.ACTIVE, UnitState.FAILED, UnitState.INACTIVE}, last)
            else:
                unit.stop()
                self._wait(unit, {UnitState.INACTIVE, UnitState.FAILED}, last)

    def _restart(self, names: list[str], answer: Answer) -> None:
        for position, name in enumerate(names):
            unit = self._load(name)
            last = answer if position == len(names) - 1 else (lambda _: None)
            if unit.pid:
                self._restarting.add(name)
                unit.stop()
                self._waiting.append((unit, {UnitState.ACTIVE}, last))
            else:
                unit.start()
                self._wait(unit, {UnitState.ACTIVE, UnitState.FAILED, UnitState.INACTIVE}, last)

    def _wait(self, unit: RunningUnit, states: set[UnitState], answer: Answer) -> None:
        self._waiting.append((unit, states, answer))
        self._answer_waiting(unit)

    def _answer_waiting(self, unit: RunningUnit) -> None:
        for entry in [entry for entry in self._waiting if entry[0] is unit and unit.state in entry[1]]:
            self._waiting.remove(entry)
            failed = unit.state is UnitState.FAILED and UnitState.ACTIVE in entry[1]
            why = f"Job for {unit.unit.name} failed; its log is {self._journal(unit.unit.name)}\n" if failed else ""
            entry[2](Reply(code=int(failed), err=why))

    def _changed(self, unit: RunningUnit) -> None:
        name = unit.unit.name
        fields = {"event": "unit", "name": name, "state": unit.state, "code": unit.last_code, "pid": unit.pid}
        self._report(fields | {"restarts": unit.restarts})
        if name in self._restarting and not unit.running:
            self._restarting.discard(name)
            unit.start()
            return
        self._answer_waiting(unit)

    def _status(self, verb: str, names: list[str], *, quiet: bool) -> Reply:
        lines, good = [], True
        for name in names:
            unit = self._units.get(name)
            state = unit.state if unit else UnitState.INACTIVE
            match verb:
                case "is-enabled":
                    word, fits = ("enabled", True) if name in self._enabled else ("disabled", False)
                case "is-failed":
                    word, fits = str(state), state is UnitState.FAILED
                case _:
                    word, fits = str(state), state is UnitState.ACTIVE
            good = good and fits
            pid = f" (main pid {unit.pid})" if unit and unit.pid else ""
            lines.append(f"{name}: {word}{pid}\n" if verb == "status" else f"{word}\n")
        return Reply(code=0 if good else 3, out="" if quiet else "".join(lines))

    def _load(self, name: str) -> RunningUnit:
        path = self._find(name)
        unit = parse_unit(name, path.read_text(), environment=self._environment)
        known = self._units.get(name)
        if known is None:
            known = RunningUnit(unit, journal=self._journal(name), on_change=self._changed)
            self._units[name] = known
        elif not known.running:
            known.unit = unit
        if unit.unknown:
            self._journal(name).parent.mkdir(parents=True, exist_ok=True)
            with self._journal(name).open("a") as journal:
                journal.write(f"systemctl: the local cloud ignores {', '.join(unit.unknown)} of {name}\n")
        return known

    def _find(self, name: str) -> Path:
        for folder in ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"):
            if (path := self._root / folder / name).exists():
                return path
        raise UnitError(f"Unit {name} not found in {self._root / 'etc/systemd/system'}")

    def _journal(self, name: str) -> Path:
        return self._root / "var/log/journal" / f"{name}.log"


def unit_name(word: str) -> str:
    """The full name of a unit: `etcd` is `etcd.service`."""
    word = Path(word).name
    return word if "." in word else f"{word}.service"
