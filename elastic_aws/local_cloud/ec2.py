"""EC2 of the local cloud: moto's, with a network of loopback addresses and instances that really run."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import moto.ec2.urls
from moto.core.utils import utcnow
from moto.ec2.exceptions import InvalidInstanceIdError
from moto.ec2.models import EC2Backend

from elastic_aws.local_cloud.host import Host
from elastic_aws.local_cloud.instance_facts import InstanceFacts

ZONES = 3
"""Availability zones of every region: a default subnet in each."""


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """One instance to launch from a template version."""

    image: str
    type: str
    subnet: str
    user_data: str | None
    security_groups: tuple[str, ...]
    template: str
    template_version: str
    tags: dict[str, str]
    spot: bool
    profile: dict[str, str] = field(default_factory=dict)
    metadata_options: dict[str, Any] = field(default_factory=dict)


class LocalEc2(EC2Backend):  # type: ignore[misc] # moto is untyped here
    """One region's EC2.

    `lock` guards all state of the cloud's services. `describe` makes an instance's facts; `changed` is called
    whenever an instance stops running, with its id; `spot_launched` for each new spot instance.
    """

    def __init__(
        self,
        region_name: str,
        account_id: str,
        *,
        host: Host,
        lock: threading.RLock,
        describe: Callable[[LocalEc2, Any], InstanceFacts],
        changed: Callable[[str, str], None],
        spot_launched: Callable[[], None],
    ) -> None:
        self.host = host
        self._lock = lock
        self._describe = describe
        self._changed = changed
        self._spot_launched = spot_launched
        self.reclaim_at: dict[str, datetime] = {}
        self.rebalance_at: dict[str, datetime] = {}
        super().__init__(region_name, account_id)

    @property
    def _url_module(self) -> ModuleType:
        urls: ModuleType = moto.ec2.urls
        return urls

    def create_default_vpc(self) -> Any:
        """A VPC on the loopback block, with a subnet in each of three zones."""
        vpc = self.create_vpc(cidr_block=str(self.host.network.block), is_default=True)
        for zone in self.describe_availability_zones()[:ZONES]:
            self.create_subnet(vpc.id, self.host.network.next_subnet(), availability_zone=zone.name)
        return vpc

    def create_network_interface(self, subnet: Any, private_ip_address: Any = None, *args: Any, **options: Any) -> Any:
        """An interface with an address that no other interface or instance has."""
        subnet = self.get_subnet(subnet) if isinstance(subnet, str) else subnet
        if not private_ip_address and not options.get("private_ip_addresses"):
            private_ip_address = self._free_address(subnet)
        interface = super().create_network_interface(subnet, private_ip_address, *args, **options)
        subnet._subnet_ips.setdefault(interface.private_ip_address, interface)
        return interface

    def _free_address(self, subnet: Any) -> str:
        while (address := self.host.network.next_address(subnet.cidr_block)) in subnet._subnet_ips:
            pass
        return address

    def run_instances(
        self, image_id: str, count: int, user_data: Any, security_group_names: list[str], **options: Any
    ) -> Any:
        """Launch and boot. Without a subnet the instances go to the default VPC."""
        reservation = self._create(image_id, count, user_data, security_group_names, options)
        for instance in reservation.instances:
            self._boot(instance)
        return reservation

    def _create(self, image_id: str, count: int, user_data: Any, groups: list[str], options: dict[str, Any]) -> Any:
        subnet = self._subnet_for(options)
        options["subnet_id"] = subnet.id
        reservation = None
        for _ in range(count):
            options["private_ip"] = self._free_address(subnet)
            one = super().run_instances(image_id, 1, user_data, groups, **options)
            reservation = self._joined(reservation, one)
        assert reservation is not None
        for instance in reservation.instances:
            for interface in instance.nics.values():
                interface.delete_on_termination = True
        return reservation

    def _joined(self, first: Any, second: Any) -> Any:
        if first is None:
            return second
        first.instances.extend(second.instances)
        del self.reservations[second.id]
        return first

    def _subnet_for(self, options: dict[str, Any]) -> Any:
        if options.get("subnet_id"):
            return self.get_subnet(options["subnet_id"])
        named = next((nic["SubnetId"] for nic in options.get("nics") or [] if "SubnetId" in nic), None)
        if named:
            return self.get_subnet(named)
        subnets = self.get_default_subnets()
        return subnets.get(options.get("placement")) or next(iter(subnets.values()))

    def launch(self, request: LaunchRequest) -> Any:
        """Launch one instance for a group."""
        options = {
            "security_group_ids": list(request.security_groups),
            "instance_type": request.type,
            "is_instance_type_default": False,
            "subnet_id": request.subnet,
            "launch_template": {"LaunchTemplateId": request.template, "Version": request.template_version},
            "tags": {"instance": request.tags},
            "instance_market_options": {"MarketType": "spot"} if request.spot else None,
            "metadata_options": request.metadata_options,
            "associate_public_ip": False,
        }
        instance = self._create(request.image, 1, request.user_data, [], options).instances[0]
        if request.profile:
            self.associate_iam_instance_profile(
                instance.id,
                iam_instance_profile_name=request.profile.get("Name"),
                iam_instance_profile_arn=request.profile.get("Arn"),
            )
        self._boot(instance)
        return instance

    def _boot(self, instance: Any) -> None:
        def facts() -> InstanceFacts:
            with self._lock:
                return self._describe(self, instance)

        self.host.boot(
            instance.id,
            address=instance.private_ip_address,
            user_data=user_data_of(instance),
            facts=facts,
            on_power_off=lambda: self._power_off(instance.id),
            on_gone=lambda: self._gone(instance.id),
        )
        if instance.lifecycle == "spot":
            self._spot_launched()

    def _power_off(self, instance: str) -> None:
        with self._lock:
            self.terminate_instances([instance])

    def terminate_instances(self, instance_ids: list[str]) -> list[tuple[Any, Any]]:
        """Shut the instances down; they are `terminated` once no process of them is left."""
        return [self._terminate(self.get_instance(instance)) for instance in instance_ids]

    def _terminate(self, instance: Any) -> tuple[Any, Any]:
        before = type(instance._state)(instance._state.name, instance._state.code)
        if instance._state.name == "running":
            _set_state(instance, "shutting-down", 32)
            self.host.shut_down(instance.id)
            self._changed(self.region_name, instance.id)
        return instance, before

    def reclaim(self, instance_id: str) -> None:
        """Take a spot instance back: its power goes off."""
        instance = self.get_instance(instance_id)
        if instance._state.name == "terminated":
            return
        _set_state(instance, "shutting-down", 32)
        instance.state_reason.code = "Server.SpotInstanceTermination"
        instance.state_reason.message = "Server.SpotInstanceTermination: Spot instance termination"
        self.reclaim_at.setdefault(instance_id, datetime.now(UTC))
        self.host.kill(instance_id)
        self._changed(self.region_name, instance_id)

    def recommend_rebalance(self, instance_id: str) -> None:
        """Show a rebalance recommendation in the instance's metadata."""
        self.rebalance_at[instance_id] = datetime.now(UTC)

    def stop_instances(self, instance_ids: list[str]) -> list[Any]:
        """Refused: nothing here would keep a stopped instance's state."""
        raise self._refused("StopInstances", instance_ids)

    def _refused(self, action: str, instance_ids: list[str]) -> Exception:
        self.get_multi_instances_by_id(instance_ids)
        return NotImplementedError(f"{action}: instances of the local cloud run or are terminated")

    def _gone(self, instance_id: str) -> None:
        """The machine has no process left, for whatever reason."""
        with self._lock:
            instance = self.get_instance(instance_id)
            reason = (instance.state_reason.code, instance.state_reason.message)
            for interface in [nic for index, nic in instance.nics.items() if index != 0]:
                instance.detach_eni(interface)
            _set_state(instance, "terminated", 48)
            instance.terminate()
            if reason[0]:
                instance.state_reason.code, instance.state_reason.message = reason
            instance.terminated_at = utcnow()
            self._changed(self.region_name, instance_id)

    def gone(self, instance_id: str) -> bool:
        """Whether no process of the instance is left."""
        try:
            return bool(self.get_instance(instance_id)._state.name == "terminated")
        except InvalidInstanceIdError:
            return True

    def running(self, instance_id: str) -> bool:
        """Whether EC2 still shows the instance as running."""
        try:
            return bool(self.get_instance(instance_id)._state.name == "running")
        except InvalidInstanceIdError:
            return False

    def attach_network_interface(self, eni_id: str, instance_id: str, device_index: int) -> Any:
        """As AWS: an interface that is attached elsewhere is refused."""
        interface = self.get_network_interface(eni_id)
        if interface.instance is not None:
            self.raise_error("InvalidNetworkInterface.InUse", f"Interface: [{eni_id}] in use.")
        return super().attach_network_interface(eni_id, instance_id, device_index)

    def delete_network_interface(self, eni_id: str) -> None:
        """As AWS: only a detached one; its address becomes free."""
        interface = self.get_network_interface(eni_id)
        if interface.instance is not None and interface.instance._state.name != "terminated":
            self.raise_error("InvalidNetworkInterface.InUse", f"Interface: [{eni_id}] in use.")
        super().delete_network_interface(eni_id)
        interface.subnet.del_subnet_ip(interface.private_ip_address)


def user_data_of(instance: Any) -> bytes | None:
    """An instance's user-data, decoded."""
    encoded = instance.user_data
    if encoded is None:
        return None
    return base64.b64decode(encoded if isinstance(encoded, str) else encoded.as_bytes())


def _set_state(instance: Any, name: str, code: int) -> None:
    instance._state.name = name
    instance._state.code = code
