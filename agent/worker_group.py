"""The workers of this node: forked for a round from a preloaded fork server, watched, drained, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from elastic_aws.agent import worker_main
from elastic_aws.agent.fork_server import ForkServer
from elastic_aws.agent.group_events import (
    CommitAsked,
    GroupDrained,
    GroupEvent,
    GroupFailed,
    GroupFinished,
    NewestAsked,
    Seating,
    StepReported,
)
from elastic_aws.agent.worker_environment import worker_environment
from elastic_aws.agent.worker_sockets import WorkerSockets
from elastic_aws.round_record import CommitRecord, Endpoint, Failure
from elastic_aws.worker_channel import (
    CommitReply,
    CommitRequest,
    Drained,
    DrainOrder,
    Hello,
    Message,
    NewestReply,
    NewestRequest,
    StepDone,
)

LOG_TAIL_LINES = 20


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What this node's workers run, in every round. `stop_timeout` is the time between SIGTERM and SIGKILL."""

    code: Path
    script: Path
    arguments: tuple[str, ...]
    environment: dict[str, str]
    preload: tuple[str, ...]
    job: str
    run: str
    checkpoints: str
    workers: int
    logs: Path
    stop_timeout: timedelta
    node: str = ""


@dataclass(kw_only=True)
class _Worker:
    rank: int
    process: ForkServerProcess
    log: Path
    error: Path
    drained_step: int | None = None
    exit_code: int | None = None


@dataclass(kw_only=True)
class _Running:
    round: int
    workers: list[_Worker]
    stopping: bool = False
    drain: DrainOrder | None = None
    ending: asyncio.Task[None] | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)


class WorkerGroup:
    """At most one round's workers at a time. What they do arrives in `events`, in order."""

    def __init__(self, launch: Launch, forks: ForkServer) -> None:
        self.events: asyncio.Queue[GroupEvent] = asyncio.Queue()
        self._launch = launch
        self._forks = forks
        self._sockets = WorkerSockets(forks.folder, self._heard)
        self._running: _Running | None = None

    async def preload(self) -> None:
        """Return when the fork server has imported everything. Raises: PreloadError."""
        await self._sockets.open()
        await self._forks.preload(self._launch.code, self._launch.preload)

    async def open_endpoint(self, host: str) -> Endpoint:
        """A fresh TCP store on a free port of `host`. The one before stays, for a round may be using it."""
        return await self._forks.open_endpoint(host)

    async def start(self, seating: Seating) -> None:
        """Fork the workers of a round, as soon as those of an earlier one, which must be ending, are gone."""
        if self._running is not None:
            assert self._running.stopping or self._running.over.is_set()
            await self._running.over.wait()
        launch = self._launch
        workers = []
        for local_rank in range(launch.workers):
            rank = seating.first_rank + local_rank
            folder = launch.logs / f"round-{seating.round}"
            log, error = folder / f"rank-{rank}.log", folder / f"rank-{rank}.error.json"
            plan = worker_main.WorkerPlan(
                code=str(launch.code),
                script=str(launch.script),
                arguments=launch.arguments,
                environment=worker_environment(launch, seating, local_rank, socket=self._sockets.path, error=error),
                log=str(log),
                error=str(error),
            )
            process = self._forks.process(worker_main.run, plan, name=f"rank {rank}")
            workers.append(_Worker(rank=rank, process=process, log=log, error=error))
        self._running = running = _Running(round=seating.round, workers=workers)
        await asyncio.to_thread(_start_all, [worker.process for worker in workers])
        loop = asyncio.get_running_loop()
        for worker in workers:
            loop.add_reader(worker.process.sentinel, self._ended, running, worker)

    def drain(self, reason: str) -> None:
        """Ask the workers to stop at the next step that all ranks agree on, with their state saved."""
        if self._running is not None and self._running.drain is None:
            self._running.drain = DrainOrder(reason=reason)
            self._sockets.broadcast(self._running.drain)

    async def stop(self, reason: str) -> None:  # noqa: ARG002 - callers say why; the node's event log has it
        """End the workers: SIGTERM, then SIGKILL after `stop_timeout`. Returns when all are gone."""
        running = self._running
        if running is None or running.over.is_set():
            return
        running.stopping = True
        self._signal_all(running, signal.SIGTERM)
        try:
            await asyncio.wait_for(running.over.wait(), self._launch.stop_timeout.total_seconds())
        except TimeoutError:
            self._signal_all(running, signal.SIGKILL)
            await running.over.wait()

    async def kill(self) -> None:
        """End the workers at once."""
        running = self._running
        if running is not None and not running.over.is_set():
            running.stopping = True
            self._signal_all(running, signal.SIGKILL)
            await running.over.wait()

    async def close(self) -> None:
        """End everything that this group started."""
        await self.stop("the agent ends")
        await self._sockets.close()
        await self._forks.close()

    def _signal_all(self, running: _Running, number: signal.Signals) -> None:
        for worker in running.workers:
            if worker.exit_code is None and worker.process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.process.pid, number)

    def _ended(self, running: _Running, worker: _Worker) -> None:
        asyncio.get_running_loop().remove_reader(worker.process.sentinel)
        worker.process.join()
        worker.exit_code = worker.process.exitcode
        if worker.exit_code and not running.stopping:
            running.stopping = True
            failure = self._failure(running.round, worker)
            self.events.put_nowait(GroupFailed(round=running.round, failure=failure))
            self._signal_all(running, signal.SIGKILL)
        if all(other.exit_code is not None for other in running.workers):
            running.ending = asyncio.create_task(self._all_ended(running))

    async def _all_ended(self, running: _Running) -> None:
        if not running.stopping:
            # A worker's end may be seen before its last words: taking a drain for a finish would end the job.
            await self._sockets.heard_out()
        running.over.set()
        if running.stopping:
            return
        steps = [worker.drained_step for worker in running.workers if worker.drained_step is not None]
        if steps:
            self.events.put_nowait(GroupDrained(round=running.round, step=min(steps)))
        else:
            self.events.put_nowait(GroupFinished(round=running.round))

    def _failure(self, number: int, worker: _Worker) -> Failure:
        code = worker.exit_code or 0
        said = {"message": f"ended with exit code {code}", "traceback": "", "peer_lost": False}
        if code < 0:
            said["message"] = f"was killed by {signal.Signals(-code).name}"
        with contextlib.suppress(OSError, ValueError):
            said |= json.loads(worker.error.read_text())
        return Failure(
            node=self._launch.node,
            rank=worker.rank,
            round=number,
            exit_code=code,
            message=str(said["message"]),
            traceback=str(said["traceback"]),
            log_tail=_tail(worker.log),
            peer_lost=bool(said["peer_lost"]),
        )

    def _heard(self, hello: Hello, message: Message) -> None:
        running = self._running
        if running is None or hello.round != running.round:
            return
        worker = next((each for each in running.workers if each.rank == hello.rank), None)
        if worker is None:
            return
        match message:
            case Hello() if running.drain is not None:
                self._sockets.send(hello.rank, running.drain)
            case StepDone():
                self.events.put_nowait(StepReported(round=running.round, rank=hello.rank, done=message))
            case Drained():
                worker.drained_step = message.step
            case CommitRequest() as asked:
                self.events.put_nowait(
                    CommitAsked(
                        round=running.round, record=asked.record, reply=self._commit_reply(hello.rank, asked.id)
                    )
                )
            case NewestRequest() as asked:
                self.events.put_nowait(NewestAsked(round=running.round, reply=self._newest_reply(hello.rank, asked.id)))
            case _:
                pass

    def _commit_reply(self, rank: int, number: int) -> Callable[[bool, str], None]:
        def reply(committed: bool, reason: str) -> None:
            self._sockets.send(rank, CommitReply(id=number, committed=committed, reason=reason))

        return reply

    def _newest_reply(self, rank: int, number: int) -> Callable[[CommitRecord | None], None]:
        def reply(record: CommitRecord | None) -> None:
            self._sockets.send(rank, NewestReply(id=number, record=record))

        return reply


def _start_all(processes: list[ForkServerProcess]) -> None:
    for process in processes:
        process.start()


def _tail(log: Path) -> tuple[str, ...]:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(lines[-LOG_TAIL_LINES:])
