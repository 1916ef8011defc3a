"""This node's fork server: it imports torch once, and forks workers and rounds' TCP stores from then on."""

from __future__ import annotations

import asyncio
import atexit
import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from elastic_aws.agent import round_endpoint
from elastic_aws.errors import PreflightError
from elastic_aws.round_record import Endpoint

ORDER_VARIABLE = "ELASTIC_AWS_PRELOAD_ORDER"
"""Names the FIFO on which the fork server waits to be told what the job wants preloaded."""


class PreloadError(PreflightError):
    """The fork server did not come up, or a module that the job wants preloaded cannot be imported."""


class ForkServer:
    """Starts when it is made, and imports torch while the node is still being set up.

    It is the standard library's, of which a process has one.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ea-"))
        """For sockets and a FIFO, until this process ends. Short: a UNIX socket's path has at most 107 bytes."""
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self._context = multiprocessing.get_context("forkserver")
        self._endpoints: list[tuple[ForkServerProcess, Connection]] = []
        self._old_endpoints: list[ForkServerProcess] = []
        order_path = self.folder / "preload"
        os.mkfifo(order_path, 0o600)
        # Both ends are open here, so that neither side waits for the other; the fork server sees the end of the
        # FIFO, and ends, when this process does.
        self._order = os.open(order_path, os.O_RDWR)
        os.environ[ORDER_VARIABLE] = str(order_path)
        self._context.set_forkserver_preload(["elastic_aws.agent.preload"])
        forkserver.ensure_running()

    async def preload(self, code: Path, modules: tuple[str, ...]) -> None:
        """Have it import the job's modules, with `code` on the path; return when it has. Raises: PreloadError."""
        os.write(self._order, json.dumps({"code": str(code), "modules": modules}).encode() + b"\n")
        failures = await asyncio.to_thread(self._probe)
        if failures:
            raise PreloadError("a module to preload cannot be imported", why="; ".join(failures))

    def _probe(self) -> list[str]:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=round_endpoint.probe, args=(theirs,))
        try:
            process.start()
            theirs.close()
            failures = list(mine.recv())
            process.join()
        except (EOFError, OSError) as error:  # the fork server ended while it was asked, before or after it forked
            why = "its fork server ended; does the node's Python have torch?"
            raise PreloadError("workers cannot be started", why=why) from error
        finally:
            theirs.close()
            mine.close()
        return failures

    def process(self, target: Callable[..., None], *arguments: object, name: str) -> ForkServerProcess:
        """A process that `start()` will fork from it."""
        return self._context.Process(target=target, args=arguments, name=name)

    async def open_endpoint(self, host: str) -> Endpoint:
        """A fresh TCP store on a free port of `host`. The one before stays, for a round may be using it."""
        endpoint = await asyncio.to_thread(self._open_endpoint, host)
        while len(self._endpoints) > 2:
            self._let_go(*self._endpoints.pop(0))
        return endpoint

    def _open_endpoint(self, host: str) -> Endpoint:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=round_endpoint.serve, args=(host, theirs))
        process.start()
        theirs.close()
        try:
            port = int(mine.recv())
        except EOFError as error:
            raise PreloadError("no TCP store could be opened", why=f"on {host}; see the agent's log") from error
        self._endpoints.append((process, mine))
        return Endpoint(host=host, port=port)

    def _let_go(self, process: ForkServerProcess, pipe: Connection) -> None:
        pipe.close()
        self._old_endpoints = [old for old in self._old_endpoints if old.is_alive()] + [process]

    async def close(self) -> None:
        """End the TCP stores. The fork server itself ends with this process."""
        while self._endpoints:
            self._let_go(*self._endpoints.pop())
        for process in self._old_endpoints:
            await asyncio.to_thread(process.join, 5)
            if process.is_alive():
                process.kill()
        os.close(self._order)
