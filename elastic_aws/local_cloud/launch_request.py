"""What a group's next instance is launched with: its launch template, overridden by its mixed policy."""

from __future__ import annotations

from typing import Any

from elastic_aws.local_cloud.ec2 import LaunchRequest, LocalEc2
from elastic_aws.local_cloud.scaling_group import LAUNCHING, Group, Member
from elastic_aws.local_cloud.scaling_rules import Phase


def template_version(group: Group, ec2: LocalEc2) -> Any:
    """The version of the launch template that the group launches from. Raises: moto's error when it is gone."""
    wanted = group.launch_template
    if wanted.get("LaunchTemplateId"):
        template = ec2.get_launch_template(wanted["LaunchTemplateId"])
    else:
        template = ec2.get_launch_template_by_name(wanted["LaunchTemplateName"])
    return template.get_version(wanted.get("Version") or "$Default")


def new_member(group: Group, ec2: LocalEc2, *, zone: str, order: int) -> Member:
    """Launch the group's next instance, in this zone; with a launching hook it begins to wait."""
    spot = group.next_is_spot()
    request = launch_request(group, ec2, subnet=group.subnets[group.zones.index(zone)], spot=spot)
    instance = ec2.launch(request)
    template = {
        "LaunchTemplateId": request.template,
        "LaunchTemplateName": ec2.get_launch_template(request.template).name,
        "Version": request.template_version,
    }
    member = Member(
        instance=instance.id,
        zone=zone,
        type=request.type,
        order=order,
        template=template,
        protected=group.protect_new,
        spot=spot,
    )
    if (hook := group.hook(LAUNCHING)) is not None:
        member.begin_wait(Phase.PENDING_WAIT, hook)
    return member


def launch_request(group: Group, ec2: LocalEc2, *, subnet: str, spot: bool) -> LaunchRequest:
    """What to launch next in this subnet."""
    version = template_version(group, ec2)
    data = version.data
    override: dict[str, Any] = next(iter((group.mixed or {}).get("LaunchTemplate", {}).get("Overrides") or []), {})
    own_spot = (data.get("InstanceMarketOptions") or {}).get("MarketType") == "spot"
    return LaunchRequest(
        image=data.get("ImageId", ""),
        type=override.get("InstanceType") or data.get("InstanceType", "m5.large"),
        subnet=subnet,
        user_data=version.user_data,
        security_groups=tuple(_security_groups(data)),
        template=version.template.id,
        template_version=str(version.number),
        tags=_tags(group, version),
        spot=spot or own_spot,
        profile=dict(data.get("IamInstanceProfile") or {}),
        metadata_options=dict(data.get("MetadataOptions") or {}),
    )


def _security_groups(data: dict[str, Any]) -> list[str]:
    interfaces = data.get("NetworkInterfaces") or [{}]
    return list(data.get("SecurityGroupIds") or interfaces[0].get("Groups") or [])


def _tags(group: Group, version: Any) -> dict[str, str]:
    propagated = {tag["Key"]: tag.get("Value", "") for tag in group.tags if tag.get("PropagateAtLaunch")}
    return dict(version.instance_tags) | propagated | {"aws:autoscaling:groupName": group.name}
