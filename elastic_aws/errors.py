"""One tree of errors. Each leaf says what happened, why, and what to type next."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of `elastic-aws` and of the node agent."""

    DONE = 0
    FAILURE = 1
    USAGE = 2
    PREFLIGHT = 3
    CREDENTIALS = 4
    NOT_FOUND = 5
    NO_CAPACITY = 6
    JOB_FAILED = 7
    DETACHED = 130


class ElasticAwsError(Exception):
    """The root. `what` happened, `why`, and `hint`: what to type or change next (may be empty)."""

    exit_code = ExitCode.FAILURE

    def __init__(self, what: str, *, why: str = "", hint: str = "") -> None:
        super().__init__(f"{what}: {why}" if why else what)
        self.what = what
        self.why = why
        self.hint = hint


class UsageError(ElasticAwsError):
    """The command or the job file asks for something that cannot be meant. Nothing was created."""

    exit_code = ExitCode.USAGE


class PreflightError(ElasticAwsError):
    """The request is well formed, but the account, the region or this machine cannot serve it. Nothing was created."""

    exit_code = ExitCode.PREFLIGHT


class CredentialsError(ElasticAwsError):
    """No usable AWS credentials."""

    exit_code = ExitCode.CREDENTIALS


class NotFoundError(ElasticAwsError):
    """The named job, stack or node does not exist."""

    exit_code = ExitCode.NOT_FOUND


class NoCapacityError(ElasticAwsError):
    """AWS had no instance to give within the agreed time."""

    exit_code = ExitCode.NO_CAPACITY


class JobFailedError(ElasticAwsError):
    """The job reached the outcome FAILED."""

    exit_code = ExitCode.JOB_FAILED


class AwsError(ElasticAwsError):
    """AWS answered with an error that none of the more specific leaves describes."""


class StoreError(ElasticAwsError):
    """A call to the store did not succeed."""


class StoreUnavailableError(StoreError):
    """The store did not answer within the call's deadline. The call may be tried again."""


class LeaseLostError(StoreError):
    """The lease ran out or was revoked: this node is no member any more."""


class MalformedRecordError(StoreError):
    """A value in the store is not a record of ours. It is skipped, never executed."""


class CheckpointError(ElasticAwsError):
    """A checkpoint could not be saved, published or restored."""
