"""EtcdLease: a lease in etcd, kept alive in the background."""

from __future__ import annotations

import asyncio
from typing import Any

from elastic_aws.errors import StoreError
from elastic_aws.store import etcd_pb2 as pb
from elastic_aws.store.etcd_channel import EtcdChannel, translated

_PAUSE = 0.1
"""Seconds between two tries while etcd does not answer."""


class EtcdLease:
    """A granted lease. Its end is judged by this machine's monotonic clock from the last keep-alive that was sent."""

    def __init__(self, channel: EtcdChannel, *, lease_id: int, time_to_live: float, granted_at: float) -> None:
        self._channel = channel
        self._id = lease_id
        self._time_to_live = time_to_live
        self._expires = granted_at + time_to_live
        self._lost = asyncio.Event()
        self._keeping = asyncio.create_task(self._keep())

    @property
    def id(self) -> int:
        """The store's number for the lease."""
        return self._id

    async def lost(self) -> None:
        """Return when the lease has run out or was revoked."""
        await self._lost.wait()

    async def revoke(self) -> None:
        """End the lease now."""
        await self.stop()
        self._lost.set()
        try:
            await self._channel.call("Lease/LeaseRevoke", pb.LeaseRevokeRequest(ID=self._id), pb.LeaseRevokeResponse)
        except StoreError:
            return  # it will run out by itself

    async def stop(self) -> None:
        """Keep it alive no longer."""
        self._keeping.cancel()
        await asyncio.wait([self._keeping])

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < self._expires:
            try:
                if not await self._keep_on_one_stream():
                    break
            except (StoreError, TimeoutError):
                await asyncio.sleep(_PAUSE)
        self._lost.set()

    async def _keep_on_one_stream(self) -> bool:
        """Keep alive until the stream breaks (an error) or etcd says that the lease is gone (False)."""
        loop = asyncio.get_running_loop()
        call = self._channel.stream("Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse)
        try:
            while True:
                sent = loop.time()
                answer = await self._ask(call)
                if answer.TTL <= 0:
                    return False
                self._expires = sent + answer.TTL
                await asyncio.sleep(self._time_to_live / 3)
        finally:
            call.cancel()

    async def _ask(self, call: Any) -> pb.LeaseKeepAliveResponse:
        soon = asyncio.get_running_loop().time() + self._time_to_live / 3
        with translated():
            # Within a third of the life: a stuck stream must leave time for another.
            async with asyncio.timeout_at(min(soon, self._expires)):
                await call.write(pb.LeaseKeepAliveRequest(ID=self._id))
                answer = await call.read()
        if not isinstance(answer, pb.LeaseKeepAliveResponse):
            raise StoreError("the store ended a keep-alive stream")
        return answer
