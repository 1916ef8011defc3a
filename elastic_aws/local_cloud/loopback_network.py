"""The addresses of a local cloud: one block of 127.0.0.0/8, its own among all local clouds of this computer."""

from __future__ import annotations

import ipaddress
import socket
import threading

from elastic_aws.errors import PreflightError
from elastic_aws.local_cloud.machine_root import METADATA_PORT

NUMBERS = range(64, 192)
"""Second bytes to try. Away from 127.0 (everything listens there) and 127.53 (systemd-resolved)."""

SUBNET_PREFIX = 22
"""Size of a subnet: 64 of them in the block, about 1000 addresses each."""

RESERVED_AT_THE_START = 4
"""Addresses of a subnet which AWS keeps for itself: network, router, DNS, future use."""


class LoopbackNetwork:
    """127.n.0.0/16, held against other local clouds by listening on one of its addresses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claim, self.number = _claim()
        self.block = ipaddress.IPv4Network(f"127.{self.number}.0.0/16")
        self._subnets = self.block.subnets(new_prefix=SUBNET_PREFIX)
        self._next: dict[ipaddress.IPv4Network, int] = {}

    def next_subnet(self) -> str:
        """A subnet block that nobody has yet."""
        with self._lock:
            return str(next(self._subnets))

    def next_address(self, subnet: str) -> str:
        """An address of the subnet. Addresses come back only after all others, so that a dead instance's rests."""
        block = ipaddress.IPv4Network(subnet)
        with self._lock:
            used = self._next.get(block, 0)
            self._next[block] = used + 1
        usable = block.num_addresses - RESERVED_AT_THE_START - 1
        return str(block.network_address + RESERVED_AT_THE_START + used % usable)

    def close(self) -> None:
        """Let another local cloud have the block."""
        self._claim.close()


def _claim() -> tuple[socket.socket, int]:
    for number in NUMBERS:
        claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            claim.bind((f"127.{number}.255.254", METADATA_PORT))
        except OSError:
            claim.close()
        else:
            return claim, number
    what = "no block of loopback addresses is free"
    raise PreflightError(
        what, why="127.64 to 127.191 are all taken", hint="elastic-aws local down   (of another cloud)"
    )
