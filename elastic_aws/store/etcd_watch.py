"""A watch on etcd that outlives its streams: it resumes from the last revision, or says that it lost track."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from elastic_aws.errors import StoreError
from elastic_aws.store import etcd_pb2 as pb
from elastic_aws.store.etcd_channel import EtcdChannel, translated
from elastic_aws.store.etcd_messages import end_of_prefix, watch_event
from elastic_aws.store.protocol import Resynced, Snapshot, WatchEvent

_PAUSE = 0.1
"""Seconds between two tries while etcd does not answer."""


class EtcdWatch:
    """Every change under a prefix after a revision, across reconnects."""

    def __init__(
        self,
        channel: EtcdChannel,
        *,
        prefix: str,
        after: int,
        store_id: str,
        snapshot: Callable[[str], Awaitable[Snapshot]],
    ) -> None:
        self._channel = channel
        self._prefix = prefix
        self._after = after
        self._store_id = store_id
        self._snapshot = snapshot

    async def events(self) -> AsyncIterator[WatchEvent]:
        """The changes, in order; runs until closed."""
        while True:
            call = None
            try:
                call = self._channel.stream("Watch/Watch", pb.WatchRequest, pb.WatchResponse)
                await self._open(call)
                if lost_track := await self._lost_track():
                    yield lost_track
                    continue  # this stream begins after a revision of the other store
                while not (answer := await self._read(call)).canceled:
                    for event in answer.events:
                        yield watch_event(event)
                    self._follow(answer)
                if answer.compact_revision:
                    yield await self._resync()
            except (StoreError, TimeoutError):
                await asyncio.sleep(_PAUSE)
            finally:
                if call is not None:
                    call.cancel()

    def _follow(self, answer: pb.WatchResponse) -> None:
        """Remember how far the history is known: a response holds whole revisions, an empty one says so far nothing."""
        newest = max((event.kv.mod_revision for event in answer.events), default=answer.header.revision)
        self._after = max(self._after, newest)

    async def _open(self, call: Any) -> None:
        key = self._prefix.encode()
        create = pb.WatchCreateRequest(
            key=key, range_end=end_of_prefix(key), start_revision=self._after + 1, progress_notify=True
        )
        with translated():
            async with asyncio.timeout(self._channel.timeout):
                await call.write(pb.WatchRequest(create_request=create))
        async with asyncio.timeout(self._channel.timeout):
            if not (await self._read(call)).created:
                raise StoreError("the store did not open a watch")

    async def _lost_track(self) -> Resynced | None:
        """A new state when the store that the stream reached is not the one whose history was followed."""
        # Asked after the stream is open: a store replaced later breaks the stream.
        snapshot = await self._snapshot(self._prefix)
        known, self._store_id = self._store_id or snapshot.store_id, snapshot.store_id
        if known == snapshot.store_id and self._after <= snapshot.revision:
            return None
        self._after = snapshot.revision
        return Resynced(snapshot=snapshot)

    async def _resync(self) -> Resynced:
        snapshot = await self._snapshot(self._prefix)
        self._store_id, self._after = snapshot.store_id, snapshot.revision
        return Resynced(snapshot=snapshot)

    async def _read(self, call: Any) -> pb.WatchResponse:
        with translated():
            answer = await call.read()
        if not isinstance(answer, pb.WatchResponse):
            raise StoreError("the store ended a watch stream")
        return answer
