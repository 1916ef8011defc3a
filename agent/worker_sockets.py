"""The agent's end of the worker channel: a UNIX socket that every worker of the node connects to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from elastic_aws.worker_channel import Hello, MalformedMessageError, Message, decode_line, encode_line

Heard = Callable[[Hello, Message], None]
"""Told of every message of a worker, with its greeting."""

HEAR_OUT = timedelta(seconds=1)
"""Longest wait for an ended worker's connection to end: something it started may hold the socket until it is killed."""


class WorkerSockets:
    """Listens from `open` to `close`. What is no message of ours ends the connection, never the agent."""

    def __init__(self, folder: Path, heard: Heard) -> None:
        self.path = folder / "agent.sock"
        """Where workers connect."""
        self._heard = heard
        self._server: asyncio.Server | None = None
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Start listening."""
        self._server = await asyncio.start_unix_server(self._serve, path=str(self.path), limit=1 << 20)

    def send(self, rank: int, message: Message) -> bool:
        """Send to the worker of this rank; False when it has no connection."""
        writer = self._writers.get(rank)
        if writer is None or writer.is_closing():
            return False
        writer.write(encode_line(message))
        return True

    def broadcast(self, message: Message) -> int:
        """Send to all connected workers; answer how many there are."""
        return sum([self.send(rank, message) for rank in list(self._writers)])

    async def heard_out(self) -> None:
        """Return when all that ended workers said has been heard. Waits for at most `HEAR_OUT`."""
        if self._serving:
            await asyncio.wait(set(self._serving), timeout=HEAR_OUT.total_seconds())

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        for writer in self._writers.values():
            writer.close()
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        hello: Hello | None = None
        with contextlib.suppress(MalformedMessageError, ConnectionError, ValueError, asyncio.CancelledError):
            while line := await reader.readline():
                message = decode_line(line)
                if hello is None:
                    if not isinstance(message, Hello):
                        break
                    hello = message
                    self._writers[hello.rank] = writer
                self._heard(hello, message)
        if hello is not None and self._writers.get(hello.rank) is writer:
            del self._writers[hello.rank]
        writer.close()
