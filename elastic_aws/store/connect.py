"""Opening the store that a NodeConfig names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from elastic_aws.store.etcd_channel import EtcdChannel, TlsFiles
from elastic_aws.store.etcd_store import EtcdStore
from elastic_aws.store.protocol import Store


def connect(endpoints: Sequence[str], *, call_timeout: timedelta, tls: TlsFiles | None = None) -> Store:
    """A connection to the etcd at `http(s)://host:port`, used on the running event loop. Nothing is sent yet.

    Raises: UsageError when the endpoints cannot be meant.
    """
    return EtcdStore(EtcdChannel(endpoints, call_timeout=call_timeout, tls=tls))
