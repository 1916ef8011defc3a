"""Process 1 of an instance: runs its user-data and its units, and ends every process when told to or left alone.

Standard library only, and started with `python -S -E -I`, so that it costs about 12 MB. It is spoken to in JSON lines:
the daemon writes orders on standard input and reads reports from standard output; `systemctl` and the like connect
to its UNIX socket. When standard input ends, because the daemon closed it or died, every process is killed at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from elastic_aws.local_cloud import processes
from elastic_aws.local_cloud.service_manager import Reply, ServiceManager


class Init:
    """The one loop that waits for orders, requests, children and deadlines."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._root = Path(order["root"])
        self._environment: dict[str, str] = order["environment"]
        self._run_folder = Path(order["run_folder"])
        self._user_data = Path(order["user_data"])
        self._boot_pid = 0
        self._daemon = os.getppid()
        self._ends_at: float | None = None
        self._input = b""
        self._clients: dict[socket.socket, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._manager = ServiceManager(
            root=self._root, environment=self._environment, report=self._report, power_off=self._power_off
        )
        become_alone()

    def run(self) -> None:
        """Boot, then serve until ordered to end."""
        self._listen()
        self._boot()
        while True:
            for key, _ in self._selector.select(self._patience()):
                key.data(key.fileobj)
            self._reap()
            self._manager.tick(time.monotonic())
            if self._ends_at is not None and (self._quiet() or time.monotonic() >= self._ends_at):
                self.end()

    def end(self) -> None:
        """Kill every process of the instance and exit."""
        processes.kill_all(self._left)
        shutil.rmtree(self._run_folder, ignore_errors=True)
        if os.getppid() != self._daemon:  # the daemon died: nobody else removes the folder of all instances
            with contextlib.suppress(OSError):
                self._run_folder.parent.rmdir()
        os._exit(0)

    def _left(self) -> set[int]:
        reap_all()
        return processes.descendants(os.getpid())

    def _quiet(self) -> bool:
        return not self._boot_pid and not self._manager.running()

    def _patience(self) -> float | None:
        times = [when for when in (self._ends_at, self._manager.wakes_at()) if when is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _listen(self) -> None:
        wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        self._selector.register(wakeup_read, selectors.EVENT_READ, lambda _: os.read(wakeup_read, 4096))
        os.set_blocking(0, False)
        self._selector.register(0, selectors.EVENT_READ, self._read_order)
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(self._run_folder / "init.sock"))
        server.listen(16)
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ, self._accept)

    def _boot(self) -> None:
        log_path = self._root / "var/log/cloud-init-output.log"
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if not self._user_data.exists():
            self._report({"event": "booted", "status": 0})
        else:
            argv = ["bash", str(self._user_data)]
            self._boot_pid = processes.spawn(
                argv, environment=self._environment, folder=str(self._root), stdout=log, stderr=log
            )
        os.close(log)

    def _reap(self) -> None:
        for pid, code in reap_all():
            if pid == self._boot_pid:
                self._boot_pid = 0
                self._report({"event": "booted", "status": code})
            else:
                self._manager.reaped(pid, code)

    def _read_order(self, _: object) -> None:
        data = os.read(0, 65536)
        if not data:
            self.end()
        self._input += data
        *lines, self._input = self._input.split(b"\n")
        for line in lines:
            self._shut_down(json.loads(line)["grace_seconds"])

    def _shut_down(self, grace_seconds: float) -> None:
        if self._ends_at is not None:
            return
        self._ends_at = time.monotonic() + grace_seconds
        if self._boot_pid:
            processes.send(self._boot_pid, signal.SIGTERM)
        self._manager.stop_all(within_seconds=grace_seconds)

    def _power_off(self) -> None:
        self._report({"event": "power_off"})

    def _accept(self, server: socket.socket) -> None:
        client, _ = server.accept()
        client.setblocking(False)
        self._clients[client] = b""
        self._selector.register(client, selectors.EVENT_READ, self._read_request)

    def _read_request(self, client: socket.socket) -> None:
        data = client.recv(65536)
        self._clients[client] += data
        if data and not data.endswith(b"\n"):
            return
        self._selector.unregister(client)
        request = self._clients.pop(client)
        if not request:
            client.close()
            return
        self._manager.request(json.loads(request)["argv"], lambda reply: answer(client, reply))

    @staticmethod
    def _report(fields: dict[str, Any]) -> None:
        try:
            os.write(1, json.dumps(fields).encode() + b"\n")
        except OSError:  # the daemon is gone; the end of standard input says so as well
            return


def become_alone() -> None:
    """Adopt orphans, and belong to no terminal or session of whoever started the local cloud."""
    processes.become_subreaper()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def reap_all() -> list[tuple[int, int]]:
    """Children that ended, with their status; negative for a signal."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended.append((pid, os.waitstatus_to_exitcode(status)))


def answer(client: socket.socket, reply: Reply) -> None:
    """Send the reply to a stand-in and hang up."""
    try:
        client.setblocking(True)
        client.sendall(json.dumps({"code": reply.code, "out": reply.out, "err": reply.err}).encode() + b"\n")
    except OSError:  # it did not wait for the answer
        return
    finally:
        client.close()


def main() -> None:
    """Read the first line of standard input, which says what instance this is, and run it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        line += byte
    Init(json.loads(line)).run()
