"""Refuses every connection of this process to anything but this computer."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Callable


class NotLoopbackError(OSError):
    """Something tried to reach another computer. The local cloud never does."""


def allow_loopback_only(report: Callable[[str], None]) -> None:
    """From now on a connection that is not to a loopback address or a UNIX socket is reported and refused."""

    def check(event: str, arguments: tuple[object, ...]) -> None:
        if event not in {"socket.connect", "socket.sendto"}:
            return
        connection, address = arguments
        if isinstance(connection, socket.socket) and connection.family == socket.AF_UNIX:
            return
        if isinstance(address, tuple) and not is_loopback(str(address[0])):
            report(f"refused a connection to {address[0]}: the local cloud only talks to this computer")
            raise NotLoopbackError(f"{address[0]} is not a loopback address")

    sys.addaudithook(check)


def is_loopback(host: str) -> bool:
    """Whether a host is this computer. Names are not resolved: only `localhost` is."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
