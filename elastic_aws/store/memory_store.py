"""MemoryStore: a store inside one process, for tests. It keeps etcd's contract."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any

from elastic_aws.errors import StoreUnavailableError
from elastic_aws.store.memory_world import World
from elastic_aws.store.protocol import (
    Changed,
    Condition,
    Entry,
    Lease,
    Resynced,
    Snapshot,
    Store,
    Transaction,
    WatchEvent,
    Write,
)


class MemoryStore:
    """One store in memory. Every node under test takes its own `client()`."""

    def __init__(self) -> None:
        self._world = World()
        self._lease_ids = itertools.count(1)
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._changed = asyncio.Event()
        self._paused = False

    def client(self) -> Store:
        """A new connection to this store."""
        return _MemoryClient(self)

    def pause(self) -> None:
        """Stop answering, as a store that is down: calls fail, watches wait, no lease runs out in the store."""
        self._paused = True

    def resume(self) -> None:
        """Answer again. As in etcd, every lease starts anew with its whole time to live."""
        self._paused = False
        for lease in list(self._world.leases):
            self.renew(lease)
        self._wake()

    def replace(self) -> None:
        """Become another, empty store at the same address."""
        self._world = World()
        self._wake()

    def compact(self) -> None:
        """Forget the history up to now: watches that did not follow are resynced."""
        self._world.compacted = self._world.revision
        self._world.history.clear()

    def reach(self) -> World:
        """What the store holds now. Raises: StoreUnavailableError while paused."""
        if self._paused:
            raise StoreUnavailableError("the store does not answer", why="it is paused")
        return self._world

    def transact(self, conditions: Sequence[Condition], writes: Sequence[Write]) -> Transaction:
        """Do all writes if all conditions hold."""
        world = self.reach()
        succeeded = all(world.holds(condition) for condition in conditions)
        if succeeded and writes:
            world.write(writes)
            self._wake()
        return Transaction(succeeded=succeeded, revision=world.revision)

    def grant(self, time_to_live: float) -> int:
        """A new lease's number."""
        world, lease = self.reach(), next(self._lease_ids)
        world.leases[lease] = time_to_live
        self.renew(lease)
        return lease

    def renew(self, lease: int) -> bool:
        """Start the lease's time to live anew; False when the store has no such lease."""
        world = self.reach()
        if lease not in world.leases:
            return False
        self._stop_timer(lease)
        loop = asyncio.get_running_loop()
        self._timers[lease] = loop.call_later(world.leases[lease], self._run_out, world, lease)
        return True

    def revoke(self, lease: int) -> None:
        """End the lease and delete its keys."""
        world = self.reach()
        self._stop_timer(lease)
        world.end_lease(lease)
        self._wake()

    def change(self) -> Coroutine[Any, Any, bool]:
        """Wait for the next change of anything from this call on, even if it comes before the wait begins."""
        return self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _stop_timer(self, lease: int) -> None:
        if timer := self._timers.pop(lease, None):
            timer.cancel()

    def _run_out(self, world: World, lease: int) -> None:
        if not self._paused:
            world.end_lease(lease)
            self._wake()


class _MemoryLease:
    """A lease with its keep-alive."""

    def __init__(self, store: MemoryStore, time_to_live: float) -> None:
        self._store = store
        self._id = store.grant(time_to_live)
        self._time_to_live = time_to_live
        self._lost = asyncio.Event()
        self._keeping = asyncio.create_task(self._keep())

    @property
    def id(self) -> int:
        return self._id

    async def lost(self) -> None:
        await self._lost.wait()

    async def revoke(self) -> None:
        self.stop()
        self._lost.set()
        try:
            self._store.revoke(self._id)
        except StoreUnavailableError:
            return

    def stop(self) -> None:
        """Keep it alive no longer."""
        self._keeping.cancel()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        expires = loop.time() + self._time_to_live
        while loop.time() < expires:
            await asyncio.sleep(self._time_to_live / 3)
            try:
                if not self._store.renew(self._id):
                    break
            except StoreUnavailableError:
                continue
            expires = loop.time() + self._time_to_live
        self._lost.set()


class _MemoryClient:
    """One connection to a MemoryStore."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._leases: list[_MemoryLease] = []
        self._store_id = ""
        self._closed = asyncio.Event()

    async def get(self, key: str) -> Entry | None:
        await asyncio.sleep(0)
        return self._reach().entries.get(key)

    async def list(self, prefix: str) -> Snapshot:
        await asyncio.sleep(0)
        return self._reach().snapshot(prefix)

    async def transact(self, conditions: Sequence[Condition], writes: Sequence[Write]) -> Transaction:
        await asyncio.sleep(0)
        self._reach()
        return self._store.transact(conditions, writes)

    async def grant(self, time_to_live: timedelta) -> Lease:
        await asyncio.sleep(0)
        self._reach()
        lease = _MemoryLease(self._store, time_to_live.total_seconds())
        self._leases.append(lease)
        return lease

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[WatchEvent]:
        return self._watch(prefix, after, self._store_id)

    async def close(self) -> None:
        self._closed.set()
        for lease in self._leases:
            lease.stop()

    def _reach(self) -> World:
        if self._closed.is_set():
            raise StoreUnavailableError("the store does not answer", why="this connection is closed")
        world = self._store.reach()
        self._store_id = world.store_id
        return world

    async def _watch(self, prefix: str, after: int, store_id: str) -> AsyncIterator[WatchEvent]:
        while True:
            change = asyncio.create_task(self._store.change())
            try:
                for event, revision, seen_id in self._news(prefix, after, store_id):
                    after, store_id = revision, seen_id
                    yield event
                await change
            finally:
                change.cancel()

    def _news(self, prefix: str, after: int, store_id: str) -> Iterable[tuple[WatchEvent, int, str]]:
        """What to tell a watch now: each event with its revision and the store it is of."""
        try:
            world = self._reach()
        except StoreUnavailableError:
            return []
        if (store_id and world.store_id != store_id) or after < world.compacted or after > world.revision:
            return [(Resynced(snapshot=world.snapshot(prefix)), world.revision, world.store_id)]
        return [
            (event, revision, world.store_id)
            for revision, event in world.history
            if revision > after and _key(event).startswith(prefix)
        ]


def _key(event: WatchEvent) -> str:
    match event:
        case Changed(entry=entry):
            return entry.key
        case Resynced():
            return ""
        case _:
            return event.key
