"""The loop that applies the rules: reads the job's keys, decides, writes under the leader's key."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field

from elastic_aws.errors import MalformedRecordError, StoreUnavailableError
from elastic_aws.event_log import Emit
from elastic_aws.events import BecameLeader, RecordSkipped, RoundDraining, RoundFormed, WaitingForNodes
from elastic_aws.node_config import Timing
from elastic_aws.rendezvous.next_round import End, Keep, Seen, Write, candidates, next_round
from elastic_aws.round_record import (
    Bounds,
    CommitRecord,
    MemberRecord,
    MemberState,
    Record,
    RoundPhase,
    RoundRecord,
    StoreKeys,
    decode,
    encode,
)
from elastic_aws.store.protocol import (
    Changed,
    Condition,
    CreatedAt,
    Entry,
    Put,
    Removed,
    Snapshot,
    Store,
    Unchanged,
    WatchEvent,
)

RETRY_SECONDS = 0.2
"""Pause before a call is tried again while the store does not answer."""


@dataclass(kw_only=True)
class View:
    """The leader's picture of the job, with the moments (of its own clock) at which it learned things."""

    keys: StoreKeys
    entries: dict[str, Entry] = field(default_factory=dict)
    arrivals: dict[str, float] = field(default_factory=dict)
    min_met_at: float | None = None
    phase: tuple[int, RoundPhase] | None = None
    phase_since: float = 0.0
    failed_at: float | None = None

    def load(self, snapshot: Snapshot, now: float) -> None:
        """Take everything from a snapshot."""
        self.entries = {entry.key: entry for entry in snapshot.entries}
        known = self.arrivals
        self.arrivals = {key: known.get(key, now) for key in self.entries if key.startswith(self.keys.members)}

    def take(self, event: WatchEvent, now: float) -> None:
        """Take one change."""
        match event:
            case Changed(entry=entry):
                before = self.entries.get(entry.key)
                if entry.key.startswith(self.keys.members) and (before is None or before.created != entry.created):
                    self.arrivals[entry.key] = now
                self.entries[entry.key] = entry
            case Removed(key=key):
                self.entries.pop(key, None)
                self.arrivals.pop(key, None)
            case resynced:
                self.load(resynced.snapshot, now)


class Leader:
    """Forms rounds while this node holds the leader's key; otherwise waits for the key to be free."""

    def __init__(
        self,
        *,
        store: Store,
        keys: StoreKeys,
        node: str,
        timing: Timing,
        emit: Emit,
        known_round: Callable[[], RoundRecord | None],
    ) -> None:
        self._store = store
        self._keys = keys
        self._node = node
        self._timing = timing
        self._emit = emit
        self._known_round = known_round
        self._skipped: set[tuple[str, int]] = set()
        self._said_waiting: tuple[int, int] | None = None

    async def run(self, lease: int) -> None:
        """Campaign and lead for as long as the lease holds; returns once the job has an outcome."""
        while True:
            try:
                created = await self._campaign(lease)
                self._emit(BecameLeader())
                if await self._lead(created):
                    return
            except StoreUnavailableError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _campaign(self, lease: int) -> int:
        """Hold the leader's key; answer the revision at which it was created."""
        key = self._keys.leader
        while True:
            put = Put(key=key, value=self._node.encode(), lease=lease)
            taken = await self._store.transact([Unchanged(key=key, modified=0)], [put])
            if taken.succeeded:
                return taken.revision
            held = await self._store.get(key)
            if held is None:
                continue
            if held.lease == lease:
                return held.created
            async with contextlib.aclosing(_closable(self._store.watch(key, after=held.modified))) as changes:
                async for change in changes:
                    if not isinstance(change, Changed):
                        break

    async def _lead(self, created: int) -> bool:
        """Apply the rules until the key is lost (False) or the job ended (True)."""
        now = asyncio.get_running_loop().time
        view = View(keys=self._keys)
        snapshot = await self._store.list(self._keys.root)
        view.load(snapshot, now())
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()
        watcher = asyncio.create_task(self._watch(snapshot.revision, queue))
        try:
            while True:
                if self._keys.outcome in view.entries:
                    return True
                leader = view.entries.get(self._keys.leader)
                if leader is None or leader.created != created:
                    return False
                wait = await self._act(view, created)
                # Not wait_for: in Python 3.11 it swallows a cancellation that meets an arrival.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        view.take(await queue.get(), now())
                while not queue.empty():
                    view.take(queue.get_nowait(), now())
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _watch(self, after: int, queue: asyncio.Queue[WatchEvent]) -> None:
        async with contextlib.aclosing(_closable(self._store.watch(self._keys.root, after=after))) as changes:
            async for change in changes:
                queue.put_nowait(change)

    async def _act(self, view: View, created: int) -> float | None:
        """Decide and do; answer after how many seconds to look again without news."""
        seen = self._seen(view)
        if seen is None:
            return None
        match next_round(seen):
            case Keep(until=until):
                self._say_waiting(seen)
                return None if until is None else max(0.0, until - seen.now)
            case Write(record=record):
                await self._write(view, created, self._keys.round, encode(record))
                self._say_round(record)
            case End(outcome=outcome):
                await self._write(view, created, self._keys.outcome, encode(outcome))
        return None

    async def _write(self, view: View, created: int, key: str, value: bytes) -> None:
        """Write if nothing changed under us. The watch brings what was written, or what came in between."""
        known = view.entries.get(key)
        at = known.modified if known else 0
        conditions: list[Condition] = [
            CreatedAt(key=self._keys.leader, created=created),
            Unchanged(key=key, modified=at),
        ]
        done = await self._store.transact(conditions, [Put(key=key, value=value)])
        if done.succeeded:
            since = known.created if known else done.revision
            view.entries[key] = Entry(key=key, value=value, created=since, modified=done.revision)
            return
        now = asyncio.get_running_loop().time()
        view.load(await self._store.list(self._keys.root), now)

    def _seen(self, view: View) -> Seen | None:
        """What the rules look at, or None while the job has no bounds yet."""
        now = asyncio.get_running_loop().time()
        bounds = self._parse(Bounds, view.entries.get(self._keys.bounds))
        if bounds is None:
            return None
        entries = [entry for key, entry in view.entries.items() if key.startswith(self._keys.members)]
        arrived = sorted(entries, key=lambda entry: entry.created)
        members = tuple(member for entry in arrived if (member := self._parse(MemberRecord, entry)))
        record = self._parse(RoundRecord, view.entries.get(self._keys.round)) or self._known_round()
        commit = self._parse(CommitRecord, view.entries.get(self._keys.commit))
        wanting = sum(not member.leaving for member in members)
        view.min_met_at = None if wanting < bounds.min else (view.min_met_at or now)
        phase = (record.number, record.phase) if record else None
        if phase != view.phase:
            view.phase, view.phase_since, view.failed_at = phase, now, None
        if view.failed_at is None and record is not None:
            failed = any(each.state is MemberState.FAILED and each.round == record.number for each in members)
            view.failed_at = now if failed else None
        return Seen(
            bounds=bounds,
            round=record,
            members=members,
            committed_step=commit.step if commit else 0,
            timing=self._timing,
            now=now,
            min_met_at=view.min_met_at,
            last_arrival_at=max(view.arrivals.values(), default=now),
            phase_since=view.phase_since,
            failed_at=view.failed_at,
        )

    def _parse(self, record_type: type[Record], entry: Entry | None) -> Record | None:
        if entry is None:
            return None
        try:
            return decode(record_type, entry.value)
        except MalformedRecordError as error:
            if (entry.key, entry.modified) not in self._skipped:
                self._skipped.add((entry.key, entry.modified))
                self._emit(RecordSkipped(key=entry.key, why=str(error)))
            return None

    def _say_waiting(self, seen: Seen) -> None:
        if seen.round is not None and seen.round.phase is not RoundPhase.WAITING:
            self._said_waiting = None
            return
        said = (len(candidates(seen)), seen.bounds.min if seen.round else seen.bounds.target)
        if said != self._said_waiting:
            self._said_waiting = said
            self._emit(WaitingForNodes(members=said[0], needed=said[1]))

    def _say_round(self, record: RoundRecord) -> None:
        match record.phase:
            case RoundPhase.DRAINING:
                self._emit(RoundDraining(round=record.number, reason=record.reason, detail=record.detail))
            case RoundPhase.RUNNING:
                nodes = tuple(seat.node for seat in record.seats)
                self._emit(
                    RoundFormed(
                        round=record.number,
                        world_size=record.world_size,
                        nodes=nodes,
                        reason=record.reason,
                        detail=record.detail,
                    )
                )
            case RoundPhase.WAITING:
                pass


async def _closable(changes: AsyncIterator[WatchEvent]) -> AsyncGenerator[WatchEvent, None]:
    """An async generator over a watch, so that leaving the loop closes it."""
    async for change in changes:
        yield change
