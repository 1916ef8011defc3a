"""What an agent asks of its workers, and what it hears of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from elastic_aws.round_record import CommitRecord, Endpoint, Failure
from elastic_aws.worker_channel import StepDone


@dataclass(frozen=True, kw_only=True)
class Seating:
    """Where the node's workers sit in a round: from `first_rank` on; `group_rank` is the node's own rank."""

    round: int
    first_rank: int
    world_size: int
    group_rank: int
    group_world_size: int
    endpoint: Endpoint
    restarts: int
    max_restarts: int


@dataclass(frozen=True, kw_only=True)
class StepReported:
    """A worker finished steps up to `done.step`."""

    round: int
    rank: int
    done: StepDone


@dataclass(frozen=True, kw_only=True)
class GroupDrained:
    """All workers ended well, because they were asked to stop."""

    round: int
    step: int


@dataclass(frozen=True, kw_only=True)
class GroupFinished:
    """All workers ended well by themselves: the training is over on this node."""

    round: int


@dataclass(frozen=True, kw_only=True)
class GroupFailed:
    """A worker ended badly; the others are being stopped."""

    round: int
    failure: Failure


@dataclass(frozen=True, kw_only=True)
class CommitAsked:
    """A worker wants a checkpoint to become the newest; call `reply(committed, reason)` once."""

    round: int
    record: CommitRecord
    reply: Callable[[bool, str], None]


@dataclass(frozen=True, kw_only=True)
class NewestAsked:
    """A worker wants to know the newest checkpoint; call `reply(record)` once."""

    round: int
    reply: Callable[[CommitRecord | None], None]


GroupEvent = StepReported | GroupDrained | GroupFinished | GroupFailed | CommitAsked | NewestAsked


class Workers(Protocol):
    """What the agent asks of its worker group."""

    events: asyncio.Queue[GroupEvent]

    async def open_endpoint(self, host: str) -> Endpoint:
        """Open a fresh TCP store."""

    async def start(self, seating: Seating) -> None:
        """Start a round's workers."""

    def drain(self, reason: str) -> None:
        """Ask them to stop with their state saved."""

    async def stop(self, reason: str) -> None:
        """End them."""
