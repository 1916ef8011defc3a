"""When a new round is formed, and of whom: pure rules over what the leader read from the store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from elastic_aws.node_config import Timing
from elastic_aws.round_record import (
    Bounds,
    Failure,
    MemberRecord,
    MemberState,
    OutcomeRecord,
    OutcomeState,
    RoundPhase,
    RoundReason,
    RoundRecord,
    Seat,
)

ECHO_WAIT = timedelta(seconds=0.5)
"""Added to the lease: how long a broken collective may wait for the loss that broke it to become known."""

_DONE = (MemberState.DRAINED, MemberState.FINISHED, MemberState.FAILED)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All that the rules look at. `members` are in order of arrival; moments are seconds of the leader's own clock.

    `min_met_at`: since when there are enough members for a round. `last_arrival_at`: when the newest member came.
    `phase_since`: when this leader first saw the round in its phase. `failed_at`: when it first saw a failure of it.
    `committed_step`: the newest checkpoint's step, 0 before the first.
    """

    bounds: Bounds
    round: RoundRecord | None
    members: tuple[MemberRecord, ...]
    committed_step: int
    timing: Timing
    now: float
    min_met_at: float | None
    last_arrival_at: float
    phase_since: float
    failed_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Keep:
    """Change nothing; look again at `until` (None: when something changes)."""

    until: float | None = None


@dataclass(frozen=True, kw_only=True)
class Write:
    """Make this the round."""

    record: RoundRecord


@dataclass(frozen=True, kw_only=True)
class End:
    """Write the job's outcome."""

    outcome: OutcomeRecord


Decision = Keep | Write | End


def next_round(seen: Seen) -> Decision:
    """What the leader does now. No clock, no I/O."""
    current = seen.round
    if current is None or current.phase is RoundPhase.WAITING:
        return _first_or_again(seen)
    if decision := _ended(seen, current):
        return decision
    if decision := _broken(seen, current):
        return decision
    if current.phase is RoundPhase.DRAINING:
        return _drained(seen, current)
    return _planned(seen, current)


def candidates(seen: Seen) -> tuple[MemberRecord, ...]:
    """Members that want a seat: those of the round first, in its order, then the others in order of arrival."""
    wanting = {member.node: member for member in seen.members if not member.leaving}
    seated = [seat.node for seat in seen.round.seats] if seen.round else []
    first = [wanting[node] for node in seated if node in wanting]
    return (*first, *(member for member in wanting.values() if member.node not in seated))


def _first_or_again(seen: Seen) -> Decision:
    again = seen.round is not None and seen.round.number > 0
    count = len(candidates(seen))
    if count < seen.bounds.min or seen.min_met_at is None:
        return Keep()
    if again:
        return _form(seen, RoundReason.ENOUGH_NODES_AGAIN, f"{count} nodes are there again")
    waited_until = seen.min_met_at + seen.timing.first_round_wait.total_seconds()
    if count >= seen.bounds.target or seen.now >= waited_until:
        return _form(seen, RoundReason.FIRST, f"the first {_nodes(min(count, seen.bounds.max))}")
    return Keep(until=waited_until)


def _seated(seen: Seen, current: RoundRecord) -> dict[Seat, MemberRecord | None]:
    members = {(member.node, member.incarnation): member for member in seen.members}
    return {seat: members.get((seat.node, seat.incarnation)) for seat in current.seats}


def _state(member: MemberRecord | None, current: RoundRecord) -> MemberState | None:
    return member.state if member is not None and member.round == current.number else None


def _ended(seen: Seen, current: RoundRecord) -> Decision | None:
    states = [_state(member, current) for member in _seated(seen, current).values()]
    if states and all(state is MemberState.FINISHED for state in states):
        return End(outcome=OutcomeRecord(state=OutcomeState.SUCCEEDED, reason="all workers finished"))
    return None


def _broken(seen: Seen, current: RoundRecord) -> Decision | None:
    """A worker failed, or a seat is empty while the round runs."""
    seated = _seated(seen, current)
    lost = [seat.node for seat, member in seated.items() if member is None]
    failures = [
        member.failure
        for member in seated.values()
        if member is not None and _state(member, current) is MemberState.FAILED and member.failure is not None
    ]
    causes = [failure for failure in failures if not failure.peer_lost]
    if causes:
        return _after_failure(seen, current, causes[0])
    if lost and current.phase is RoundPhase.RUNNING:
        return _form(seen, RoundReason.NODE_LOST, f"{', '.join(lost)} {'is' if len(lost) == 1 else 'are'} gone")
    if failures and not lost:
        patience = (seen.timing.lease + ECHO_WAIT).total_seconds()
        until = (seen.now if seen.failed_at is None else seen.failed_at) + patience
        if seen.now >= until:
            return _after_failure(seen, current, failures[0])
        if not all(_state(member, current) in _DONE for member in seated.values()):
            return Keep(until=until)
        if current.phase is RoundPhase.RUNNING:
            return Keep(until=until)
    return None


def _after_failure(seen: Seen, current: RoundRecord, failure: Failure) -> Decision:
    progressed = seen.committed_step > current.progress_step
    restarts = 1 if progressed else current.restarts + 1
    if restarts > seen.timing.max_restarts:
        code = failure.exit_code if failure.exit_code > 0 else 1
        reason = f"rank {failure.rank} on {failure.node} failed {restarts} times without progress: {failure.message}"
        return End(outcome=OutcomeRecord(state=OutcomeState.FAILED, reason=reason, exit_code=code, failure=failure))
    counted = replace(current, restarts=restarts, progress_step=seen.committed_step)
    detail = f"rank {failure.rank} on {failure.node} failed: {failure.message}"
    return _form(replace(seen, round=counted), RoundReason.WORKER_FAILED, detail)


def _drained(seen: Seen, current: RoundRecord) -> Decision:
    seated = _seated(seen, current)
    until = seen.phase_since + seen.timing.drain_timeout.total_seconds()
    if all(member is None or _state(member, current) in _DONE for member in seated.values()) or seen.now >= until:
        return _form(seen, current.reason, current.detail)
    return Keep(until=until)


def _planned(seen: Seen, current: RoundRecord) -> Decision:
    leaving = [member.node for member in seen.members if member.leaving and current.seat_of(member.node)]
    if leaving:
        return _drain(current, RoundReason.NODE_LEFT, f"{', '.join(leaving)} leaves")
    wanting = candidates(seen)
    if len(current.seats) > seen.bounds.max:
        return _drain(current, RoundReason.BOUNDS_CHANGED, f"at most {_nodes(seen.bounds.max)} now")
    new = [member.node for member in wanting if current.seat_of(member.node) is None]
    if not new or len(current.seats) >= seen.bounds.max:
        return Keep()
    until = seen.last_arrival_at + seen.timing.join_window.total_seconds()
    if len(wanting) >= seen.bounds.target or seen.now >= until:
        return _drain(current, RoundReason.NODES_JOINED, f"{', '.join(new)} {'is' if len(new) == 1 else 'are'} there")
    return Keep(until=until)


def _drain(current: RoundRecord, reason: RoundReason, detail: str) -> Write:
    return Write(record=replace(current, phase=RoundPhase.DRAINING, reason=reason, detail=detail))


def _form(seen: Seen, reason: RoundReason, detail: str) -> Decision:
    """The next round of all candidates, up to the maximum; one that waits where they are too few."""
    before = seen.round
    number = (before.number if before else 0) + 1
    restarts, progress = (before.restarts, before.progress_step) if before else (0, 0)
    members = candidates(seen)[: seen.bounds.max]
    if len(members) < seen.bounds.min:
        return Write(
            record=RoundRecord(
                number=number,
                phase=RoundPhase.WAITING,
                reason=reason,
                detail=f"{detail}; waiting for {_nodes(seen.bounds.min)}",
                seats=(),
                endpoint=None,
                restarts=restarts,
                progress_step=progress,
            )
        )
    if before is not None and members[0].endpoint == before.endpoint:
        return Keep()  # its agent is opening a fresh TCP store and will say so
    seats, rank = [], 0
    for member in members:
        seats.append(Seat(node=member.node, first_rank=rank, workers=member.workers, incarnation=member.incarnation))
        rank += member.workers
    return Write(
        record=RoundRecord(
            number=number,
            phase=RoundPhase.RUNNING,
            reason=reason,
            detail=detail,
            seats=tuple(seats),
            endpoint=members[0].endpoint,
            restarts=restarts,
            progress_step=progress,
        )
    )


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
