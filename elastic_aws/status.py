"""JobStatus: the job's own state, which its controller publishes in S3 and the laptop reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from elastic_aws.errors import ElasticAwsError
from elastic_aws.json_codec import adapter
from elastic_aws.round_record import (
    Bounds,
    CommitRecord,
    MemberRecord,
    OutcomeRecord,
    ProgressRecord,
    RoundReason,
    RoundRecord,
)


class MalformedStatusError(ElasticAwsError):
    """A published status is not one of ours."""


@dataclass(frozen=True, kw_only=True)
class PastRound:
    """One round in the job's history. `at` is the store node's wall clock, for display."""

    number: int
    world_size: int
    reason: RoundReason
    detail: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """What the store said at `at` (the store node's wall clock). `spares` are members without a seat.

    `started` is when the job's first controller began; its time limit counts from there.
    """

    job: str
    run: str
    at: datetime
    started: datetime
    bounds: Bounds | None = None
    round: RoundRecord | None = None
    members: tuple[MemberRecord, ...] = ()
    spares: tuple[str, ...] = ()
    leader: str = ""
    commit: CommitRecord | None = None
    progress: ProgressRecord | None = None
    outcome: OutcomeRecord | None = None
    rounds: tuple[PastRound, ...] = ()

    def to_json(self) -> bytes:
        """As published."""
        return adapter(JobStatus).dump_json(self)

    @classmethod
    def from_json(cls, content: bytes) -> JobStatus:
        """Parse what was published. Raises: MalformedStatusError."""
        try:
            return adapter(JobStatus).validate_json(content)
        except ValidationError as error:
            raise MalformedStatusError("the job's status cannot be read", why=str(error)) from error
