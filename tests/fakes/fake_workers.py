"""A worker group without processes: it records its orders, and the test says what its workers do."""

from __future__ import annotations

import asyncio
import itertools

from elastic_aws.agent.group_events import CommitAsked, GroupDrained, GroupEvent, GroupFailed, GroupFinished, Seating
from elastic_aws.round_record import CommitRecord, Endpoint, Failure

_PORTS = itertools.count(1)


class FakeWorkers:
    """The workers of one node. A drain is answered at once, at step 10 times the round, unless they are `deaf`."""

    def __init__(self, node: str) -> None:
        self.events: asyncio.Queue[GroupEvent] = asyncio.Queue()
        self.started: list[Seating] = []
        self.drains: list[str] = []
        self.alive = False
        self.deaf = False
        self._node = node

    async def open_endpoint(self, host: str) -> Endpoint:
        return Endpoint(host=host, port=next(_PORTS))

    async def start(self, seating: Seating) -> None:
        assert not self.alive, "workers of two rounds at once"
        self.alive = True
        self.started.append(seating)

    def drain(self, reason: str) -> None:
        self.drains.append(reason)
        if self.alive and not self.deaf:
            self.alive = False
            self.events.put_nowait(GroupDrained(round=self.round, step=10 * self.round))

    async def stop(self, reason: str) -> None:  # noqa: ARG002 - part of the interface
        self.alive = False

    @property
    def round(self) -> int:
        """The round they were last started for, 0 before the first."""
        return self.started[-1].round if self.started else 0

    def finish(self) -> None:
        """All end well by themselves."""
        self.alive = False
        self.events.put_nowait(GroupFinished(round=self.round))

    def fail(self, *, exit_code: int = 42, peer_lost: bool = False) -> None:
        """One ends badly."""
        self.alive = False
        failure = Failure(
            node=self._node,
            rank=self.started[-1].first_rank,
            round=self.round,
            exit_code=exit_code,
            message="boom",
            peer_lost=peer_lost,
        )
        self.events.put_nowait(GroupFailed(round=self.round, failure=failure))

    async def commit(self, step: int, *, of_round: int | None = None) -> tuple[bool, str]:
        """Ask for a commit as rank 0 would; answer what came back."""
        answer: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
        number = self.round if of_round is None else of_round
        record = CommitRecord(round=number, step=step, place=f"step-{step}", digest="")
        self.events.put_nowait(
            CommitAsked(round=self.round, record=record, reply=lambda done, why: answer.set_result((done, why)))
        )
        return await answer
