"""All that can happen, as frozen dataclasses; `event_log` writes each as one JSON line."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from elastic_aws.round_record import Failure, OutcomeState, RoundReason


@dataclass(frozen=True, kw_only=True)
class AgentStarted:
    """The agent runs on its node; its fork server is still preloading."""

    version: str
    address: str


@dataclass(frozen=True, kw_only=True)
class SetupCommandDone:
    """One of the job's set-up commands ended well."""

    command: str
    took: timedelta


@dataclass(frozen=True, kw_only=True)
class NodeJoined:
    """The node's member key is in the store: it can be given a seat."""

    workers: int
    zone: str
    instance_type: str
    took: timedelta


@dataclass(frozen=True, kw_only=True)
class NodeLeft:
    """The node deleted its member key by itself."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class InterruptionNoticed:
    """The node learned that it will lose its machine. `seconds_left` is None when no time was named."""

    source: str
    action: str
    seconds_left: float | None


@dataclass(frozen=True, kw_only=True)
class BecameLeader:
    """This node forms the rounds from now on."""


@dataclass(frozen=True, kw_only=True)
class RoundFormed:
    """The leader wrote a new round."""

    round: int
    world_size: int
    nodes: tuple[str, ...]
    reason: RoundReason
    detail: str


@dataclass(frozen=True, kw_only=True)
class RoundDraining:
    """The leader asked the round's workers to stop at one agreed step."""

    round: int
    reason: RoundReason
    detail: str


@dataclass(frozen=True, kw_only=True)
class WaitingForNodes:
    """Fewer members than the minimum: no round can be formed."""

    members: int
    needed: int


@dataclass(frozen=True, kw_only=True)
class WorkersStarted:
    """The node's workers of this round were started, with these ranks."""

    round: int
    ranks: tuple[int, ...]
    world_size: int


@dataclass(frozen=True, kw_only=True)
class TrainingResumed:
    """The first step of a round on this node.

    `gap` is the time since this node's last step in an earlier round, None when it had none.
    """

    round: int
    step: int
    gap: timedelta | None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Rank 0's progress, every few seconds."""

    round: int
    step: int
    epoch: int
    samples: int
    samples_per_second: float
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CheckpointCommitted:
    """A checkpoint became the newest."""

    round: int
    step: int
    place: str


@dataclass(frozen=True, kw_only=True)
class CommitRefused:
    """A checkpoint of a round that is over, or older than the newest, was not made the newest."""

    round: int
    step: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class WorkersDrained:
    """All of the node's workers stopped at the agreed step with their state saved."""

    round: int
    step: int


@dataclass(frozen=True, kw_only=True)
class WorkersStopped:
    """The node's workers of this round were ended by the agent."""

    round: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class WorkerFailed:
    """A worker ended badly by itself."""

    failure: Failure


@dataclass(frozen=True, kw_only=True)
class StoreLost:
    """The store does not answer; training goes on, membership cannot change."""

    why: str


@dataclass(frozen=True, kw_only=True)
class StoreFound:
    """The store answers again. `replaced`: it is another, empty one."""

    replaced: bool


@dataclass(frozen=True, kw_only=True)
class RecordSkipped:
    """A value in the store was not a record of ours."""

    key: str
    why: str


@dataclass(frozen=True, kw_only=True)
class LogsUnwritable:
    """Logs cannot be written or shipped; training goes on. Said once until it works again."""

    why: str


@dataclass(frozen=True, kw_only=True)
class BoundsChanged:
    """The controller wrote new bounds for the job."""

    min: int
    max: int
    target: int


@dataclass(frozen=True, kw_only=True)
class JobEnded:
    """The job's outcome is written."""

    state: OutcomeState
    reason: str
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class AgentFailed:
    """The agent itself cannot go on."""

    why: str


Event = (
    AgentStarted
    | SetupCommandDone
    | NodeJoined
    | NodeLeft
    | InterruptionNoticed
    | BecameLeader
    | RoundFormed
    | RoundDraining
    | WaitingForNodes
    | WorkersStarted
    | TrainingResumed
    | Progress
    | CheckpointCommitted
    | CommitRefused
    | WorkersDrained
    | WorkersStopped
    | WorkerFailed
    | StoreLost
    | StoreFound
    | RecordSkipped
    | LogsUnwritable
    | BoundsChanged
    | JobEnded
    | AgentFailed
)
