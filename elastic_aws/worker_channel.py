"""Messages between a worker and its node's agent: JSON lines over the UNIX socket `ELASTIC_AWS_AGENT_SOCKET`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from elastic_aws.errors import ElasticAwsError
from elastic_aws.round_record import CommitRecord

SOCKET_VARIABLE = "ELASTIC_AWS_AGENT_SOCKET"
"""Environment variable of a worker: path of its agent's socket."""
ROUND_VARIABLE = "ELASTIC_AWS_ROUND"
"""Environment variable of a worker: number of the round it was started for."""


@dataclass(frozen=True, kw_only=True)
class Hello:
    """Worker -> agent, first line of a connection."""

    round: int
    rank: int
    local_rank: int
    pid: int
    type: Literal["hello"] = "hello"


@dataclass(frozen=True, kw_only=True)
class StepDone:
    """Worker -> agent: steps up to `step` (counted from 1 over the whole job) are done. Throttled by the sender.

    `samples` counts samples of the whole world since the start of the job, `metrics` is what the script reported.
    An `important` one is shown at once.
    """

    step: int
    samples: int
    epoch: int
    metrics: dict[str, float] = field(default_factory=dict)
    important: bool = False
    type: Literal["step"] = "step"


@dataclass(frozen=True, kw_only=True)
class Drained:
    """Worker -> agent: state is committed up to `step`; the worker is about to exit because it was asked to."""

    step: int
    type: Literal["drained"] = "drained"


@dataclass(frozen=True, kw_only=True)
class CommitRequest:
    """Worker -> agent: make this checkpoint the newest, if the worker's round still stands."""

    id: int
    record: CommitRecord
    type: Literal["commit"] = "commit"


@dataclass(frozen=True, kw_only=True)
class CommitReply:
    """Agent -> worker: whether the commit holds; `reason` says why not."""

    id: int
    committed: bool
    reason: str = ""
    type: Literal["commit_reply"] = "commit_reply"


@dataclass(frozen=True, kw_only=True)
class NewestRequest:
    """Worker -> agent: which checkpoint is the newest?"""

    id: int
    type: Literal["newest"] = "newest"


@dataclass(frozen=True, kw_only=True)
class NewestReply:
    """Agent -> worker: the newest commit, or None for a fresh start."""

    id: int
    record: CommitRecord | None
    type: Literal["newest_reply"] = "newest_reply"


@dataclass(frozen=True, kw_only=True)
class DrainOrder:
    """Agent -> worker: stop at the next step that all ranks agree on, commit, say Drained and exit 0."""

    reason: str
    type: Literal["drain"] = "drain"


Message = Annotated[
    Hello | StepDone | Drained | CommitRequest | CommitReply | NewestRequest | NewestReply | DrainOrder,
    Field(discriminator="type"),
]

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


class MalformedMessageError(ElasticAwsError):
    """A line on the worker channel is no message of ours."""


def encode_line(message: Message) -> bytes:
    """The message as one JSON line, newline included."""
    return _MESSAGE.dump_json(message) + b"\n"


def decode_line(line: bytes) -> Message:
    """Parse one line. Raises: MalformedMessageError."""
    try:
        return _MESSAGE.validate_json(line)
    except ValidationError as error:
        raise MalformedMessageError("not a worker-channel message", why=str(error)) from error
