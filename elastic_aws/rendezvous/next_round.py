"""When a new round is formed, and with whom: pure rules over what the leader read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from elastic_aws.node_config import Timing
from elastic_aws.rendezvous.seats import Member, take_seats
from elastic_aws.round_record import (
    Bounds,
    Failure,
    MemberState,
    OutcomeRecord,
    OutcomeState,
    RoundPhase,
    RoundReason,
    RoundRecord,
    Seat,
)

CAUSE_WAIT = timedelta(seconds=1)
"""Added to the lease: how long a broken collective is taken for the echo of a loss that the store tells of later."""

_STOPPED = frozenset({MemberState.DRAINED, MemberState.FINISHED})


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the leader knows. Ages are by its own monotonic clock, since it first saw the thing.

    `members` in order of arrival. `enough_for`: at least the minimum has been there; `arrived_for`: since the newest
    arrival; `draining_for`: the round drains; `failed_for`: since the round's first failure.
    """

    members: tuple[Member, ...]
    bounds: Bounds
    timing: Timing
    round: RoundRecord | None = None
    commit_step: int = 0
    ended: bool = False
    enough_for: timedelta = timedelta()
    arrived_for: timedelta = timedelta()
    draining_for: timedelta = timedelta()
    failed_for: timedelta = timedelta()

    @property
    def usable(self) -> tuple[Member, ...]:
        """Members that can be given a seat in the next round."""
        return tuple(member for member in self.members if not member.record.leaving)

    def holder(self, seat: Seat) -> Member | None:
        """The member on this seat, None when it is lost (a node that joined again is another member)."""
        return next((m for m in self.members if m.record.node == seat.node and m.created == seat.member), None)


@dataclass(frozen=True, kw_only=True)
class Keep:
    """Nothing to do. Ask again after `wake_in` even if nothing changes; None: only a change matters."""

    wake_in: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class Write:
    """Write this round."""

    round: RoundRecord


@dataclass(frozen=True, kw_only=True)
class End:
    """The job is over."""

    outcome: OutcomeRecord


Decision = Keep | Write | End


def next_round(seen: Seen) -> Decision:
    """What the leader does next. No clock, no I/O."""
    if seen.ended:
        return Keep()
    if seen.round is None:
        return _first(seen)
    if seen.round.phase is RoundPhase.WAITING:
        enough = len(seen.usable) >= seen.bounds.min
        return _form(seen, RoundReason.ENOUGH_NODES_AGAIN, _names(seen.usable)) if enough else Keep()
    return _after_failure(seen, seen.round) or _after_loss(seen, seen.round) or _orderly(seen, seen.round)


def _first(seen: Seen) -> Decision:
    if len(seen.usable) < seen.bounds.min:
        return Keep()
    wait = seen.timing.first_round_wait - seen.enough_for
    if len(seen.usable) < seen.bounds.target and wait > timedelta():
        return Keep(wake_in=wait)
    return _form(seen, RoundReason.FIRST, _names(seen.usable))


def _after_failure(seen: Seen, now: RoundRecord) -> Decision | None:
    failures = _failures(seen, now)
    if not failures:
        return None
    cause = next((failure for failure in failures if not failure.peer_lost), None)
    if cause is None and _lost(seen, now):
        return None
    wait = seen.timing.lease + CAUSE_WAIT - seen.failed_for
    if cause is None and wait > timedelta():
        return Keep(wake_in=wait)
    return _restart(seen, now, cause or failures[0])


def _failures(seen: Seen, now: RoundRecord) -> list[Failure]:
    holders = [holder for seat in now.seats if (holder := seen.holder(seat)) is not None]
    found = [
        holder.record.failure
        for holder in holders
        if holder.record.round == now.number and holder.record.state is MemberState.FAILED and holder.record.failure
    ]
    return sorted(found, key=lambda failure: failure.rank)


def _restart(seen: Seen, now: RoundRecord, cause: Failure) -> Decision:
    progressed = seen.commit_step > now.progress_step
    restarts = 1 if progressed else now.restarts + 1
    what = f"rank {cause.rank} on {cause.node}: {cause.message}"
    if restarts > seen.timing.max_restarts:
        reason = f"{what} ({restarts} failures without a new checkpoint)"
        end = OutcomeRecord(state=OutcomeState.FAILED, reason=reason, exit_code=cause.exit_code, failure=cause)
        return End(outcome=end)
    base = replace(now, restarts=restarts, progress_step=seen.commit_step)
    return _form(replace(seen, round=base), RoundReason.WORKER_FAILED, what)


def _after_loss(seen: Seen, now: RoundRecord) -> Decision | None:
    lost = _lost(seen, now)
    if not lost:
        return None
    return _form(seen, RoundReason.NODE_LOST, ", ".join(seat.node for seat in lost))


def _lost(seen: Seen, now: RoundRecord) -> list[Seat]:
    return [seat for seat in now.seats if seen.holder(seat) is None]


def _orderly(seen: Seen, now: RoundRecord) -> Decision:
    states = [_state(seen, now, seat) for seat in now.seats]
    if all(state is MemberState.FINISHED for state in states):
        return End(outcome=OutcomeRecord(state=OutcomeState.SUCCEEDED, reason="every worker ended well"))
    if now.phase is RoundPhase.DRAINING:
        wait = seen.timing.drain_timeout - seen.draining_for
        if all(state in _STOPPED for state in states):
            return _form(seen, now.reason, now.detail)
        late = f"{now.detail} (not drained within {seen.timing.drain_timeout.total_seconds():g} s)"
        return Keep(wake_in=wait) if wait > timedelta() else _form(seen, now.reason, late)
    if MemberState.FINISHED in states:
        return Keep()
    return _planned(seen, now)


def _state(seen: Seen, now: RoundRecord, seat: Seat) -> MemberState | None:
    holder = seen.holder(seat)
    return holder.record.state if holder is not None and holder.record.round == now.number else None


def _planned(seen: Seen, now: RoundRecord) -> Decision:
    seated = [holder for seat in now.seats if (holder := seen.holder(seat)) is not None]
    leaving = [member for member in seated if member.record.leaving]
    if leaving:
        detail = ", ".join(f"{member.record.node} ({member.record.leaving_reason})" for member in leaving)
        return _drain(now, RoundReason.NODE_LEFT, detail)
    if len(now.seats) > seen.bounds.max:
        return _drain(now, RoundReason.BOUNDS_CHANGED, f"at most {seen.bounds.max} nodes")
    spares = [member for member in seen.usable if now.seat_of(member.record.node) is None]
    if not spares or len(now.seats) >= seen.bounds.max:
        return Keep()
    wait = seen.timing.join_window - seen.arrived_for
    if len(seen.usable) < seen.bounds.target and wait > timedelta():
        return Keep(wake_in=wait)
    return _drain(now, RoundReason.NODES_JOINED, _names(tuple(spares)))


def _drain(now: RoundRecord, reason: RoundReason, detail: str) -> Write:
    return Write(round=replace(now, phase=RoundPhase.DRAINING, reason=reason, detail=detail))


def _form(seen: Seen, reason: RoundReason, detail: str) -> Decision:
    now = seen.round
    known = [member.record.round for member in seen.members]
    number = max([now.number if now else 0, *known]) + 1
    fresh = RoundRecord(
        number=number,
        phase=RoundPhase.WAITING,
        reason=reason,
        detail=detail,
        seats=(),
        endpoint=None,
        restarts=now.restarts if now else 0,
        progress_step=now.progress_step if now else 0,
    )
    if len(seen.usable) < seen.bounds.min:
        return Write(round=fresh)
    placed = take_seats(seen.usable, now, at_most=seen.bounds.max)
    if placed is None:
        return Keep()
    return Write(round=replace(fresh, phase=RoundPhase.RUNNING, seats=placed.seats, endpoint=placed.endpoint))


def _names(members: tuple[Member, ...]) -> str:
    return ", ".join(member.record.node for member in members)
