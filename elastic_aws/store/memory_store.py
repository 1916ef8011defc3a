"""MemoryStore: the store of one process, for tests and single-machine use. Same contract as etcd."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from elastic_aws.errors import LeaseLostError, StoreError, StoreUnavailableError
from elastic_aws.store.protocol import (
    Changed,
    Condition,
    CreatedAt,
    Delete,
    Entry,
    Lease,
    Put,
    Removed,
    Resynced,
    Snapshot,
    Store,
    Transaction,
    Unchanged,
    ValueIs,
    WatchEvent,
    Write,
)


@dataclass
class _World:
    """What one store holds; a replaced store is another world."""

    store_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    revision: int = 1
    compacted: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    history: list[tuple[int, Changed | Removed]] = field(default_factory=list)
    leases: dict[int, float] = field(default_factory=dict)

    def snapshot(self, prefix: str) -> Snapshot:
        """Everything under the prefix now."""
        entries = tuple(entry for key, entry in sorted(self.entries.items()) if key.startswith(prefix))
        return Snapshot(entries=entries, revision=self.revision, store_id=self.store_id)

    def holds(self, condition: Condition) -> bool:
        """Whether the condition is true now."""
        entry = self.entries.get(condition.key)
        match condition:
            case Unchanged(modified=modified):
                return (entry.modified if entry else 0) == modified
            case CreatedAt(created=created):
                return (entry.created if entry else 0) == created
            case ValueIs(value=value):
                return entry is not None and entry.value == value

    def write(self, writes: Sequence[Write]) -> None:
        """Do all writes at one new revision, or none when one is refused."""
        if len({write.key for write in writes}) < len(writes):
            raise StoreError("the store refused a transaction", why="it writes one key twice")
        for write in writes:
            if isinstance(write, Put) and write.lease and write.lease not in self.leases:
                raise LeaseLostError("the store refused a write", why=f"lease {write.lease:x} has run out")
        revision = self.revision + 1
        for write in writes:
            self._write_one(write, revision)

    def _write_one(self, write: Write, revision: int) -> None:
        old = self.entries.get(write.key)
        match write:
            case Put(key=key, value=value, lease=lease):
                created = old.created if old else revision
                entry = Entry(key=key, value=value, created=created, modified=revision, lease=lease)
                self.entries[key] = entry
                self.history.append((revision, Changed(entry=entry)))
                self.revision = revision
            case Delete(key=key) if old:
                del self.entries[key]
                self.history.append((revision, Removed(key=key, revision=revision)))
                self.revision = revision
            case Delete():
                pass

    def end_lease(self, lease: int) -> None:
        """Forget the lease and delete its keys at one revision."""
        self.leases.pop(lease, None)
        keys = sorted(key for key, entry in self.entries.items() if entry.lease == lease)
        self.write([Delete(key=key) for key in keys])


class MemoryStore:
    """One store in memory. Every node under test takes its own `client()`."""

    def __init__(self) -> None:
        self._world = _World()
        self._lease_ids = itertools.count(1)
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
        for lease, time_to_live in list(self._world.leases.items()):
            self._expect(self._world, lease, time_to_live)
        self._wake()

    def replace(self) -> None:
        """Become another, empty store at the same address."""
        self._world = _World()
        self._wake()

    def compact(self) -> None:
        """Forget the history up to now: watches that did not follow are resynced."""
        self._world.compacted = self._world.revision
        self._world.history.clear()

    @property
    def paused(self) -> bool:
        """Whether the store is down."""
        return self._paused

    @property
    def world(self) -> _World:
        """What the store holds now."""
        return self._world

    def transact(self, conditions: Sequence[Condition], writes: Sequence[Write]) -> Transaction:
        """Do all writes if all conditions hold."""
        succeeded = all(self._world.holds(condition) for condition in conditions)
        if succeeded and writes:
            self._world.write(writes)
            self._wake()
        return Transaction(succeeded=succeeded, revision=self._world.revision)

    def grant(self, time_to_live: float) -> int:
        """A new lease's number."""
        lease = next(self._lease_ids)
        self._world.leases[lease] = time_to_live
        self._expect(self._world, lease, time_to_live)
        return lease

    def end_lease(self, world: _World, lease: int) -> None:
        """Revoke the lease, or let it run out."""
        world.end_lease(lease)
        self._wake()

    async def change(self) -> None:
        """Return at the next change of anything."""
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _expect(self, world: _World, lease: int, time_to_live: float) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(time_to_live, self._check_lease, world, lease, loop.time())

    def _check_lease(self, world: _World, lease: int, since: float) -> None:
        if self._paused or lease not in world.leases:
            return
        renewed = self._renewals.get(lease, 0.0)
        if renewed <= since:
            self.end_lease(world, lease)
