"""An auto scaling group: what it was told, its instances, its hooks and its history."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.autoscaling.exceptions import ValidationError

from elastic_aws.local_cloud.scaling_rules import Phase

LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"


@dataclass(kw_only=True)
class Hook:
    """A lifecycle hook. `result` is what happens when nobody completes it."""

    name: str
    transition: str
    heartbeat_seconds: int = 3600
    result: str = "ABANDON"
    target: str = ""
    role: str = ""
    metadata: str = ""


@dataclass(kw_only=True)
class Member:
    """An instance of a group. `waits_for` and `wait_ends` (monotonic seconds) belong to the hook it waits for."""

    instance: str
    zone: str
    type: str
    order: int
    template: dict[str, str]
    phase: Phase = Phase.IN_SERVICE
    healthy: bool = True
    protected: bool = False
    replaced: bool = False
    spot: bool = False
    waits_for: str = ""
    wait_ends: float = 0.0
    token: str = ""

    def begin_wait(self, phase: Phase, hook: Hook) -> None:
        """Wait for the hook, in this phase."""
        self.phase = phase
        self.waits_for = hook.name
        self.token = str(uuid.uuid4())
        self.wait_ends = time.monotonic() + hook.heartbeat_seconds


@dataclass(kw_only=True)
class Activity:
    """One entry of a group's history."""

    group: str
    description: str
    cause: str
    instance: str = ""
    status: str = "InProgress"
    message: str = ""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None

    def finish(self, status: str, message: str = "") -> None:
        """It came to an end."""
        self.status = status
        self.message = message
        self.ended = datetime.now(UTC)

    def shown(self) -> dict[str, Any]:
        """As DescribeScalingActivities shows it."""
        return {
            "ActivityId": self.id,
            "AutoScalingGroupName": self.group,
            "Description": self.description,
            "Cause": self.cause,
            "StartTime": self.started,
            "EndTime": self.ended,
            "StatusCode": self.status,
            "StatusMessage": self.message or None,
            "Progress": 100 if self.ended else 50,
            "Details": "{}",
        }


@dataclass(kw_only=True)
class Group:
    """One auto scaling group."""

    name: str
    arn: str
    min: int
    max: int
    desired: int
    subnets: tuple[str, ...]
    zones: tuple[str, ...]
    template: dict[str, str] = field(default_factory=dict)
    mixed: dict[str, Any] | None = None
    tags: list[dict[str, Any]] = field(default_factory=list)
    policies: list[str] = field(default_factory=lambda: ["Default"])
    capacity_rebalance: bool = False
    protect_new: bool = False
    cooldown: int = 300
    health_check: str = "EC2"
    health_grace: int = 0
    hooks: dict[str, Hook] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    activities: list[Activity] = field(default_factory=list)
    suspended: set[str] = field(default_factory=set)
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    launch_after: float = 0.0
    retry_after: float = 0.0
    deleting: bool = False

    @property
    def launch_template(self) -> dict[str, str]:
        """The template it launches from: its own or its mixed policy's."""
        if self.mixed is None:
            return self.template
        specification: dict[str, str] = self.mixed["LaunchTemplate"]["LaunchTemplateSpecification"]
        return specification

    def hook(self, transition: str) -> Hook | None:
        """Its hook for a transition; where there are several, the first."""
        return next((hook for hook in self.hooks.values() if hook.transition == transition), None)

    def spot_share(self) -> tuple[int, int]:
        """How many on-demand instances come first, and the percentage of on-demand ones above them."""
        if self.mixed is None:
            return 0, 100
        distribution = self.mixed.get("InstancesDistribution") or {}
        base = int(distribution.get("OnDemandBaseCapacity", 0))
        return base, int(distribution.get("OnDemandPercentageAboveBaseCapacity", 100))

    def next_is_spot(self) -> bool:
        """Whether the next instance comes from the spot market."""
        base, percent = self.spot_share()
        counted = [member for member in self.members.values() if member.phase.counts]
        on_demand = sum(not member.spot for member in counted)
        above = len(counted) + 1 - base
        if above <= 0:
            return False
        return on_demand >= base + round(above * percent / 100)

    def shown(self) -> dict[str, Any]:
        """As DescribeAutoScalingGroups shows it."""
        return {
            "AutoScalingGroupName": self.name,
            "AutoScalingGroupARN": self.arn,
            "LaunchTemplate": self.template or None,
            "MixedInstancesPolicy": self.mixed,
            "MinSize": self.min,
            "MaxSize": self.max,
            "DesiredCapacity": self.desired,
            "DefaultCooldown": self.cooldown,
            "AvailabilityZones": list(dict.fromkeys(self.zones)),
            "LoadBalancerNames": [],
            "TargetGroupARNs": [],
            "HealthCheckType": self.health_check,
            "HealthCheckGracePeriod": self.health_grace,
            "Instances": [shown_member(member) for member in self.members.values()],
            "CreatedTime": self.created,
            "SuspendedProcesses": [{"ProcessName": name, "SuspensionReason": ""} for name in sorted(self.suspended)],
            "VPCZoneIdentifier": ",".join(self.subnets),
            "Status": "Delete in progress" if self.deleting else None,
            "Tags": shown_tags(self),
            "TerminationPolicies": self.policies,
            "NewInstancesProtectedFromScaleIn": self.protect_new,
            "CapacityRebalance": self.capacity_rebalance,
        }


def shown_tags(group: Group) -> list[dict[str, Any]]:
    """A group's tags as Auto Scaling shows them."""
    fixed = {"ResourceId": group.name, "ResourceType": "auto-scaling-group"}
    return [fixed | {"PropagateAtLaunch": bool(tag.get("PropagateAtLaunch"))} | _key_value(tag) for tag in group.tags]


def _key_value(tag: dict[str, Any]) -> dict[str, Any]:
    return {"Key": tag["Key"], "Value": tag.get("Value", "")}


def shown_member(member: Member) -> dict[str, Any]:
    """An instance as a group shows it."""
    return {
        "InstanceId": member.instance,
        "InstanceType": member.type,
        "AvailabilityZone": member.zone,
        "LifecycleState": str(member.phase),
        "HealthStatus": "Healthy" if member.healthy else "Unhealthy",
        "LaunchTemplate": member.template or None,
        "ProtectedFromScaleIn": member.protected,
    }


def check_sizes(*, minimum: int, maximum: int, desired: int) -> None:
    """Raises: ValidationError in AWS's words when the three do not fit together."""
    if minimum > maximum:
        raise ValidationError(f"Max bound, {maximum}, must be greater than or equal to min bound, {minimum}")
    if not minimum <= desired <= maximum:
        raise ValidationError(
            f"Desired capacity:{desired} must be between the specified min size:{minimum} and max size:{maximum}"
        )
