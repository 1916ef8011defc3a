"""A worker's end of the worker channel."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import socket
import threading

from elastic_aws.errors import CheckpointError
from elastic_aws.round_record import CommitRecord
from elastic_aws.worker_channel import (
    ROUND_VARIABLE,
    SOCKET_VARIABLE,
    CommitReply,
    CommitRequest,
    Drained,
    DrainOrder,
    Hello,
    Message,
    NewestReply,
    NewestRequest,
    StepDone,
    decode_line,
    encode_line,
)

Reply = CommitReply | NewestReply


class AgentLink:
    """The connection to this node's agent. Its loss makes requests fail; the agent's death ends the worker anyway."""

    def __init__(self, path: str, *, round: int, rank: int, local_rank: int) -> None:  # noqa: A002 - the field's word
        self.round = round
        self.drain_asked = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._numbers = itertools.count(1)
        self._replies: dict[int, queue.Queue[Reply | None]] = {}
        self._gone = threading.Event()
        self._send(Hello(round=round, rank=rank, local_rank=local_rank, pid=os.getpid()))
        threading.Thread(target=self._listen, name="agent link", daemon=True).start()

    @classmethod
    def from_environment(cls, *, rank: int, local_rank: int) -> AgentLink | None:
        """The link to the agent that started this worker; None without one (plain torchrun, or by hand)."""
        path = os.environ.get(SOCKET_VARIABLE)
        if not path:
            return None
        return cls(path, round=int(os.environ[ROUND_VARIABLE]), rank=rank, local_rank=local_rank)

    def step(self, done: StepDone) -> None:
        """Report progress."""
        self._send(done)

    def drained(self, step: int) -> None:
        """Say that state is saved and this worker is about to exit as asked."""
        self._send(Drained(step=step))

    def commit(self, record: CommitRecord) -> CommitReply:
        """Make a checkpoint the newest. Waits for the store. Raises: CheckpointError when the agent is gone."""
        reply = self._ask(CommitRequest(id=next(self._numbers), record=record))
        assert isinstance(reply, CommitReply)
        return reply

    def newest(self) -> CommitRecord | None:
        """The newest checkpoint. Raises: CheckpointError when the agent is gone."""
        reply = self._ask(NewestRequest(id=next(self._numbers)))
        assert isinstance(reply, NewestReply)
        return reply.record

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _ask(self, request: CommitRequest | NewestRequest) -> Reply:
        answer: queue.Queue[Reply | None] = queue.Queue()
        self._replies[request.id] = answer
        self._send(request)
        if self._gone.is_set():
            answer.put(None)
        reply = answer.get()
        if reply is None:
            raise CheckpointError("the node's agent is gone", why="it closed the worker channel")
        return reply

    def _send(self, message: Message) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(encode_line(message))

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self._socket.makefile("rb"):
                match decode_line(line):
                    case DrainOrder():
                        self.drain_asked.set()
                    case CommitReply() | NewestReply() as reply:
                        self._replies.pop(reply.id).put(reply)
                    case _:
                        pass
        self._gone.set()
        for waiting in list(self._replies.values()):
            waiting.put(None)
