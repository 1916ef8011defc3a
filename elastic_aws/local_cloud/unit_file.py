"""What an instance's systemd unit says, as far as the local cloud honours it. Standard library only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

IGNORED = frozenset(
    {
        "After", "Before", "Wants", "Requires", "WantedBy", "RequiredBy", "Description", "Documentation", "User",
        "Group", "LimitNOFILE", "LimitMEMLOCK", "LimitSTACK", "OOMScoreAdjust", "OOMPolicy", "Nice", "TasksMax",
        "SyslogIdentifier", "ExecReload", "DefaultDependencies", "ConditionPathExists", "NoNewPrivileges",
        "ProtectSystem", "PrivateTmp", "ProtectHome", "UMask", "Slice", "Delegate", "Alias", "TimeoutStartSec",
        "StateDirectory", "LogsDirectory", "RuntimeDirectory", "StateDirectoryMode", "LimitCORE", "LimitNPROC",
        "SendSIGKILL", "RestrictAddressFamilies", "CapabilityBoundingSet", "ReadWritePaths", "ProtectKernelTunables",
        "ProtectControlGroups", "IOWeight", "CPUWeight",
    }
)  # fmt: skip
"""Directives that change nothing here: ordering, limits, sandboxing and other users' rights."""

HONOURED = frozenset(
    {
        "Type", "ExecStart", "ExecStartPre", "ExecStopPost", "Environment", "EnvironmentFile", "WorkingDirectory",
        "Restart", "RestartSec", "RestartPreventExitStatus", "SuccessExitStatus", "StandardOutput", "StandardError",
        "KillMode", "KillSignal", "TimeoutStopSec", "RemainAfterExit", "StartLimitBurst", "StartLimitIntervalSec",
    }
)  # fmt: skip

_UNITS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "": 1.0}


class UnitError(Exception):
    """The unit cannot be read. Says why."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One program of a unit. `may_fail`: its exit status does not matter (systemd's `-` prefix)."""

    argv: tuple[str, ...]
    may_fail: bool = False


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One service."""

    name: str
    kind: str
    start: tuple[Command, ...]
    before_start: tuple[Command, ...]
    after_stop: tuple[Command, ...]
    environment: dict[str, str]
    folder: str
    restart: str
    restart_seconds: float
    restart_prevented_by: frozenset[int]
    success: frozenset[int]
    stdout: str
    stderr: str
    kill_mode: str
    stop_seconds: float
    remains: bool
    start_limit: int
    start_limit_seconds: float
    unknown: tuple[str, ...]

    def restarts_after(self, code: int) -> bool:
        """Whether the unit starts again after its main process ended with this status (negative: a signal)."""
        if code in self.restart_prevented_by:
            return False
        if self.restart == "on-failure":
            return not self.succeeded(code)
        if self.restart == "on-success":
            return self.succeeded(code)
        if self.restart in {"on-abnormal", "on-abort"}:
            return code < 0
        return self.restart == "always"

    def succeeded(self, code: int) -> bool:
        """Whether this exit status counts as a success."""
        return code in self.success


def parse_unit(name: str, text: str, *, environment: Mapping[str, str]) -> Unit:
    """Read a service; `environment` is what it inherits and what `$NAME` in its commands refers to.

    Raises: UnitError.
    """
    given = _directives(text)

    def last(key: str, default: str = "") -> str:
        return given[key][-1] if given.get(key) else default

    full = dict(environment) | _environment(given)
    kind = last("Type", "simple")
    start = _commands(given.get("ExecStart", ()), full, name)
    if not start:
        raise UnitError(f"{name}: it has no ExecStart")
    stdout = last("StandardOutput", "journal")
    return Unit(
        name=name,
        kind=kind,
        start=start,
        before_start=_commands(given.get("ExecStartPre", ()), full, name),
        after_stop=_commands(given.get("ExecStopPost", ()), full, name),
        environment=full,
        folder=last("WorkingDirectory").removeprefix("-") or full.get("ELASTIC_AWS_ROOT", "/"),
        restart=last("Restart", "no"),
        restart_seconds=seconds(last("RestartSec", "100ms")),
        restart_prevented_by=_codes(given.get("RestartPreventExitStatus", ())),
        success=_codes(given.get("SuccessExitStatus", ())) | {0, -1, -2, -13, -15},
        stdout=stdout,
        stderr=last("StandardError", "inherit"),
        kill_mode=last("KillMode", "control-group"),
        stop_seconds=seconds(last("TimeoutStopSec", "90")),
        remains=last("RemainAfterExit", "no").lower() in {"yes", "true", "1", "on"},
        start_limit=int(last("StartLimitBurst", "5")),
        start_limit_seconds=seconds(last("StartLimitIntervalSec", "10")),
        unknown=tuple(sorted(key for key in given if key not in HONOURED and key not in IGNORED)),
    )


def _directives(text: str) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#;[":
            continue
        key, equals, value = stripped.partition("=")
        if not equals:
            raise UnitError(f"not a directive: {stripped!r}")
        if not value.strip():  # an empty assignment resets a list
            given[key.strip()] = []
        else:
            given.setdefault(key.strip(), []).append(value.strip())
    return given


def _environment(given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in given.get("Environment", ()):
        for assignment in shlex.split(line):
            name, _, value = assignment.partition("=")
            found[name] = value.replace("%%", "%")
    for path in given.get("EnvironmentFile", ()):
        found |= _environment_file(path)
    return found


def _environment_file(path: str) -> dict[str, str]:
    file = Path(path.removeprefix("-"))
    if not file.exists():
        if path.startswith("-"):
            return {}
        raise UnitError(f"EnvironmentFile {file} does not exist")
    found = {}
    for line in file.read_text().splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#;":
            name, _, value = stripped.partition("=")
            words = shlex.split(value)
            found[name.strip()] = words[0] if len(words) == 1 else value.strip()
    return found


def _commands(lines: Sequence[str], environment: Mapping[str, str], unit: str) -> tuple[Command, ...]:
    commands = []
    for line in lines:
        stripped = line.lstrip("@+!:-")
        may_fail = "-" in line[: len(line) - len(stripped)]
        words = [_specifiers(word, unit) for word in shlex.split(stripped)]
        argv = [expanded for word in words for expanded in _expand(word, environment)]
        commands.append(Command(argv=tuple(argv), may_fail=may_fail))
    return tuple(commands)


def _specifiers(word: str, unit: str) -> str:
    stem = unit.removesuffix(".service")
    values = {"%n": unit, "%N": stem, "%p": stem.partition("@")[0], "%i": stem.partition("@")[2], "%%": "%"}
    return re.sub(r"%[nNpi%]", lambda match: values[match.group()], word)


def _expand(word: str, environment: Mapping[str, str]) -> list[str]:
    """As systemd: `${NAME}` is replaced in place, `$NAME` alone is split into words, `$$` is a dollar."""
    if re.fullmatch(r"\$[A-Za-z_]\w*", word):
        return environment.get(word[1:], "").split()
    pattern = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)\}")
    return [pattern.sub(lambda match: environment.get(match[1], "") if match[1] else "$", word)]


def _codes(lines: Sequence[str]) -> frozenset[int]:
    words = [word for line in lines for word in line.split()]
    return frozenset(int(word) for word in words if word.isdigit())


def seconds(text: str) -> float:
    """A systemd time span (`5`, `100ms`, `1min 30s`, `infinity`) in seconds. Raises: UnitError."""
    if text == "infinity":
        return float("inf")
    parts = re.findall(r"([\d.]+)\s*([a-z]*)", text)
    if not parts or any(unit not in _UNITS for _, unit in parts):
        raise UnitError(f"not a time span: {text!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
