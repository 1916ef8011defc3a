"""The job's controller, on the store node: bounds in, status out, and the end of the machines."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from elastic_aws.agent.log_shipping import LogShipper
from elastic_aws.aws.bucket import Bucket
from elastic_aws.aws.session import AwsSession
from elastic_aws.aws.worker_fleet import dismiss
from elastic_aws.errors import ElasticAwsError, ExitCode, MalformedRecordError, NotFoundError, StoreError
from elastic_aws.event_log import Emit, EventLog
from elastic_aws.events import BoundsChanged, JobEnded, RecordSkipped
from elastic_aws.node_config import SCALE_REQUEST, STATUS, NodeConfig
from elastic_aws.round_record import (
    Bounds,
    CommitRecord,
    MemberRecord,
    OutcomeRecord,
    OutcomeState,
    ProgressRecord,
    Record,
    RoundPhase,
    RoundRecord,
    StoreKeys,
    decode,
    encode,
)
from elastic_aws.status import JobStatus, PastRound
from elastic_aws.store.connect import connect
from elastic_aws.store.protocol import Changed, Entry, Put, Removed, Store, Unchanged

STORE_CALL_LIMIT = timedelta(seconds=2)
PUBLISH_INTERVAL = timedelta(seconds=0.5)
PUBLISH_AT_LEAST = timedelta(seconds=15)
SCALE_POLL = timedelta(seconds=1)
LEAVE_LIMIT = timedelta(seconds=60)
"""How long nodes may take to leave a job that has ended."""
RETRY_SECONDS = 0.5


class Controller:
    """Mirrors the store to S3 and requests from S3 to the store, until the job has ended."""

    def __init__(self, config: NodeConfig, *, store: Store, bucket: Bucket, session: AwsSession, emit: Emit) -> None:
        self._config = config
        self._store = store
        self._bucket = bucket
        self._session = session
        self._emit = emit
        self._keys = StoreKeys(job=config.job)
        self._entries: dict[str, Entry] = {}
        self._rounds: tuple[PastRound, ...] = ()
        self._started = datetime.now(UTC)
        self._changed = asyncio.Event()
        self._skipped: set[tuple[str, int]] = set()

    async def run(self) -> None:
        """Return once the job has ended and its machines are told to go."""
        await self._remember()
        tasks = [asyncio.create_task(work()) for work in (self._mirror, self._publish, self._take_requests)]
        tasks.append(asyncio.create_task(self._end_in_time()))
        ended = asyncio.create_task(self._wait_for_end())
        try:
            await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            await ended
        finally:
            for task in (ended, *tasks):
                task.cancel()
            await asyncio.gather(ended, *tasks, return_exceptions=True)

    async def _remember(self) -> None:
        """Take what only the last status has: this may be a new process, or a new store node.

        Without S3 the job goes on, with its history and its time limit counted from here.
        """
        with contextlib.suppress(ElasticAwsError):
            content = await asyncio.to_thread(self._bucket.get, self._config.job_prefix + STATUS)
            if content is not None:
                before = JobStatus.from_json(content)
                self._rounds, self._started = before.rounds, before.started

    async def _mirror(self) -> None:
        """Keep `_entries` equal to the store."""
        while True:
            try:
                await self._write_first_bounds()
                snapshot = await self._store.list(self._keys.root)
                self._load(snapshot.entries)
                async for change in self._store.watch(self._keys.root, after=snapshot.revision):
                    match change:
                        case Changed(entry=entry):
                            self._entries[entry.key] = entry
                        case Removed(key=key):
                            self._entries.pop(key, None)
                        case resynced:
                            self._load(resynced.snapshot.entries)
                            await self._write_first_bounds()
                    self._note_round()
                    self._changed.set()
            except StoreError:
                await asyncio.sleep(RETRY_SECONDS)

    def _load(self, entries: tuple[Entry, ...]) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._note_round()
        self._changed.set()

    async def _write_first_bounds(self) -> None:
        """The job file's bounds, or newer ones that were asked for: the store may have been replaced."""
        start = self._config.bounds
        bounds = Bounds(min=start.min, max=start.max, target=start.target)
        with contextlib.suppress(ElasticAwsError):  # without S3, or for nonsense there: as the job file says
            asked = await asyncio.to_thread(self._bucket.get, self._config.job_prefix + SCALE_REQUEST)
            bounds = decode(Bounds, asked) if asked is not None else bounds
        put = Put(key=self._keys.bounds, value=encode(bounds))
        await self._store.transact([Unchanged(key=self._keys.bounds, modified=0)], [put])

    def _note_round(self) -> None:
        record = self._read(RoundRecord, self._keys.round)
        if record is None or record.phase is RoundPhase.DRAINING:
            return
        if not self._rounds or record.number > self._rounds[-1].number:
            past = PastRound(
                number=record.number,
                world_size=record.world_size,
                reason=record.reason,
                detail=record.detail,
                at=datetime.now(UTC),
            )
            self._rounds = (*self._rounds, past)

    def _read(self, record_type: type[Record], key: str) -> Record | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        try:
            return decode(record_type, entry.value)
        except MalformedRecordError as error:
            if (key, entry.modified) not in self._skipped:
                self._skipped.add((key, entry.modified))
                self._emit(RecordSkipped(key=key, why=str(error)))
            return None

    def status(self) -> JobStatus:
        """What the store says now."""
        keys = self._keys
        names = sorted(key for key in self._entries if key.startswith(keys.members))
        members = tuple(member for key in names if (member := self._read(MemberRecord, key)))
        record = self._read(RoundRecord, keys.round)
        seated = record.nodes if record else frozenset()
        leader = self._entries.get(keys.leader)
        return JobStatus(
            job=self._config.job,
            run=self._config.run,
            at=datetime.now(UTC),
            bounds=self._read(Bounds, keys.bounds),
            round=record,
            members=members,
            spares=tuple(member.node for member in members if member.node not in seated),
            leader=leader.value.decode(errors="replace") if leader else "",
            commit=self._read(CommitRecord, keys.commit),
            progress=self._read(ProgressRecord, keys.progress),
            outcome=self._read(OutcomeRecord, keys.outcome),
            rounds=self._rounds,
            started=self._started,
        )

    async def _publish(self) -> None:
        """Publish on every change, and from time to time."""
        key = self._config.job_prefix + STATUS
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), PUBLISH_AT_LEAST.total_seconds())
            self._changed.clear()
            try:
                await asyncio.to_thread(self._bucket.put, key, self.status().to_json())
            except ElasticAwsError:
                self._changed.set()  # tried again: the newest status is the only one that matters
            await asyncio.sleep(PUBLISH_INTERVAL.total_seconds())

    async def _take_requests(self) -> None:
        """Take new bounds from `scale.json`."""
        key, etag = self._config.job_prefix + SCALE_REQUEST, None
        while True:
            await asyncio.sleep(SCALE_POLL.total_seconds())
            try:
                found = await asyncio.to_thread(self._bucket.get_if_changed, key, etag)
                if found is None:
                    continue
                wanted = decode(Bounds, found.content)
                _check_bounds(wanted)
                if self._read(Bounds, self._keys.bounds) != wanted:
                    await self._store.transact([], [Put(key=self._keys.bounds, value=encode(wanted))])
                    self._emit(BoundsChanged(min=wanted.min, max=wanted.max, target=wanted.target))
                etag = found.etag
            except MalformedRecordError as error:
                self._emit(RecordSkipped(key=key, why=str(error)))
                etag = found.etag if found else None
            except ElasticAwsError:
                continue  # asked again in a second

    async def _end_in_time(self) -> None:
        """Write the outcome STOPPED when the job's time is over."""
        ends = self._started + self._config.time_limit
        await asyncio.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds()))
        hours = self._config.time_limit.total_seconds() / 3600
        outcome = OutcomeRecord(state=OutcomeState.STOPPED, reason=f"its time limit of {hours:g} hours is over")
        while True:
            with contextlib.suppress(StoreError):
                put = Put(key=self._keys.outcome, value=encode(outcome))
                await self._store.transact([Unchanged(key=self._keys.outcome, modified=0)], [put])
                await asyncio.Event().wait()
            await asyncio.sleep(RETRY_SECONDS)

    async def _wait_for_end(self) -> None:
        """Wait for the outcome, let the nodes leave, then let their machines go."""
        while (outcome := self._read(OutcomeRecord, self._keys.outcome)) is None:  # noqa: ASYNC110 - anyone may write it
            await asyncio.sleep(RETRY_SECONDS)
        self._emit(JobEnded(state=outcome.state, reason=outcome.reason, exit_code=outcome.exit_code))
        deadline = asyncio.get_running_loop().time() + LEAVE_LIMIT.total_seconds()
        while any(key.startswith(self._keys.members) for key in self._entries):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(RETRY_SECONDS)
        final = replace(self.status(), at=datetime.now(UTC))
        await _until_done(self._bucket.put, self._config.job_prefix + STATUS, final.to_json())
        await _until_done(dismiss, self._session, self._config.workers_group)


def _check_bounds(bounds: Bounds) -> None:
    if not 1 <= bounds.min <= bounds.target <= bounds.max:
        raise MalformedRecordError("bounds that cannot be", why=repr(bounds))


async def _until_done(call: object, *arguments: object) -> None:
    while True:
        try:
            await asyncio.to_thread(call, *arguments)  # type: ignore[arg-type] # a function with its arguments
        except NotFoundError:
            return  # somebody deletes the job meanwhile
        except ElasticAwsError:
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _run(config: NodeConfig, emit: Emit) -> None:
    session = AwsSession.from_environment(config.region)
    store = connect(config.store_endpoints, call_timeout=STORE_CALL_LIMIT)
    try:
        bucket = Bucket(session, config.bucket)
        await Controller(config, store=store, bucket=bucket, session=session, emit=emit).run()
    finally:
        await store.close()


def run_controller(config: NodeConfig, *, root: str) -> ExitCode:
    """Run the controller until the job has ended."""
    logs = Path(f"{root}/var/log/elastic-aws")
    logs.mkdir(parents=True, exist_ok=True)
    shipper = LogShipper(config=config, root=root, node="store")
    shipper.start()
    try:
        with (logs / "events.jsonl").open("a") as stream:
            asyncio.run(_run(config, EventLog(stream, node="store")))
    finally:
        shipper.stop()
    return ExitCode.DONE
