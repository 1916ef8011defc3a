"""Refuses every connection of this process to anything but this computer."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Callable
from typing import NoReturn


class NotLoopbackError(OSError):
    """Something tried to reach another computer. The local cloud never does."""


def allow_loopback_only(report: Callable[[str], None]) -> None:
    """From now on whatever is not for this computer is reported and refused: connections, and look-ups of names."""

    def refuse(what: str) -> NoReturn:
        report(f"refused {what}: the local cloud only talks to this computer")
        raise NotLoopbackError(f"refused {what}")

    def check(event: str, arguments: tuple[object, ...]) -> None:
        if event in {"socket.getaddrinfo", "socket.gethostbyname"}:
            host = arguments[0]
            if host and not is_loopback(host.decode() if isinstance(host, bytes) else str(host)):
                refuse(f"a look-up of {host!r}")
        if event not in {"socket.connect", "socket.sendto"}:
            return
        connection, address = arguments
        if isinstance(connection, socket.socket) and connection.family == socket.AF_UNIX:
            return
        if isinstance(address, tuple) and not is_loopback(str(address[0])):
            refuse(f"a connection to {address[0]}")

    sys.addaudithook(check)


def is_loopback(host: str) -> bool:
    """Whether a host is this computer. Names are not resolved: only `localhost` is."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
