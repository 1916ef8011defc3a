"""EtcdStore: the store protocol on etcd v3."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from elastic_aws.store import etcd_pb2 as pb
from elastic_aws.store.etcd_channel import EtcdChannel
from elastic_aws.store.etcd_lease import EtcdLease
from elastic_aws.store.etcd_messages import compare, end_of_prefix, entry, operation
from elastic_aws.store.etcd_watch import EtcdWatch
from elastic_aws.store.protocol import Condition, Entry, Lease, Snapshot, Transaction, WatchEvent, Write

_IDENTITY = b"/elastic-aws-store"
"""Key of the store's own name, written by whoever looks first.

etcd's cluster id is no such name: a wiped store with the same configuration has it again.
"""


class EtcdStore:
    """A connection to etcd. Make it on the event loop that uses it."""

    def __init__(self, channel: EtcdChannel) -> None:
        self._channel = channel
        self._leases: list[EtcdLease] = []
        self._store_id = ""

    async def get(self, key: str) -> Entry | None:
        """The key's entry, or None."""
        answer = await self._channel.call("KV/Range", pb.RangeRequest(key=key.encode()), pb.RangeResponse)
        return entry(answer.kvs[0]) if answer.kvs else None

    async def list(self, prefix: str) -> Snapshot:
        """Everything under the prefix and the store's name, at one revision."""
        key = prefix.encode()
        reads = [
            pb.RequestOp(request_range=pb.RangeRequest(key=_IDENTITY)),
            pb.RequestOp(request_range=pb.RangeRequest(key=key, range_end=end_of_prefix(key))),
        ]
        named = pb.Compare(target=pb.Compare.CREATE, key=_IDENTITY, create_revision=0)
        put = pb.RequestOp(request_put=pb.PutRequest(key=_IDENTITY, value=uuid.uuid4().hex.encode()))
        # A nameless store is given one and read again: a put is not seen by reads of the same transaction everywhere.
        answer = await self._channel.transact(pb.TxnRequest(compare=[named], success=[put], failure=reads))
        while answer.succeeded:
            answer = await self._channel.transact(pb.TxnRequest(compare=[named], success=[put], failure=reads))
        name, found = (response.response_range.kvs for response in answer.responses)
        self._store_id = name[0].value.decode(errors="replace")
        entries = tuple(entry(pair) for pair in found)
        return Snapshot(entries=entries, revision=answer.header.revision, store_id=self._store_id)

    async def transact(self, conditions: Sequence[Condition], writes: Sequence[Write]) -> Transaction:
        """Do all writes if all conditions hold."""
        request = pb.TxnRequest(
            compare=[compare(condition) for condition in conditions], success=[operation(write) for write in writes]
        )
        answer = await self._channel.transact(request)
        return Transaction(succeeded=answer.succeeded, revision=answer.header.revision)

    async def grant(self, time_to_live: timedelta) -> Lease:
        """A new lease, of whole seconds (rounded up; etcd's own least is 2 s), kept alive from now on."""
        granted_at = asyncio.get_running_loop().time()
        request = pb.LeaseGrantRequest(TTL=math.ceil(time_to_live.total_seconds()))
        answer = await self._channel.call("Lease/LeaseGrant", request, pb.LeaseGrantResponse)
        lease = EtcdLease(self._channel, lease_id=answer.ID, time_to_live=answer.TTL, granted_at=granted_at)
        self._leases.append(lease)
        return lease

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[WatchEvent]:
        """Every change under the prefix above revision `after` of the store that this connection last listed."""
        watch = EtcdWatch(self._channel, prefix=prefix, after=after, store_id=self._store_id, snapshot=self.list)
        return watch.events()

    async def close(self) -> None:
        """End keep-alives, watches and the connection."""
        for lease in self._leases:
            await lease.stop()
        await self._channel.close()
