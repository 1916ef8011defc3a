"""Between the protocol's values and etcd's messages."""

from __future__ import annotations

from elastic_aws.store import etcd_pb2 as pb
from elastic_aws.store.protocol import (
    Changed,
    Condition,
    CreatedAt,
    Delete,
    Entry,
    Put,
    Removed,
    Unchanged,
    ValueIs,
    Write,
)


def end_of_prefix(prefix: bytes) -> bytes:
    """The first key after all that start with the prefix. Keys here are UTF-8, so the last byte is never 0xff."""
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\0"


def entry(pair: pb.KeyValue) -> Entry:
    """One key's entry."""
    return Entry(
        key=pair.key.decode(errors="replace"),
        value=pair.value,
        created=pair.create_revision,
        modified=pair.mod_revision,
        lease=pair.lease,
    )


def watch_event(event: pb.Event) -> Changed | Removed:
    """One change."""
    if event.type == pb.Event.DELETE:
        return Removed(key=event.kv.key.decode(errors="replace"), revision=event.kv.mod_revision)
    return Changed(entry=entry(event.kv))


def compare(condition: Condition) -> pb.Compare:
    """The condition as a comparison for equality."""
    key = condition.key.encode()
    match condition:
        case Unchanged(modified=modified):
            return pb.Compare(target=pb.Compare.MOD, key=key, mod_revision=modified)
        case CreatedAt(created=created):
            return pb.Compare(target=pb.Compare.CREATE, key=key, create_revision=created)
        case ValueIs(value=value):
            return pb.Compare(target=pb.Compare.VALUE, key=key, value=value)


def operation(write: Write) -> pb.RequestOp:
    """The write as an operation of a transaction."""
    match write:
        case Put(key=key, value=value, lease=lease):
            return pb.RequestOp(request_put=pb.PutRequest(key=key.encode(), value=value, lease=lease))
        case Delete(key=key):
            return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key.encode()))
