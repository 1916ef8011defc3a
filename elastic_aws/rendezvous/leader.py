"""The leader's loop: read, decide with `next_round`, write; fenced by the leader key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar, assert_never

from elastic_aws.errors import MalformedRecordError, StoreUnavailableError
from elastic_aws.event_log import Emit
from elastic_aws.events import JobEnded, RecordSkipped, RoundDraining, RoundFormed, WaitingForNodes
from elastic_aws.node_config import Timing
from elastic_aws.rendezvous.ages import Ages
from elastic_aws.rendezvous.next_round import Decision, End, Keep, Seen, Write, next_round
from elastic_aws.rendezvous.seats import Member
from elastic_aws.round_record import (
    Bounds,
    CommitRecord,
    MemberRecord,
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
    Resynced,
    Snapshot,
    Store,
    Unchanged,
    WatchEvent,
)

Record = TypeVar("Record")

_RETRY = timedelta(seconds=0.3)
"""Pause before an unreachable store is asked again."""


class Leader:
    """Forms the rounds of one job for as long as `lead` runs."""

    def __init__(
        self,
        store: Store,
        keys: StoreKeys,
        *,
        bounds: Bounds,
        timing: Timing,
        emit: Emit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._keys = keys
        self._default_bounds = bounds
        self._timing = timing
        self._emit = emit
        self._ages = Ages(clock)
        self._entries: dict[str, Entry] = {}
        self._skipped: set[tuple[str, int]] = set()

    async def lead(self, created: int) -> None:
        """Form rounds until cancelled; `created` is when the leader key was taken."""
        snapshot = await self._list()
        changes: asyncio.Queue[WatchEvent] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(snapshot.revision, changes))
            wake_in: timedelta | None = timedelta()
            while True:
                await self._take(changes, wake_in)
                wake_in = await self._step(created)

    async def _pump(self, after: int, changes: asyncio.Queue[WatchEvent]) -> None:
        async for event in self._store.watch(self._keys.root, after=after):
            changes.put_nowait(event)

    async def _list(self) -> Snapshot:
        while True:
            try:
                snapshot = await self._store.list(self._keys.root)
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY.total_seconds())
            else:
                self._entries = {entry.key: entry for entry in snapshot.entries}
                return snapshot

    async def _take(self, changes: asyncio.Queue[WatchEvent], wake_in: timedelta | None) -> None:
        """Wait for a change (or until it is time), then take all that have come."""
        try:
            async with asyncio.timeout(None if wake_in is None else wake_in.total_seconds()):
                self._apply(await changes.get())
        except TimeoutError:
            pass
        while not changes.empty():
            self._apply(changes.get_nowait())

    def _apply(self, event: WatchEvent) -> None:
        match event:
            case Changed(entry=entry):
                known = self._entries.get(entry.key)
                if known is None or known.modified <= entry.modified:
                    self._entries[entry.key] = entry
            case Removed(key=key, revision=revision):
                known = self._entries.get(key)
                if known is not None and known.modified <= revision:
                    del self._entries[key]
            case Resynced(snapshot=snapshot):
                self._entries = {entry.key: entry for entry in snapshot.entries}
            case unreachable:
                assert_never(unreachable)

    async def _step(self, created: int) -> timedelta | None:
        decision = next_round(self._seen())
        if isinstance(decision, Keep):
            return decision.wake_in
        try:
            await self._write(decision, CreatedAt(key=self._keys.leader, created=created))
        except StoreUnavailableError:
            return _RETRY
        return timedelta()

    async def _write(self, decision: Decision, fence: Condition) -> None:
        match decision:
            case Write(round=record):
                key, value = self._keys.round, encode(record)
            case End(outcome=outcome):
                key, value = self._keys.outcome, encode(outcome)
            case _:
                return
        known = self._entries.get(key)
        same = Unchanged(key=key, modified=known.modified if known else 0)
        done = await self._store.transact([fence, same], [Put(key=key, value=value)])
        if done.succeeded:
            self._say(decision)
        await self._list()
        if not done.succeeded:
            # Somebody else leads, or our copy was old: do not spin until the watch has told.
            await asyncio.sleep(_RETRY.total_seconds())

    def _say(self, decision: Decision) -> None:
        match decision:
            case Write(round=record) if record.phase is RoundPhase.WAITING:
                members = len(self._seen().usable)
                self._emit(WaitingForNodes(members=members, needed=self._bounds().min))
            case Write(round=record) if record.phase is RoundPhase.DRAINING:
                self._emit(RoundDraining(round=record.number, reason=record.reason, detail=record.detail))
            case Write(round=record):
                self._emit(
                    RoundFormed(
                        round=record.number,
                        world_size=record.world_size,
                        nodes=tuple(seat.node for seat in record.seats),
                        reason=record.reason,
                        detail=record.detail,
                    )
                )
            case End(outcome=outcome):
                self._emit(JobEnded(state=outcome.state, reason=outcome.reason, exit_code=outcome.exit_code))
            case _:
                pass

    def _seen(self) -> Seen:
        commit = self._read(CommitRecord, self._keys.commit)
        seen = Seen(
            members=self._members(),
            bounds=self._bounds(),
            timing=self._timing,
            round=self._read(RoundRecord, self._keys.round),
            commit_step=commit.step if commit else 0,
            ended=self._keys.outcome in self._entries,
        )
        return self._ages.added_to(seen)

    def _bounds(self) -> Bounds:
        return self._read(Bounds, self._keys.bounds) or self._default_bounds

    def _members(self) -> tuple[Member, ...]:
        entries = [entry for key, entry in self._entries.items() if key.startswith(self._keys.members)]
        entries.sort(key=lambda entry: entry.created)
        records = [(self._read(MemberRecord, entry.key), entry.created) for entry in entries]
        return tuple(Member(record=record, created=created) for record, created in records if record is not None)

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
