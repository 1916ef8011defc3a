"""What the project asks of a store: a small, revisioned key-value map with leases, transactions and watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One key's value. Revisions are the store's, counted over all keys; `created` stays while the key lives."""

    key: str
    value: bytes
    created: int
    modified: int
    lease: int = 0


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything under a prefix at one revision, in key order.

    `store_id` changes when the store was replaced by another.
    """

    entries: tuple[Entry, ...]
    revision: int
    store_id: str


@dataclass(frozen=True, kw_only=True)
class Unchanged:
    """Condition: the key's last modification is this revision. 0 means: the key does not exist."""

    key: str
    modified: int


@dataclass(frozen=True, kw_only=True)
class CreatedAt:
    """Condition: the key was created at this revision (a lock taken then is still the same lock)."""

    key: str
    created: int


@dataclass(frozen=True, kw_only=True)
class ValueIs:
    """Condition: the key holds exactly this value."""

    key: str
    value: bytes


Condition = Unchanged | CreatedAt | ValueIs


@dataclass(frozen=True, kw_only=True)
class Put:
    """Write: set the key, under a lease when `lease` is not 0."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, kw_only=True)
class Delete:
    """Write: remove the key, if it exists."""

    key: str


Write = Put | Delete


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """What a transaction did: whether all conditions held (then all writes were done), and the revision after it."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, kw_only=True)
class Changed:
    """Watch: the key was written."""

    entry: Entry


@dataclass(frozen=True, kw_only=True)
class Removed:
    """Watch: the key was deleted or its lease ran out."""

    key: str
    revision: int


@dataclass(frozen=True, kw_only=True)
class Resynced:
    """Watch: changes may have been missed (compaction, or another store at the address); this is all there is now."""

    snapshot: Snapshot


WatchEvent = Changed | Removed | Resynced


class Lease(Protocol):
    """A lease, kept alive in the background until revoked, lost or the store closed."""

    @property
    def id(self) -> int:
        """The store's number for the lease; never 0."""

    async def lost(self) -> None:
        """Return when the lease has run out (judged by this machine's monotonic clock, or told by the store)."""

    async def revoke(self) -> None:
        """End the lease now; its keys vanish at once. Errors of an unreachable store are swallowed: it will expire."""


class Store(Protocol):
    """The store. Every call is bounded: it raises StoreUnavailableError rather than wait longer than its deadline."""

    async def get(self, key: str) -> Entry | None:
        """The key's entry, or None."""

    async def list(self, prefix: str) -> Snapshot:
        """Everything under the prefix, at one revision."""

    async def transact(self, conditions: Sequence[Condition], writes: Sequence[Write]) -> Transaction:
        """Do all writes if all conditions hold, else nothing. Not repeated by itself after an unclear failure."""

    async def grant(self, time_to_live: timedelta) -> Lease:
        """A new lease, kept alive from now on."""

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[WatchEvent]:
        """Every change under the prefix with a revision above `after`, in order, across reconnects.

        Yields Resynced first whenever the history since `after` is gone. Runs until the iterator is closed.
        """

    async def close(self) -> None:
        """End all leases' keep-alives, watches and connections. The leases themselves run out by their own."""
