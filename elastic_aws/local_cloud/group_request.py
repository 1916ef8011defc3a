"""Groups and hooks from what a call or a CloudFormation resource says of them: both use the same names."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from moto.autoscaling.exceptions import ValidationError

from elastic_aws.local_cloud.launch_request import template_version
from elastic_aws.local_cloud.scaling_group import Group, Hook
from elastic_aws.local_cloud.scaling_groups import ScalingGroups

Asked = Mapping[str, Any]


def new_group(groups: ScalingGroups, name: str, asked: Asked) -> Group:
    """A group that is not yet added. Raises: ValidationError for sizes, subnets or a template that cannot be."""
    subnets, zones = _places(groups, asked)
    smallest = int(asked["MinSize"])
    wanted = _number(asked.get("DesiredCapacity"))
    group = Group(
        name=name,
        arn=f"arn:aws:autoscaling:{groups.region_name}:{groups.account_id}:autoScalingGroup:{uuid.uuid4()}"
        f":autoScalingGroupName/{name}",
        min=smallest,
        max=int(asked["MaxSize"]),
        desired=smallest if wanted is None else wanted,
        subnets=subnets,
        zones=zones,
    )
    _apply(groups, group, asked)
    hooks = [new_hook(hook) for hook in asked.get("LifecycleHookSpecificationList") or []]
    group.hooks = {hook.name: hook for hook in hooks}
    return group


def changed_group(groups: ScalingGroups, group: Group, asked: Asked) -> None:
    """Change what is named; everything else, the mixed policy included, stays as it is."""
    if asked.get("VPCZoneIdentifier") or asked.get("AvailabilityZones"):
        group.subnets, group.zones = _places(groups, asked)
    _apply(groups, group, asked)
    groups.resize(
        group,
        minimum=_number(asked.get("MinSize")),
        maximum=_number(asked.get("MaxSize")),
        desired=_number(asked.get("DesiredCapacity")),
    )


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _flag(value: Any) -> bool:
    return str(value).lower() == "true"


def _apply(groups: ScalingGroups, group: Group, asked: Asked) -> None:
    if asked.get("MixedInstancesPolicy"):
        group.mixed, group.template = _with_defaults(asked["MixedInstancesPolicy"]), {}
    elif asked.get("LaunchTemplate"):
        group.mixed, group.template = None, dict(asked["LaunchTemplate"])
    if not group.launch_template:
        raise ValidationError(
            "Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or"
            " MixedInstancesPolicy parameter."
        )
    template_version(group, groups.ec2)
    if asked.get("TerminationPolicies"):
        group.policies = list(asked["TerminationPolicies"])
    if asked.get("CapacityRebalance") is not None:
        group.capacity_rebalance = _flag(asked["CapacityRebalance"])
    if asked.get("NewInstancesProtectedFromScaleIn") is not None:
        group.protect_new = _flag(asked["NewInstancesProtectedFromScaleIn"])
    if asked.get("HealthCheckType"):
        group.health_check = asked["HealthCheckType"]
    group.health_grace = int(asked.get("HealthCheckGracePeriod") or group.health_grace)
    group.cooldown = int(asked.get("DefaultCooldown") or asked.get("Cooldown") or group.cooldown)
    apply_tags(group, asked.get("Tags") or [])


def _with_defaults(policy: Mapping[str, Any]) -> dict[str, Any]:
    template = dict(policy["LaunchTemplate"])
    template.setdefault("Overrides", [])
    return dict(policy) | {"LaunchTemplate": template}


def apply_tags(group: Group, tags: list[dict[str, Any]]) -> None:
    """Add tags; one with a known key replaces the old one."""
    keys = {tag["Key"] for tag in tags}
    added = [{**tag, "PropagateAtLaunch": _flag(tag.get("PropagateAtLaunch"))} for tag in tags]
    group.tags = [tag for tag in group.tags if tag["Key"] not in keys] + added


def _places(groups: ScalingGroups, asked: Asked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named = asked.get("VPCZoneIdentifier") or ""
    ids = named.split(",") if isinstance(named, str) else list(named)
    ids = [subnet.strip() for subnet in ids if subnet.strip()]
    if not ids:
        defaults = groups.ec2.get_default_subnets()
        zones = asked.get("AvailabilityZones") or []
        ids = [defaults[zone].id for zone in zones if zone in defaults]
    if not ids:
        raise ValidationError("At least one Availability Zone or VPC Subnet is required.")
    subnets = [groups.ec2.get_subnet(subnet) for subnet in ids]
    return tuple(ids), tuple(subnet.availability_zone for subnet in subnets)


def new_hook(asked: Asked) -> Hook:
    """A lifecycle hook."""
    return Hook(
        name=asked["LifecycleHookName"],
        transition=asked["LifecycleTransition"],
        heartbeat_seconds=int(asked.get("HeartbeatTimeout") or 3600),
        result=asked.get("DefaultResult") or "ABANDON",
        target=asked.get("NotificationTargetARN") or "",
        role=asked.get("RoleARN") or "",
        metadata=asked.get("NotificationMetadata") or "",
    )
