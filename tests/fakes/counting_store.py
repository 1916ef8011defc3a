"""Another store, with a memory of what it was asked for. Keep-alives are not counted: they go by time, not by round."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from elastic_aws.store.protocol import Condition, Entry, Lease, Snapshot, Store, Transaction, WatchEvent, Write


class CountingStore:
    """One node's connection. `operations` has each call that went to the store, in order."""

    def __init__(self, store: Store) -> None:
        self.operations: list[str] = []
        self._store = store

    async def get(self, key: str) -> Entry | None:
        self.operations.append(f"get {key}")
        return await self._store.get(key)

    async def list(self, prefix: str) -> Snapshot:
        self.operations.append(f"list {prefix}")
        return await self._store.list(prefix)

    async def transact(self, conditions: Sequence[Condition], writes: Sequence[Write]) -> Transaction:
        self.operations.append(f"transact {' '.join(write.key for write in writes)}")
        return await self._store.transact(conditions, writes)

    async def grant(self, time_to_live: timedelta) -> Lease:
        self.operations.append("grant")
        return await self._store.grant(time_to_live)

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[WatchEvent]:
        self.operations.append(f"watch {prefix}")
        return self._store.watch(prefix, after=after)

    async def close(self) -> None:
        await self._store.close()
