"""The script of a spot market: what happens when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import yaml

from elastic_aws.errors import UsageError

SPOT_NOTICE = timedelta(seconds=10)
"""Warning before an instance goes where a script names none. EC2 gives two minutes; a demonstration cannot wait."""

_FORM = (
    'a list of {at: SECONDS, interrupt: INSTANCE, COUNT, "oldest" or "newest", notice: SECONDS} '
    "and {at: SECONDS, capacity: N}"
)


@dataclass(frozen=True, kw_only=True)
class Interrupt:
    """Take instances back: one by its id, the oldest, the newest, or as many of the oldest as `target` says."""

    target: str | int
    notice: timedelta = SPOT_NOTICE
    replace: bool = True


@dataclass(frozen=True, kw_only=True)
class Rebalance:
    """Recommend a rebalance to the same kind of target."""

    target: str | int


@dataclass(frozen=True, kw_only=True)
class SetCapacity:
    """From now on the market gives this many instances in all; None: any number. Running ones stay."""

    instances: int | None


MarketAct = Interrupt | Rebalance | SetCapacity


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """An act, so long after the first spot instance was launched."""

    at: timedelta
    act: MarketAct


@dataclass(frozen=True, kw_only=True)
class SpotInstance:
    """A running spot instance. `order` grows with the launch; `noticed`: its interruption is announced already."""

    id: str
    order: int
    noticed: bool = False


def parse_script(text: str) -> tuple[Scheduled, ...]:
    """Read a market file (YAML or JSON), sorted by time. Raises: UsageError naming the entry."""
    try:
        entries = yaml.safe_load(text) or []
    except yaml.YAMLError as error:
        raise UsageError("the market file cannot be read", why=str(error), hint=f"write {_FORM}") from error
    if not isinstance(entries, list):
        raise UsageError("the market file is no list", why=f"it is a {type(entries).__name__}", hint=f"write {_FORM}")
    scheduled = [_entry(number, entry) for number, entry in enumerate(entries, start=1)]
    return tuple(sorted(scheduled, key=lambda one: one.at))


def _entry(number: int, entry: Any) -> Scheduled:
    try:
        at, act = _scheduled(entry)
    except KeyError as error:
        raise UsageError(
            f"market file, entry {number}", why=f"{error.args[0]} is missing", hint=f"write {_FORM}"
        ) from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"market file, entry {number}", why=str(error), hint=f"write {_FORM}") from error
    return Scheduled(at=at, act=act)


def _scheduled(entry: Any) -> tuple[timedelta, MarketAct]:
    if not isinstance(entry, dict):
        raise TypeError("it is no mapping")
    rest = dict(entry)
    at = _seconds(rest.pop("at"), "at")
    act = _act(rest)
    if rest:
        raise ValueError(f"unknown: {', '.join(sorted(map(str, rest)))}")
    return at, act


def _act(rest: dict[str, Any]) -> MarketAct:
    kinds = [kind for kind in ("interrupt", "rebalance", "capacity") if kind in rest]
    if len(kinds) != 1:
        raise ValueError("it needs exactly one of interrupt, rebalance, capacity")
    kind, value = kinds[0], rest.pop(kinds[0])
    if kind == "capacity":
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise ValueError(f"capacity is a number of instances or null, not {value!r}")
        return SetCapacity(instances=value)
    target = _target(value)
    if kind == "rebalance":
        return Rebalance(target=target)
    notice = _seconds(rest.pop("notice", SPOT_NOTICE.total_seconds()), "notice")
    return Interrupt(target=target, notice=notice, replace=bool(rest.pop("replace", True)))


def _target(value: Any) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and (value in {"oldest", "newest"} or value.startswith("i-")):
        return value
    raise ValueError(f'{value!r} is no target: an instance id, a count from 1, "oldest" or "newest"')


def _seconds(value: Any, name: str) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ValueError(f"{name} is a number of seconds from 0, not {value!r}")
    return timedelta(seconds=value)


def choose(target: str | int, running: Sequence[SpotInstance]) -> list[str]:
    """Whom an act concerns: never one whose interruption is announced already, unless it is named."""
    if isinstance(target, str) and target.startswith("i-"):
        return [one.id for one in running if one.id == target]
    free = sorted((one for one in running if not one.noticed), key=lambda one: one.order)
    if target == "newest":
        return [one.id for one in free[-1:]]
    return [one.id for one in free[: target if isinstance(target, int) else 1]]


def room(capacity: int | None, running: int) -> int | None:
    """How many more instances the market gives; None for any number."""
    return None if capacity is None else max(0, capacity - running)
