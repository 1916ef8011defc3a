"""The AWS services of the local cloud: moto's, with ours in the place of those it does not do well enough."""

from __future__ import annotations

import threading
from datetime import datetime
from functools import partial
from typing import Any

import moto.autoscaling.urls
import moto.cloudformation.urls
from moto.autoscaling.models import autoscaling_backends
from moto.cloudformation.models import cloudformation_backends
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ssm.models import ssm_backends

from elastic_aws.local_cloud.autoscaling_api import LocalAutoScalingResponse
from elastic_aws.local_cloud.cloudformation_api import LocalCloudFormationResponse, LocalStacks, StackSurroundings
from elastic_aws.local_cloud.ec2 import LocalEc2
from elastic_aws.local_cloud.group_keeper import GroupKeeper
from elastic_aws.local_cloud.group_surroundings import Surroundings
from elastic_aws.local_cloud.host import Host
from elastic_aws.local_cloud.instance_view import InstanceView
from elastic_aws.local_cloud.intrinsic_functions import TemplateError
from elastic_aws.local_cloud.market import SpotInstance
from elastic_aws.local_cloud.scaling_groups import ScalingGroups
from elastic_aws.local_cloud.seeds import seed_region
from elastic_aws.local_cloud.spot_market import SpotMarket
from elastic_aws.local_cloud.stack_resources import Place

ACCOUNT: str = DEFAULT_ACCOUNT_ID


class Services:
    """EC2, Auto Scaling and CloudFormation of all regions, and the lock over everything but S3."""

    def __init__(self, *, host: Host) -> None:
        self.lock = threading.RLock()
        self._host = host
        self._market: SpotMarket | None = None
        self._view = InstanceView(target_state=self._target_state)
        self._ec2: dict[str, LocalEc2] = {}
        self._groups: dict[str, ScalingGroups] = {}
        self.keeper = GroupKeeper(lock=self.lock, regions=lambda: list(self._groups.values()))

    def install(self, market: SpotMarket) -> None:
        """Put our services in the place of moto's. Once in a process: moto keeps its services in module globals."""
        self._market = market
        ec2_backends.backend = self._make_ec2
        autoscaling_backends.backend = self._make_groups
        cloudformation_backends.backend = partial(LocalStacks, around=self._stack_surroundings)
        moto.autoscaling.urls.url_paths["{0}/$"] = LocalAutoScalingResponse.dispatch
        moto.cloudformation.urls.url_paths["{0}/$"] = LocalCloudFormationResponse.dispatch

    def ec2(self, region: str) -> LocalEc2:
        """A region's EC2."""
        ec2: LocalEc2 = ec2_backends[ACCOUNT][region]
        return ec2

    def _make_ec2(self, region_name: str, account_id: str) -> LocalEc2:
        market = self._market
        assert market is not None
        ec2 = LocalEc2(
            region_name,
            account_id,
            host=self._host,
            lock=self.lock,
            describe=self._view.facts,
            changed=lambda region, instance: self.keeper.wake(),  # noqa: ARG005 - the keeper looks at everything
            spot_launched=market.open,
        )
        seed_region(ec2, ssm_backends[account_id][region_name])
        self._ec2[region_name] = ec2
        return ec2

    def _make_groups(self, region_name: str, account_id: str) -> ScalingGroups:
        market = self._market
        assert market is not None
        around = Surroundings(
            room=lambda: market.room(len(self.spot_instances())),
            replacement_delay=market.replacement_delay,
            wake=self.keeper.wake,
        )
        ec2 = ec2_backends[account_id][region_name]
        groups = ScalingGroups(region_name, account_id, ec2=ec2, around=around)
        self._groups[region_name] = groups
        return groups

    def _stack_surroundings(self, region: str) -> StackSurroundings:
        parameters = ssm_backends[ACCOUNT][region]

        def place(stack: str, stack_id: str, tags: dict[str, str]) -> Place:
            groups = autoscaling_backends[ACCOUNT][region]
            return Place(
                account=ACCOUNT,
                region=region,
                stack=stack,
                stack_id=stack_id,
                tags=tags,
                ec2=self.ec2(region),
                groups=groups,
            )

        def stored(name: str) -> str:
            parameter = parameters.get_parameter(name)
            if parameter is None:
                raise TemplateError(f"Unable to fetch parameters [{name}] from parameter store for this account.")
            return str(parameter.value)

        return StackSurroundings(place=place, parameter_store=stored, lock=self.lock)

    def _target_state(self, region: str, instance: str) -> str | None:
        groups = self._groups.get(region)
        found = groups.group_of(instance) if groups is not None else None
        if found is None:
            return None
        return "InService" if found[1].phase.counts else "Terminated"

    def _find(self, instance: str) -> LocalEc2:
        return next(ec2 for ec2 in self._ec2.values() if ec2.get_instance_by_id(instance) is not None)

    def spot_instances(self) -> list[SpotInstance]:
        """The running spot instances of all regions."""
        with self.lock:
            running = [
                (instance.launch_time, instance.id, ec2)
                for ec2 in self._ec2.values()
                for instance in ec2.all_instances()
                if instance.lifecycle == "spot" and instance.state == "running"
            ]
            running.sort(key=lambda one: one[:2])
            return [
                SpotInstance(id=instance, order=order, noticed=instance in ec2.reclaim_at)
                for order, (_, instance, ec2) in enumerate(running)
            ]

    def announce(self, instance: str, at: datetime) -> None:
        """Show a spot interruption in the instance's metadata."""
        with self.lock:
            self._find(instance).reclaim_at[instance] = at

    def recommend_rebalance(self, instance: str) -> None:
        """Show a rebalance recommendation, and let the instance's group act on it."""
        with self.lock:
            ec2 = self._find(instance)
            ec2.recommend_rebalance(instance)
            self._groups[ec2.region_name].recommend_rebalance(instance)

    def reclaim(self, instance: str) -> None:
        """Switch a spot instance off."""
        with self.lock:
            self._find(instance).reclaim(instance)

    def capacity_changed(self) -> None:
        """Let the groups look again."""
        with self.lock:
            for groups in self._groups.values():
                for group in groups.groups.values():
                    group.retry_after = 0.0
        self.keeper.wake()

    def instances(self) -> list[dict[str, Any]]:
        """All instances that are not gone, and those that ended while they booted."""
        with self.lock:
            return [
                {
                    "id": instance.id,
                    "state": instance.state,
                    "address": instance.private_ip_address if instance.nics else "",
                    "zone": instance.placement.zone,
                    "type": instance.instance_type,
                    "spot": instance.lifecycle == "spot",
                    "group": next(
                        (tag["value"] for tag in instance.get_tags() if tag["key"] == "aws:autoscaling:groupName"), ""
                    ),
                }
                for ec2 in self._ec2.values()
                for instance in ec2.all_instances()
                if instance.state != "terminated"
            ]
