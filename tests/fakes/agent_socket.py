"""The agent's end of the worker channel, as a worker sees it: one connection, answers told beforehand."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from datetime import timedelta
from pathlib import Path

from elastic_aws.round_record import CommitRecord
from elastic_aws.worker_channel import (
    CommitReply,
    CommitRequest,
    DrainOrder,
    Message,
    NewestReply,
    NewestRequest,
    decode_line,
    encode_line,
)
from tests.waiting import wait_until


class FakeAgent:
    """Keeps the newest commit; refuses commits while `round_is_over`. What it heard is in `heard`, in order."""

    def __init__(self, path: Path) -> None:
        self.newest: CommitRecord | None = None
        self.round_is_over = False
        self.heard: queue.Queue[Message] = queue.Queue()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Order the worker to stop."""
        wait_until(lambda: self._connection is not None, limit=timedelta(seconds=10))
        assert self._connection is not None
        self._connection.sendall(encode_line(DrainOrder(reason="a test")))

    def close(self) -> None:
        """Go away, as an agent that dies."""
        if self._connection is not None:
            with contextlib.suppress(OSError):  # the worker may have ended it
                self._connection.shutdown(socket.SHUT_RDWR)
            self._thread.join(10)
            self._connection.close()
        self._listener.close()

    def _serve(self) -> None:
        self._connection, _ = self._listener.accept()
        with self._connection.makefile("rb") as lines:
            for line in lines:
                message = decode_line(line)
                self.heard.put(message)
                match message:
                    case NewestRequest():
                        self._connection.sendall(encode_line(NewestReply(id=message.id, record=self.newest)))
                    case CommitRequest():
                        self._answer_commit(message)
                    case _:
                        pass

    def _answer_commit(self, request: CommitRequest) -> None:
        assert self._connection is not None
        if not self.round_is_over:
            self.newest = request.record
        reason = "the round is over" if self.round_is_over else ""
        reply = CommitReply(id=request.id, committed=not self.round_is_over, reason=reason)
        self._connection.sendall(encode_line(reply))
