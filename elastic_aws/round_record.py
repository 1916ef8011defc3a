"""What nodes write in the store: its keys and its records, as JSON with a schema version."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from pydantic import ValidationError

from elastic_aws.errors import MalformedRecordError
from elastic_aws.json_codec import adapter

Record = TypeVar("Record")

SCHEMA = 1
"""Version of every record below. A reader refuses a record of another version."""


class RoundReason(StrEnum):
    """Why a round was formed."""

    FIRST = "first"
    NODE_LOST = "node_lost"
    NODE_LEFT = "node_left"
    NODES_JOINED = "nodes_joined"
    WORKER_FAILED = "worker_failed"
    BOUNDS_CHANGED = "bounds_changed"
    ENOUGH_NODES_AGAIN = "enough_nodes_again"


class RoundPhase(StrEnum):
    """What the members of a round do: train, stop at one agreed step, or wait for more nodes."""

    RUNNING = "running"
    DRAINING = "draining"
    WAITING = "waiting"


class MemberState(StrEnum):
    """What a member's workers do in `MemberRecord.round`."""

    READY = "ready"
    RUNNING = "running"
    DRAINED = "drained"
    FINISHED = "finished"
    FAILED = "failed"


class OutcomeState(StrEnum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How many nodes the job may have (`min`..`max`) and how many it asks for now (`target`)."""

    min: int
    max: int
    target: int
    schema: int = SCHEMA


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a round's TCP store listens. Served by an agent before it is published; used by one round only."""

    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What a worker died of. `exit_code` is negative for a signal, as in `subprocess`.

    `peer_lost`: its collective broke, so this is most often only the echo of another worker's or node's end.
    """

    node: str
    rank: int
    round: int
    exit_code: int
    message: str
    traceback: str = ""
    log_tail: tuple[str, ...] = ()
    peer_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class MemberRecord:
    """One live node, under its lease.

    `address` is where other nodes reach it; `workers` how many it runs; `endpoint` its next unused TCP store.
    `round` and `state` tell how far its workers are; `leaving` that it will go and wants no seat in the next round.
    `step` is the newest step its workers reported when `state` last changed. `incarnation` differs each time an agent
    starts: a node that came back under its old name does not hold its old seat.
    """

    node: str
    address: str
    workers: int
    endpoint: Endpoint
    state: MemberState = MemberState.READY
    round: int = 0
    step: int = 0
    leaving: bool = False
    leaving_reason: str = ""
    failure: Failure | None = None
    zone: str = ""
    instance_type: str = ""
    incarnation: str = ""
    schema: int = SCHEMA


@dataclass(frozen=True, kw_only=True)
class Seat:
    """A node's place in a round: its workers hold ranks `first_rank` .. `first_rank + workers - 1`."""

    node: str
    first_rank: int
    workers: int
    incarnation: str = ""


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """One agreed membership. `seats` are in rank order; `endpoint` is the TCP store of this round.

    `restarts` counts worker failures since `progress_step`, the committed step at the first of them.
    """

    number: int
    phase: RoundPhase
    reason: RoundReason
    detail: str
    seats: tuple[Seat, ...]
    endpoint: Endpoint | None
    restarts: int = 0
    progress_step: int = 0
    schema: int = SCHEMA

    @property
    def world_size(self) -> int:
        """Number of workers in the round."""
        return sum(seat.workers for seat in self.seats)

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the nodes that have a seat."""
        return frozenset(seat.node for seat in self.seats)

    def seat_of(self, node: str) -> Seat | None:
        """The node's seat, or None for a spare."""
        return next((seat for seat in self.seats if seat.node == node), None)


@dataclass(frozen=True, kw_only=True)
class CommitRecord:
    """The newest checkpoint.

    `place` is its URI or folder, `digest` the SHA-256 of its manifest, `parent` the place of the commit before.
    """

    round: int
    step: int
    place: str
    digest: str
    epoch: int = 0
    samples: int = 0
    parent: str = ""
    schema: int = SCHEMA


@dataclass(frozen=True, kw_only=True)
class ProgressRecord:
    """What rank 0 last reported; written by its agent every few seconds, for people only."""

    round: int
    step: int
    epoch: int
    samples_per_second: float
    metrics: dict[str, float] = field(default_factory=dict)
    schema: int = SCHEMA


@dataclass(frozen=True, kw_only=True)
class OutcomeRecord:
    """How the job ended; written once. `exit_code` is the worker's own where one ended the job."""

    state: OutcomeState
    reason: str
    exit_code: int = 0
    failure: Failure | None = None
    schema: int = SCHEMA


@dataclass(frozen=True, kw_only=True)
class StoreKeys:
    """Every key of one job in the store."""

    job: str

    @property
    def root(self) -> str:
        """Prefix of everything the job has in the store."""
        return f"/elastic-aws/{self.job}/"

    @property
    def bounds(self) -> str:
        """`Bounds`."""
        return self.root + "bounds"

    @property
    def members(self) -> str:
        """Prefix of all `MemberRecord`s."""
        return self.root + "members/"

    def member(self, node: str) -> str:
        """`MemberRecord` of one node, leased."""
        return self.members + node

    @property
    def leader(self) -> str:
        """Name of the node that forms rounds, leased."""
        return self.root + "leader"

    @property
    def round(self) -> str:
        """`RoundRecord`, compare-and-swap by the leader."""
        return self.root + "round"

    @property
    def commit(self) -> str:
        """`CommitRecord`, compare-and-swap, fenced by the round."""
        return self.root + "commit"

    @property
    def progress(self) -> str:
        """`ProgressRecord`, written by rank 0's agent."""
        return self.root + "progress"

    @property
    def outcome(self) -> str:
        """`OutcomeRecord`, written once."""
        return self.root + "outcome"


def encode(record: object) -> bytes:
    """The record as JSON bytes, ready for the store."""
    return adapter(type(record)).dump_json(record)


def decode(record_type: type[Record], value: bytes) -> Record:
    """Parse a value from the store.

    Raises: MalformedRecordError when it is no record of this type and schema version.
    """
    try:
        record = adapter(record_type).validate_json(value)
    except ValidationError as error:
        raise MalformedRecordError(f"a value in the store is no {record_type.__name__}", why=str(error)) from error
    if getattr(record, "schema", SCHEMA) != SCHEMA:
        what = f"a {record_type.__name__} in the store has another schema version"
        raise MalformedRecordError(what, why=repr(record))
    return record
