"""What one node does next: a pure function over what its agent knows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from elastic_aws.round_record import OutcomeRecord, RoundPhase, RoundRecord


class GroupState(StrEnum):
    """How far this node's workers are."""

    NONE = "none"
    RUNNING = "running"
    DRAINING = "draining"
    DRAINED = "drained"
    FINISHED = "finished"
    FAILED = "failed"


class Act(Enum):
    """One act of a node."""

    WAIT = auto()
    START_WORKERS = auto()
    DRAIN_WORKERS = auto()
    STOP_WORKERS = auto()
    LEAVE = auto()
    END = auto()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All that the decision looks at. `group_round` is the round that the workers were last started for."""

    node: str
    incarnation: str
    round: RoundRecord | None
    outcome: OutcomeRecord | None
    group: GroupState
    group_round: int
    leaving: bool
    must_go_now: bool

    @property
    def seated(self) -> bool:
        """Whether this very agent has a seat in the round."""
        seat = self.round.seat_of(self.node) if self.round else None
        return seat is not None and seat.incarnation == self.incarnation

    @property
    def active(self) -> bool:
        """Whether worker processes run."""
        return self.group in (GroupState.RUNNING, GroupState.DRAINING)


def next_act(seen: Seen) -> Act:  # noqa: PLR0911 - a table of rules, one a line
    """What this node does next. No clock, no I/O."""
    if seen.outcome is not None:
        return Act.STOP_WORKERS if seen.active else Act.END
    if seen.must_go_now:
        return Act.STOP_WORKERS if seen.active else Act.LEAVE
    stale = seen.round is None or seen.round.number > seen.group_round
    if stale and seen.active and seen.round is not None:
        return Act.STOP_WORKERS
    if seen.leaving and _may_leave(seen):
        return Act.LEAVE
    if seen.round is None or not seen.seated:
        return Act.WAIT
    if stale and seen.round.phase is RoundPhase.RUNNING and not seen.leaving:
        return Act.START_WORKERS
    if seen.round.phase is RoundPhase.DRAINING and seen.group is GroupState.RUNNING:
        return Act.DRAIN_WORKERS
    return Act.WAIT


def _may_leave(seen: Seen) -> bool:
    """Whether nobody waits for this node's workers any more.

    Finished ones are waited for: the job's outcome needs to see all of them.
    """
    if seen.active or seen.group is GroupState.FINISHED:
        return False
    return not seen.seated or seen.group in (GroupState.DRAINED, GroupState.FAILED) or seen.group is GroupState.NONE
