"""World: what one store in memory holds, and the rules by which it changes. Knows no clock and no client."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from elastic_aws.errors import LeaseLostError, StoreError
from elastic_aws.store.protocol import (
    Changed,
    Condition,
    CreatedAt,
    Delete,
    Entry,
    Put,
    Removed,
    Snapshot,
    Unchanged,
    ValueIs,
    Write,
)


@dataclass
class World:
    """What one store holds; a replaced store is another world."""

    store_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    revision: int = 1
    compacted: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    history: list[tuple[int, Changed | Removed]] = field(default_factory=list)
    leases: dict[int, float] = field(default_factory=dict)
    """Seconds to live of every lease."""

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
