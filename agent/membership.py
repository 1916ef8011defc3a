"""This node's key in the store, under its lease."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from elastic_aws.errors import StoreError
from elastic_aws.event_log import Emit
from elastic_aws.events import StoreFound, StoreLost
from elastic_aws.round_record import MemberRecord, StoreKeys, encode
from elastic_aws.store.protocol import Delete, Lease, Put, Store

RETRY_SECONDS = 0.2
"""Pause before the store is asked again."""


class Membership:
    """Keeps the member record in the store equal to `record`, whatever happens to the store or the lease."""

    def __init__(
        self, *, store: Store, keys: StoreKeys, record: MemberRecord, lease_time: timedelta, emit: Emit
    ) -> None:
        self.record = record
        self._store = store
        self._keys = keys
        self._lease_time = lease_time
        self._emit = emit
        self._lease: Lease | None = None
        self._written: MemberRecord | None = None
        self._changed = asyncio.Event()
        self._left = False

    def update(self, **changes: Any) -> None:
        """Change fields of the record; it is written soon, the newest version only."""
        self.record = replace(self.record, **changes)
        self._changed.set()

    async def keep(self, registered: Callable[[int], None]) -> None:
        """Register, write every change, register again when the lease is lost. Tells each new lease's number."""
        said_lost = False
        while not self._left:
            try:
                if self._lease is None:
                    self._lease = await self._store.grant(self._lease_time)
                    self._written = None
                await self._write(self._lease)
                if said_lost:
                    self._emit(StoreFound(replaced=False))
                    said_lost = False
                registered(self._lease.id)
                await self._serve(self._lease)
            except StoreError as error:
                if not said_lost:
                    self._emit(StoreLost(why=str(error)))
                    said_lost = True
                await asyncio.sleep(RETRY_SECONDS)

    async def _serve(self, lease: Lease) -> None:
        """Write changes until the lease is lost."""
        lost = asyncio.create_task(lease.lost())
        try:
            while not lost.done():
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait({lost, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if not lost.done():
                    await self._write(lease)
            self._lease = None
        finally:
            lost.cancel()

    async def _write(self, lease: Lease) -> None:
        self._changed.clear()
        record = self.record
        if record == self._written:
            return
        try:
            put = Put(key=self._keys.member(record.node), value=encode(record), lease=lease.id)
            await self._store.transact([], [put])
        except StoreError:
            self._changed.set()
            if await _is_lost(lease):
                self._lease = None
            raise
        self._written = record

    async def leave(self) -> None:
        """Delete the key now. An unreachable store is no reason to stay: the lease will run out."""
        self._left = True
        lease, self._lease = self._lease, None
        with contextlib.suppress(StoreError):
            await self._store.transact([], [Delete(key=self._keys.member(self.record.node))])
        if lease is not None:
            await lease.revoke()


async def _is_lost(lease: Lease) -> bool:
    task = asyncio.create_task(lease.lost())
    await asyncio.wait({task}, timeout=0)
    done = task.done()
    task.cancel()
    return done
