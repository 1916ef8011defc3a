"""The connection to etcd: one gRPC channel, bounded calls, and gRPC's errors turned into ours."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import grpc

from elastic_aws.errors import LeaseLostError, StoreError, StoreUnavailableError, UsageError
from elastic_aws.store import etcd_pb2 as pb

Answer = TypeVar("Answer")

_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # an unclear transaction is the caller's to repeat
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Half-open connections: etcd refuses pings more often than every 5 s (--grpc-keepalive-min-time).
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 2000),
    ("grpc.http2.max_pings_without_data", 0),
)

_UNAVAILABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNKNOWN,
    }
)


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """PEM files for `https` endpoints; certificate and key for mutual TLS."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None


class EtcdChannel:
    """A channel to one etcd cluster. Calls wait for a connection, at most `call_timeout`."""

    def __init__(self, endpoints: Sequence[str], *, call_timeout: timedelta, tls: TlsFiles | None = None) -> None:
        self._timeout = call_timeout.total_seconds()
        target, secure = _target(endpoints)
        if secure:
            self._channel: Any = grpc.aio.secure_channel(target, _credentials(tls), options=_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(target, options=_OPTIONS)

    @property
    def timeout(self) -> float:
        """Seconds that one call may take."""
        return self._timeout

    async def call(self, method: str, request: Any, answer_type: type[Answer]) -> Answer:
        """One bounded call, e.g. of `KV/Txn`. Raises: StoreUnavailableError, LeaseLostError, StoreError."""
        with translated():
            call = self._channel.unary_unary(
                f"/etcdserverpb.{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=_parser(answer_type),
            )
            answer: Answer = await call(request, timeout=self._timeout, wait_for_ready=True)
            return answer

    def stream(self, method: str, request_type: type[Any], answer_type: type[Any]) -> Any:
        """A new two-way stream; the caller bounds its reads and cancels it."""
        with translated():
            call = self._channel.stream_stream(
                f"/etcdserverpb.{method}",
                request_serializer=request_type.SerializeToString,
                response_deserializer=_parser(answer_type),
            )
            return call(wait_for_ready=True)

    async def transact(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """One transaction."""
        return await self.call("KV/Txn", request, pb.TxnResponse)

    async def close(self) -> None:
        """End the connection and every call on it."""
        await self._channel.close()


@contextmanager
def translated() -> Iterator[None]:
    """Errors of gRPC inside leave as ours."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        code, why = error.code(), error.details() or ""
        if code in _UNAVAILABLE:
            raise StoreUnavailableError("the store does not answer", why=f"{code.name}: {why}") from error
        if code is grpc.StatusCode.NOT_FOUND and "lease" in why:
            raise LeaseLostError("the store refused a write", why=why) from error
        raise StoreError("the store refused a call", why=f"{code.name}: {why}") from error
    except (grpc.aio.UsageError, asyncio.InvalidStateError) as error:  # the channel or the stream ended meanwhile
        raise StoreUnavailableError("the store does not answer", why=str(error)) from error


def _parser(message_type: type[Any]) -> Any:
    return message_type.FromString


def _target(endpoints: Sequence[str]) -> tuple[str, bool]:
    urls = [urlsplit(endpoint) for endpoint in endpoints]
    if not urls or any(url.scheme not in {"http", "https"} or not url.hostname or not url.port for url in urls):
        why = f"they are {list(endpoints)!r}"
        raise UsageError("store endpoints are not usable", why=why, hint="write http(s)://host:port")
    secure = urls[0].scheme == "https"
    if len(urls) == 1 and not _is_ipv4(urls[0].hostname or ""):
        return f"dns:///{urls[0].hostname}:{urls[0].port}", secure
    if not all(_is_ipv4(url.hostname or "") for url in urls) or len({url.scheme for url in urls}) > 1:
        why = f"they are {list(endpoints)!r}"
        raise UsageError("store endpoints are not usable", why=why, hint="several must be IPv4 addresses, one scheme")
    return "ipv4:" + ",".join(f"{url.hostname}:{url.port}" for url in urls), secure


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _credentials(tls: TlsFiles | None) -> Any:
    if tls is None:
        return grpc.ssl_channel_credentials()
    return grpc.ssl_channel_credentials(
        root_certificates=tls.authority.read_bytes(),
        private_key=tls.key.read_bytes() if tls.key else None,
        certificate_chain=tls.certificate.read_bytes() if tls.certificate else None,
    )
