"""The computer that all instances of a local cloud run on: boots, lists and ends their machines."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from elastic_aws.local_cloud.instance_facts import InstanceFacts
from elastic_aws.local_cloud.loopback_network import LoopbackNetwork
from elastic_aws.local_cloud.machine import Machine
from elastic_aws.local_cloud.machine_root import MachinePlace
from elastic_aws.local_cloud.metadata_server import MetadataServer

SHUTDOWN_GRACE = timedelta(seconds=5)
"""How long the units of an instance may take to stop when it is terminated. EC2 gives minutes; nobody waits here."""


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where a local cloud keeps its files. `run` is short, for UNIX sockets."""

    home: Path
    run: Path

    @property
    def instances(self) -> Path:
        """One folder an instance; they stay after it is gone, until the next `local up`, for reading logs."""
        return self.home / "instances"


class Host:
    """All machines, by instance id.

    `endpoint_url` is set once the AWS endpoint listens; no machine boots before.
    """

    def __init__(self, *, folders: Folders, network: LoopbackNetwork, metadata: MetadataServer, proxy_url: str) -> None:
        self.network = network
        self.grace = SHUTDOWN_GRACE
        self.endpoint_url = ""
        self._proxy_url = proxy_url
        self._folders = folders
        self._metadata = metadata
        self._lock = threading.Lock()
        self._machines: dict[str, Machine] = {}

    def boot(
        self,
        instance: str,
        *,
        address: str,
        user_data: bytes | None,
        facts: Callable[[], InstanceFacts],
        on_power_off: Callable[[], None],
        on_gone: Callable[[], None],
    ) -> None:
        """Start the instance's metadata service and its machine."""
        place = MachinePlace(
            instance=instance,
            folder=self._folders.instances / instance,
            run_folder=self._folders.run / instance[-8:],
            address=address,
            endpoint_url=self.endpoint_url,
            proxy_url=self._proxy_url,
        )

        def gone() -> None:
            self._metadata.remove(address)
            on_gone()

        machine = Machine(place=place, on_power_off=on_power_off, on_gone=gone)
        with self._lock:
            self._machines[instance] = machine
        self._metadata.add(address, facts)
        machine.start(user_data=user_data)

    def machine(self, instance: str) -> Machine | None:
        """The instance's machine, alive or gone."""
        with self._lock:
            return self._machines.get(instance)

    def machines(self) -> dict[str, Machine]:
        """All machines that ever booted."""
        with self._lock:
            return dict(self._machines)

    def shut_down(self, instance: str) -> None:
        """Stop the instance in order: units first, within the grace."""
        if (machine := self.machine(instance)) is not None:
            machine.shut_down(self.grace)

    def kill(self, instance: str) -> None:
        """Kill every process of the instance at once."""
        if (machine := self.machine(instance)) is not None:
            machine.kill()

    def close(self) -> None:
        """Kill every instance and wait until none has a process left."""
        machines = [machine for machine in self.machines().values() if not machine.gone.is_set()]
        for machine in machines:
            machine.kill()
        for machine in machines:
            machine.gone.wait(timeout=10)
