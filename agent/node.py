"""The node agent: all that happens arrives on one queue; after each event it acts until nothing is left to do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, assert_never

from elastic_aws.agent.commits import Commits
from elastic_aws.agent.group_events import (
    CommitAsked,
    GroupDrained,
    GroupEvent,
    GroupFailed,
    GroupFinished,
    NewestAsked,
    Seating,
    StepReported,
    Workers,
)
from elastic_aws.agent.interruption_watch import Interruption
from elastic_aws.agent.key_watch import watch_key
from elastic_aws.agent.lifecycle import Act, GroupState, Seen, next_act
from elastic_aws.agent.membership import Membership
from elastic_aws.agent.node_events import NodeEvent, OutcomeWritten, PatienceOver, Registered, RoundChanged, StopAsked
from elastic_aws.agent.step_reports import StepReports
from elastic_aws.errors import ExitCode, MalformedRecordError
from elastic_aws.event_log import Emit
from elastic_aws.events import (
    NodeJoined,
    NodeLeft,
    RecordSkipped,
    WorkerFailed,
    WorkersDrained,
    WorkersStarted,
    WorkersStopped,
)
from elastic_aws.node_config import Timing
from elastic_aws.rendezvous.leader import Leader
from elastic_aws.round_record import (
    MemberRecord,
    MemberState,
    OutcomeRecord,
    OutcomeState,
    Record,
    RoundRecord,
    StoreKeys,
    decode,
)
from elastic_aws.store.protocol import Entry, Store

GO_BEFORE = timedelta(seconds=2)
"""A node whose drain takes too long leaves by itself so long before its machine goes."""


class Node:
    """One node of the job, from its first registration to its leave."""

    def __init__(
        self,
        *,
        store: Store,
        keys: StoreKeys,
        member: MemberRecord,
        workers: Workers,
        timing: Timing,
        emit: Emit,
        complete_hook: Callable[[], None] | None = None,
        started: float | None = None,
    ) -> None:
        self._store = store
        self._keys = keys
        self._workers = workers
        self._timing = timing
        self._emit = emit
        self._complete_hook = complete_hook
        self._started = time.monotonic() if started is None else started
        self._queue: asyncio.Queue[NodeEvent] = asyncio.Queue()
        self._membership = Membership(store=store, keys=keys, record=member, lease_time=timing.lease, emit=emit)
        self._commits = Commits(store=store, keys=keys, emit=emit)
        self._steps = StepReports(store=store, keys=keys, emit=emit)
        self._round: Entry | None = None
        self._record: RoundRecord | None = None
        self._outcome: OutcomeRecord | None = None
        self._group = GroupState.NONE
        self._group_round = 0
        self._leaving = ""
        self._must_go_now = False
        self._hooked = False
        self._joined = False
        self._leader: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def interrupt(self, interruption: Interruption) -> None:
        """Tell the node that its machine will go."""
        self._queue.put_nowait(interruption)

    def stop(self, reason: str) -> None:
        """Tell the node to leave: after a drain the first time, at once the second time."""
        self._queue.put_nowait(StopAsked(reason=reason))

    async def run(self) -> ExitCode:
        """Take part in the job until it ends or the node leaves."""
        self._spawn(self._membership.keep(lambda lease: self._queue.put_nowait(Registered(lease=lease))))
        put = self._queue.put_nowait
        self._spawn(watch_key(self._store, self._keys.round, lambda entry: put(RoundChanged(entry=entry))))
        self._spawn(watch_key(self._store, self._keys.outcome, self._hear_outcome))
        self._spawn(self._pump())
        try:
            while True:
                self._take(await self._queue.get())
                while not self._queue.empty():
                    self._take(self._queue.get_nowait())
                if await self._act():
                    break
        finally:
            await self._close()
        failed = self._outcome is not None and self._outcome.state is OutcomeState.FAILED
        return ExitCode.JOB_FAILED if failed else ExitCode.DONE

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._queue.put_nowait(StopAsked(reason=f"a part of the agent failed: {task.exception()!r}"))

    async def _pump(self) -> None:
        while True:
            self._queue.put_nowait(await self._workers.events.get())

    def _hear_outcome(self, entry: Entry | None) -> None:
        if (record := self._parse(OutcomeRecord, entry)) is not None:
            self._queue.put_nowait(OutcomeWritten(record=record))

    def _parse(self, record_type: type[Record], entry: Entry | None) -> Record | None:
        if entry is None:
            return None
        try:
            return decode(record_type, entry.value)
        except MalformedRecordError as error:
            self._emit(RecordSkipped(key=entry.key, why=str(error)))
            return None

    def _take(self, event: NodeEvent) -> None:
        """Take one event into what the node knows."""
        match event:
            case RoundChanged(entry=entry):
                self._take_round(entry)
            case OutcomeWritten(record=record):
                self._outcome = record
            case Registered(lease=lease):
                self._take_registered(lease)
            case Interruption():
                self._hooked = self._hooked or event.hooked
                self._leave_because(f"{event.source}: {event.action}", seconds_left=event.seconds_left)
            case StopAsked(reason=reason):
                self._must_go_now = bool(self._leaving) or reason.startswith("a part")
                self._leave_because(reason)
            case PatienceOver():
                self._must_go_now = True
            case StepReported() | GroupDrained() | GroupFinished() | GroupFailed() | CommitAsked() | NewestAsked():
                self._take_group(event)
            case unreachable:
                assert_never(unreachable)

    def _take_round(self, entry: Entry | None) -> None:
        record = self._parse(RoundRecord, entry)
        if record is None or (self._record is not None and record.number < self._record.number):
            return  # the store was replaced: the leader writes the known round again
        self._round, self._record = entry, record
        self._commits.round = entry

    def _take_registered(self, lease: int) -> None:
        member = self._membership.record
        if not self._joined:
            self._joined = True
            took = timedelta(seconds=time.monotonic() - self._started)
            self._emit(
                NodeJoined(workers=member.workers, zone=member.zone, instance_type=member.instance_type, took=took)
            )
        if self._leader is not None:
            self._leader.cancel()
        leader = Leader(
            store=self._store,
            keys=self._keys,
            node=member.node,
            timing=self._timing,
            emit=self._emit,
            known_round=lambda: self._record,
        )
        self._leader = self._spawn(leader.run(lease))

    def _leave_because(self, reason: str, seconds_left: float | None = None) -> None:
        if self._leaving:
            return
        self._leaving = reason
        self._membership.update(leaving=True, leaving_reason=reason)
        patience = self._timing.drain_timeout.total_seconds()
        if seconds_left is not None:  # going without the others' agreement beats being cut off
            patience = min(patience, max(0.0, seconds_left - GO_BEFORE.total_seconds()))
        asyncio.get_running_loop().call_later(patience, self._queue.put_nowait, PatienceOver())

    def _take_group(self, event: GroupEvent) -> None:
        if event.round != self._group_round:
            return
        match event:
            case StepReported(round=number, rank=rank, done=done):
                self._steps.take(number, rank, done)
            case CommitAsked():
                self._spawn(self._commits.commit(event))
            case NewestAsked():
                self._spawn(self._commits.newest(event))
            case GroupDrained(round=number, step=step):
                self._group = GroupState.DRAINED
                self._emit(WorkersDrained(round=number, step=step))
                self._membership.update(state=MemberState.DRAINED, round=number, step=step)
            case GroupFinished(round=number):
                self._group = GroupState.FINISHED
                self._membership.update(state=MemberState.FINISHED, round=number, step=self._steps.newest)
            case GroupFailed(round=number, failure=failure):
                self._group = GroupState.FAILED
                self._emit(WorkerFailed(failure=failure))
                self._membership.update(
                    state=MemberState.FAILED, round=number, step=self._steps.newest, failure=failure
                )
            case unreachable:
                assert_never(unreachable)

    async def _act(self) -> bool:
        """Act until there is nothing to do; answer whether this node's part is over."""
        while True:
            match next_act(self._seen()):
                case Act.WAIT:
                    return False
                case Act.START_WORKERS:
                    await self._start_workers()
                case Act.DRAIN_WORKERS:
                    assert self._record is not None
                    self._group = GroupState.DRAINING
                    self._workers.drain(self._record.detail)
                case Act.STOP_WORKERS:
                    await self._stop_workers()
                case Act.LEAVE | Act.END:
                    return True
                case unreachable:
                    assert_never(unreachable)

    def _seen(self) -> Seen:
        member = self._membership.record
        return Seen(
            node=member.node,
            incarnation=member.incarnation,
            round=self._record,
            outcome=self._outcome,
            group=self._group,
            group_round=self._group_round,
            leaving=bool(self._leaving),
            must_go_now=self._must_go_now,
        )

    async def _start_workers(self) -> None:
        record, member = self._record, self._membership.record
        assert record is not None
        assert record.endpoint is not None
        seat = record.seat_of(member.node)
        assert seat is not None
        seating = Seating(
            round=record.number,
            first_rank=seat.first_rank,
            world_size=record.world_size,
            group_rank=record.seats.index(seat),
            group_world_size=len(record.seats),
            endpoint=record.endpoint,
            restarts=record.restarts,
            max_restarts=self._timing.max_restarts,
        )
        await self._workers.start(seating)
        self._group, self._group_round = GroupState.RUNNING, record.number
        self._steps.begin(record)
        ranks = tuple(range(seat.first_rank, seat.first_rank + seat.workers))
        self._emit(WorkersStarted(round=record.number, ranks=ranks, world_size=record.world_size))
        changes: dict[str, object] = {"state": MemberState.RUNNING, "round": record.number, "failure": None}
        if record.endpoint == member.endpoint:  # used up: a round's TCP store serves no second round
            changes["endpoint"] = await self._workers.open_endpoint(member.address)
        self._membership.update(**changes)

    async def _stop_workers(self) -> None:
        reason = self._outcome.reason if self._outcome else self._leaving if self._must_go_now else "a new round"
        await self._workers.stop(reason)
        self._group = GroupState.NONE
        self._emit(WorkersStopped(round=self._group_round, reason=reason))

    async def _close(self) -> None:
        """Leave the job: workers first, then the key, then the machine."""
        await self._workers.stop("the agent ends")
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._membership.leave()
        ended = f"the job {self._outcome.state}" if self._outcome else ""
        self._emit(NodeLeft(reason=ended or self._leaving or "the agent ends"))
        if self._hooked and self._complete_hook is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self._complete_hook), 20)
