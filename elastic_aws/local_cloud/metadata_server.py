"""The metadata service of every instance: IMDSv2 on the instance's own address, all served by one thread."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from elastic_aws.local_cloud.instance_facts import InstanceFacts
from elastic_aws.local_cloud.metadata_tree import document

MAX_TOKEN_SECONDS = 21600
"""Longest life of a session token. Source: EC2 User Guide, IMDSv2."""

_REQUEST_SECONDS = 5.0
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """An HTTP request; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Response:
    """An HTTP response."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Tokens:
    """The session tokens of one instance."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expiry: dict[str, float] = {}

    def issue(self, lifetime_seconds: int) -> str:
        """A new token."""
        now = self._clock()
        self._expiry = {token: end for token, end in self._expiry.items() if end > now}
        token = secrets.token_urlsafe(42)
        self._expiry[token] = now + lifetime_seconds
        return token

    def valid(self, token: str) -> bool:
        """Whether the token was issued here and still holds."""
        return self._expiry.get(token, 0) > self._clock()


def respond(request: Request, *, facts: Callable[[], InstanceFacts], tokens: Tokens) -> Response:
    """Answer one request as IMDSv2 does; without a token everything but asking for one is 401."""
    if request.path.rstrip("/") == "/latest/api/token":
        return _token(request, tokens)
    if not tokens.valid(request.headers.get("x-aws-ec2-metadata-token", "")):
        return Response(status=401, body="a session token is needed: PUT /latest/api/token")
    if request.method not in {"GET", "HEAD"}:
        return Response(status=405)
    version, _, path = request.path.lstrip("/").partition("/")
    body = document(path, facts()) if version == "latest" else None
    return Response(status=404) if body is None else Response(status=200, body=body)


def _token(request: Request, tokens: Tokens) -> Response:
    if request.method != "PUT":
        return Response(status=405, headers={"Allow": "OPTIONS, PUT"})
    lifetime = request.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
    if not lifetime.isdigit() or not 1 <= int(lifetime) <= MAX_TOKEN_SECONDS or "x-forwarded-for" in request.headers:
        return Response(status=400)
    headers = {"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": lifetime}
    return Response(status=200, body=tokens.issue(int(lifetime)), headers=headers)


class MetadataServer:
    """Listens for any number of instances."""

    def __init__(self, *, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._servers: dict[str, asyncio.Server] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="instance metadata", daemon=True)
        self._thread.start()

    def add(self, address: str, facts: Callable[[], InstanceFacts]) -> None:
        """Serve an instance on its address. Raises: OSError when the address or port is not free."""
        asyncio.run_coroutine_threadsafe(self._add(address, facts), self._loop).result()

    def remove(self, address: str) -> None:
        """Serve it no longer."""
        asyncio.run_coroutine_threadsafe(self._remove(address), self._loop).result()

    def close(self) -> None:
        """Serve nobody and end the thread."""
        for address in tuple(self._servers):
            self.remove(address)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _add(self, address: str, facts: Callable[[], InstanceFacts]) -> None:
        tokens = Tokens()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _converse(reader, writer, lambda request: respond(request, facts=facts, tokens=tokens))

        self._servers[address] = await asyncio.start_server(serve, address, self._port)

    async def _remove(self, address: str) -> None:
        server = self._servers.pop(address, None)
        if server is not None:
            server.close()


async def _converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Callable[[Request], Response]
) -> None:
    try:
        async with asyncio.timeout(_REQUEST_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *lines = head.rstrip().split("\r\n")
            method, path, _ = request_line.split(" ", 2)
            fields = (line.partition(":") for line in lines)
            headers = {name.strip().lower(): value.strip() for name, _, value in fields}
            request = Request(method=method, path=path.partition("?")[0], headers=headers)
            # Facts wait for the cloud's lock, whose holder may be waiting for this very loop to serve an instance.
            response = await asyncio.to_thread(answer, request)
            writer.write(_encode(response, with_body=method != "HEAD"))
            await writer.drain()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # not a request, or the client is gone: there is nobody to answer
    finally:
        writer.close()


def _encode(response: Response, *, with_body: bool) -> bytes:
    body = response.body.encode("utf-8", "surrogateescape")
    fixed = {"Content-Type": "text/plain", "Content-Length": str(len(body)), "Connection": "close"}
    head = [f"HTTP/1.1 {response.status} {_REASONS[response.status]}"]
    head += [f"{name}: {value}" for name, value in (fixed | response.headers).items()]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + (body if with_body else b"")
