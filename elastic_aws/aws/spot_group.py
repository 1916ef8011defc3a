"""The workers' group and its instances, as the laptop handles them."""

from __future__ import annotations

from dataclasses import dataclass

from elastic_aws.aws.lifecycle_hook import HOOK_NAME
from elastic_aws.aws.session import AwsSession, translate
from elastic_aws.errors import NotFoundError


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One instance of a group. `state` is its lifecycle state in the group, e.g. InService."""

    id: str
    type: str
    zone: str
    state: str


@dataclass(frozen=True, kw_only=True)
class GroupSize:
    """A group's sizes and its instances."""

    desired: int
    max: int
    instances: tuple[Instance, ...]


class SpotGroup:
    """One auto scaling group."""

    def __init__(self, session: AwsSession, name: str) -> None:
        self._client = session.client("autoscaling")
        self.name = name

    def size(self) -> GroupSize:
        """Its size now. Raises: NotFoundError."""
        with translate(f"reading the group {self.name}"):
            groups = self._client.describe_auto_scaling_groups(AutoScalingGroupNames=[self.name])["AutoScalingGroups"]
        if not groups:
            raise NotFoundError(f"no group {self.name}")
        group = groups[0]
        instances = tuple(
            Instance(
                id=each["InstanceId"],
                type=each.get("InstanceType", ""),
                zone=each["AvailabilityZone"],
                state=each["LifecycleState"],
            )
            for each in group["Instances"]
        )
        return GroupSize(desired=group["DesiredCapacity"], max=group["MaxSize"], instances=instances)

    def resize(self, *, desired: int, maximum: int) -> None:
        """Change the live group; its template and policies stay."""
        with translate(f"scaling the group {self.name}"):
            self._client.update_auto_scaling_group(
                AutoScalingGroupName=self.name, MaxSize=maximum, DesiredCapacity=desired
            )

    def let_go(self, instance: str) -> None:
        """End the wait of an instance that is being terminated. Raises: AwsError, also when it does not wait."""
        with translate(f"letting {instance} go"):
            self._client.complete_lifecycle_action(
                LifecycleHookName=HOOK_NAME,
                AutoScalingGroupName=self.name,
                InstanceId=instance,
                LifecycleActionResult="CONTINUE",
            )
