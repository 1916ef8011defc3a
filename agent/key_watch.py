"""One key of the store, as it is and as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from elastic_aws.errors import StoreError
from elastic_aws.store.protocol import Changed, Entry, Removed, Store

RETRY_SECONDS = 0.2


async def watch_key(store: Store, key: str, tell: Callable[[Entry | None], None]) -> None:
    """Tell the key's entry, None where there is none: as it is now, and after every change. Never returns."""
    while True:
        try:
            snapshot = await store.list(key)
            tell(next((entry for entry in snapshot.entries if entry.key == key), None))
            async for change in store.watch(key, after=snapshot.revision):
                match change:
                    case Changed(entry=entry):
                        if entry.key == key:
                            tell(entry)
                    case Removed(key=removed):
                        if removed == key:
                            tell(None)
                    case resynced:
                        entries = resynced.snapshot.entries
                        tell(next((entry for entry in entries if entry.key == key), None))
        except StoreError:
            await asyncio.sleep(RETRY_SECONDS)
