"""What an auto scaling group does next. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The lifecycle states of EC2 Auto Scaling that the local cloud knows."""

    PENDING_WAIT = "Pending:Wait"
    IN_SERVICE = "InService"
    TERMINATING_WAIT = "Terminating:Wait"
    TERMINATING = "Terminating"

    @property
    def counts(self) -> bool:
        """Whether an instance in it counts as capacity."""
        return self in {Phase.PENDING_WAIT, Phase.IN_SERVICE}


@dataclass(frozen=True, kw_only=True)
class MemberSeen:
    """An instance of the group as it stands.

    `order` grows with the launch. `alive`: EC2 shows it running, or, once it leaves, not yet terminated.
    `healthy`: nobody reported it unhealthy.
    `wait_over`: the hook that it waits for was completed or timed out. `replaced`: a rebalance wants it gone.
    """

    instance: str
    zone: str
    order: int
    phase: Phase
    alive: bool
    healthy: bool = True
    protected: bool = False
    wait_over: bool = False
    replaced: bool = False


@dataclass(frozen=True, kw_only=True)
class GroupSeen:
    """A group as it stands.

    `zones` of its subnets in their order. `room`: how many more instances the market gives, None for any number.
    `may_launch`: no replacement delay is running and launching is not suspended.
    """

    desired: int
    zones: tuple[str, ...]
    members: tuple[MemberSeen, ...]
    newest_first: bool = False
    room: int | None = None
    may_launch: bool = True
    may_terminate: bool = True


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Launch an instance in this zone."""

    zone: str


@dataclass(frozen=True, kw_only=True)
class NoRoom:
    """This many instances are wanted, and the market has none."""

    missing: int


@dataclass(frozen=True, kw_only=True)
class Retire:
    """Begin to end an instance: through the terminating hook, where the group has one."""

    instance: str
    reason: str
    shrinks: bool


@dataclass(frozen=True, kw_only=True)
class Enter:
    """The launching hook is over: the instance is in service."""

    instance: str


@dataclass(frozen=True, kw_only=True)
class Terminate:
    """The terminating hook is over: end the instance."""

    instance: str


@dataclass(frozen=True, kw_only=True)
class Forget:
    """The instance ended without the group's doing (`planned` False), or as the group wished."""

    instance: str
    planned: bool


Move = Launch | NoRoom | Retire | Enter | Terminate | Forget


def next_moves(seen: GroupSeen) -> tuple[Move, ...]:
    """All that is to be done now, in order."""
    gone = [Forget(instance=m.instance, planned=not m.phase.counts) for m in seen.members if not m.alive]
    if gone:
        return tuple(gone)  # the rest is judged without them, once a replacement delay may have begun
    moves: list[Move] = []
    for member in seen.members:
        if member.wait_over and member.phase is Phase.PENDING_WAIT:
            moves.append(Enter(instance=member.instance))
        if member.wait_over and member.phase is Phase.TERMINATING_WAIT:
            moves.append(Terminate(instance=member.instance))
    counted = [member for member in seen.members if member.phase.counts]
    unhealthy = [member for member in counted if not member.healthy] if seen.may_terminate else []
    moves += [Retire(instance=m.instance, reason="of a failed health check", shrinks=False) for m in unhealthy]
    return tuple(moves + _resize(seen, [member for member in counted if member not in unhealthy]))


def _resize(seen: GroupSeen, counted: Sequence[MemberSeen]) -> list[Move]:
    leaving = [member for member in counted if member.replaced]
    staying = [member for member in counted if not member.replaced]
    missing = seen.desired - len(staying)
    if missing > 0:
        return _launches(seen, staying, missing) if seen.may_launch else []
    if not seen.may_terminate:
        return []
    moves: list[Move] = []
    in_service = [member for member in staying if member.phase is Phase.IN_SERVICE]
    if leaving and len(in_service) >= seen.desired:
        moves += [Retire(instance=m.instance, reason="of a rebalance recommendation", shrinks=False) for m in leaving]
    victims = victims_of(staying, -missing, newest_first=seen.newest_first)
    reason = f"its group has {len(staying)} instances and wants {seen.desired}"
    return moves + [Retire(instance=victim, reason=reason, shrinks=True) for victim in victims]


def _launches(seen: GroupSeen, staying: Sequence[MemberSeen], missing: int) -> list[Move]:
    possible = missing if seen.room is None else min(missing, max(seen.room, 0))
    filled = [member.zone for member in staying]
    moves: list[Move] = []
    for _ in range(possible):
        zone = min(seen.zones, key=lambda zone: (filled.count(zone), seen.zones.index(zone)))
        filled.append(zone)
        moves.append(Launch(zone=zone))
    return moves if possible == missing else [*moves, NoRoom(missing=missing - possible)]


def victims_of(members: Sequence[MemberSeen], count: int, *, newest_first: bool) -> list[str]:
    """Who goes in a scale-in: from the zone with the most, there the oldest (or newest); never protected ones."""
    left = [member for member in members if not member.protected]
    victims: list[str] = []
    while left and len(victims) < count:
        zones = [member.zone for member in left]
        sign = -1 if newest_first else 1
        victim = min(left, key=lambda member: (-zones.count(member.zone), sign * member.order))
        left.remove(victim)
        victims.append(victim.instance)
    return victims
