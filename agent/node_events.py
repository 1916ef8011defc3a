"""All that can happen to a node: what its agent's one queue carries."""

from __future__ import annotations

from dataclasses import dataclass

from elastic_aws.agent.group_events import GroupEvent
from elastic_aws.agent.interruption_watch import Interruption
from elastic_aws.round_record import OutcomeRecord
from elastic_aws.store.protocol import Entry


@dataclass(frozen=True, kw_only=True)
class RoundChanged:
    """The round's key was written, or is gone (None)."""

    entry: Entry | None


@dataclass(frozen=True, kw_only=True)
class OutcomeWritten:
    """The job's outcome is there."""

    record: OutcomeRecord


@dataclass(frozen=True, kw_only=True)
class Registered:
    """The node has a (new) lease."""

    lease: int


@dataclass(frozen=True, kw_only=True)
class StopAsked:
    """The agent got a signal to end."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class PatienceOver:
    """A leaving node has waited long enough for its drain."""


NodeEvent = GroupEvent | RoundChanged | OutcomeWritten | Registered | StopAsked | PatienceOver | Interruption
