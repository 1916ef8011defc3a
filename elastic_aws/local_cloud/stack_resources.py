"""How each type of CloudFormation resource is made, changed and deleted in the local cloud."""

from __future__ import annotations

import copy
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import moto.ec2.models
import moto.events.models
import moto.iam.models
import moto.logs.models
import moto.s3.models
import moto.sns.models
import moto.sqs.models
import moto.ssm.models  # noqa: F401 - each of these registers its CloudFormation types
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException
from moto.core.common_models import CloudFormationModel
from moto.ec2.models.core import TaggedEC2Resource

from elastic_aws.local_cloud.ec2 import LocalEc2
from elastic_aws.local_cloud.group_request import changed_group, new_group, new_hook
from elastic_aws.local_cloud.intrinsic_functions import TemplateError
from elastic_aws.local_cloud.scaling_groups import ScalingGroups

ACCEPTED = frozenset(
    {
        "AWS::AutoScaling::ScalingPolicy",
        "AWS::AutoScaling::ScheduledAction",
        "AWS::CloudWatch::Alarm",
        "AWS::CloudWatch::Dashboard",
        "AWS::EC2::PlacementGroup",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::Lambda::Permission",
        "AWS::Logs::MetricFilter",
        "AWS::Logs::SubscriptionFilter",
        "AWS::S3::BucketPolicy",
        "AWS::SNS::Subscription",
        "AWS::SNS::TopicPolicy",
        "AWS::SQS::QueuePolicy",
        "AWS::CloudFormation::WaitConditionHandle",
    }
)
"""Types that are taken and listed, and do nothing here: nothing on one computer depends on their effect."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The account and region, its services, and the stack that a resource belongs to."""

    account: str
    region: str
    stack: str
    stack_id: str
    tags: Mapping[str, str]
    ec2: LocalEc2
    groups: ScalingGroups

    def tags_of(self, logical_id: str) -> dict[str, str]:
        """What CloudFormation tags a resource with."""
        own = {
            "aws:cloudformation:stack-name": self.stack,
            "aws:cloudformation:stack-id": self.stack_id,
            "aws:cloudformation:logical-id": logical_id,
        }
        return dict(self.tags) | own


@dataclass(kw_only=True)
class Made:
    """A resource that exists. `attribute` answers Fn::GetAtt; `ready` whether it is complete; `end` deletes it.

    `ended` answers whether the deletion, once begun, is over. `change` takes new properties, where that is possible.
    """

    logical_id: str
    type: str
    physical_id: str
    properties: dict[str, Any]
    attribute: Callable[[str], Any]
    end: Callable[[], None] = lambda: None
    ready: Callable[[], bool] = lambda: True
    ended: Callable[[], bool] = lambda: True
    change: Callable[[dict[str, Any]], None] | None = None
    status: str = "CREATE_COMPLETE"
    reason: str = ""
    keep: bool = False

    def changed(self, properties: dict[str, Any]) -> None:
        """Take new properties in place. Raises: TemplateError where that is not possible."""
        if self.change is None:
            raise TemplateError(f"the local cloud cannot change a {self.type} in place; delete the stack and create it")
        self.change(properties)
        self.properties = properties


def make(logical_id: str, kind: str, properties: dict[str, Any], place: Place) -> Made:
    """Create a resource. Raises: TemplateError for a type that the local cloud does not know, or moto's errors."""
    maker = _OWN.get(kind)
    if maker is not None:
        return maker(logical_id, properties, place)
    if kind in ACCEPTED:
        return _accepted(logical_id, kind, properties, place)
    model = next((model for model in CloudFormationModel.__subclasses__() if model.cloudformation_type() == kind), None)
    if model is None:
        raise TemplateError(f"{kind} is not among the resource types of the local cloud")
    return _moto_resource(model, logical_id, kind, properties, place)


def generated_name(place: Place, logical_id: str) -> str:
    """A physical name as CloudFormation makes them."""
    suffix = "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(12))
    return f"{place.stack}-{logical_id}-{suffix}"


def _accepted(logical_id: str, kind: str, properties: dict[str, Any], place: Place) -> Made:
    name = generated_name(place, logical_id)
    service = kind.split("::")[1].lower()
    arn = f"arn:aws:{service}:{place.region}:{place.account}:{name}"
    return Made(
        logical_id=logical_id,
        type=kind,
        physical_id=name,
        properties=properties,
        attribute=lambda _: arn,
        change=_nothing,
    )


def _nothing(_: dict[str, Any]) -> None:
    return


def _moto_resource(model: Any, logical_id: str, kind: str, properties: dict[str, Any], place: Place) -> Made:
    name = properties.get(model.cloudformation_name_type() or "") or generated_name(place, logical_id)
    document = {"Type": kind, "Properties": _completed(kind, properties)}
    extra = {"LogicalId": logical_id, "StackId": place.stack_id, "ResourceType": kind}
    if kind == "AWS::S3::Bucket":
        name = name.lower()
    resource = model.create_from_cloudformation_json(name, document, place.account, place.region, **extra)
    if isinstance(resource, TaggedEC2Resource):
        place.ec2.create_tags([resource.physical_resource_id], place.tags_of(logical_id))

    def attribute(wanted: str) -> Any:
        try:
            return resource.get_cfn_attribute(wanted)
        except (UnformattedGetAttTemplateException, NotImplementedError) as error:
            kind_name = kind.rpartition("::")[2]
            subject = f"Template error: resource {logical_id} ({kind_name})"
            raise TemplateError(f"{subject} does not support attribute type {wanted} in Fn::GetAtt") from error

    def end() -> None:
        _delete_moto_resource(model, resource, document, place)

    def change(new: dict[str, Any]) -> None:
        updated = {"Type": kind, "Properties": _completed(kind, new)}
        model.update_from_cloudformation_json(
            original_resource=resource,
            new_resource_name=name,
            cloudformation_json=updated,
            account_id=place.account,
            region_name=place.region,
        )

    changes = not getattr(model.update_from_cloudformation_json, "__isabstractmethod__", False)
    return Made(
        logical_id=logical_id,
        type=kind,
        physical_id=getattr(resource, "physical_resource_id", name),  # moto gives some resources none
        properties=properties,
        attribute=attribute,
        end=end,
        change=change if changes else None,
    )


def _delete_moto_resource(model: Any, resource: Any, document: dict[str, Any], place: Place) -> None:
    if document["Type"] == "AWS::EC2::NetworkInterface":
        place.ec2.delete_network_interface(resource.id)
    elif hasattr(resource, "delete"):
        resource.delete(place.account, place.region)
    elif not getattr(model.delete_from_cloudformation_json, "__isabstractmethod__", False):
        model.delete_from_cloudformation_json(resource.physical_resource_id, document, place.account, place.region)


def _completed(kind: str, properties: dict[str, Any]) -> dict[str, Any]:
    """What moto expects and AWS lets one leave out: ports of a rule for all protocols, tags with a type."""
    whole = copy.deepcopy(properties)  # moto changes what it is given
    if kind == "AWS::EC2::SecurityGroup":
        rules = [{"FromPort": -1, "ToPort": -1} | rule for rule in whole.get("SecurityGroupIngress", [])]
        whole["SecurityGroupIngress"] = rules
    if kind == "AWS::EC2::SecurityGroupIngress":
        whole = {"FromPort": -1, "ToPort": -1} | whole
    if kind == "AWS::EC2::NetworkInterface":
        whole["SecurityGroups"] = whole.get("GroupSet", [])
    return whole


def _scaling_group(logical_id: str, properties: dict[str, Any], place: Place) -> Made:
    name = properties.get("AutoScalingGroupName") or generated_name(place, logical_id)
    stack_tags = [{"Key": k, "Value": v, "PropagateAtLaunch": True} for k, v in place.tags_of(logical_id).items()]
    groups = place.groups
    group = new_group(groups, name, properties | {"Tags": stack_tags + list(properties.get("Tags", []))})
    groups.add(group)

    def ready() -> bool:
        counted = [member for member in group.members.values() if member.phase == "InService"]
        return len(counted) >= group.desired

    def end() -> None:
        if name in groups.groups:
            groups.delete(group, force=False) if not group.members else _shrink(groups, name)

    def ended() -> bool:
        if name in groups.groups and not group.members and not group.deleting:
            groups.delete(group, force=False)
        return name not in groups.groups

    return Made(
        logical_id=logical_id,
        type="AWS::AutoScaling::AutoScalingGroup",
        physical_id=name,
        properties=properties,
        attribute=lambda _: group.arn,
        end=end,
        ready=ready,
        ended=ended,
        change=lambda new: changed_group(groups, group, new),
    )


def _shrink(groups: ScalingGroups, name: str) -> None:
    groups.resize(groups.find(name), minimum=0, maximum=0, desired=0)


def _lifecycle_hook(logical_id: str, properties: dict[str, Any], place: Place) -> Made:
    name = properties.get("LifecycleHookName") or generated_name(place, logical_id)
    group = place.groups.find(properties["AutoScalingGroupName"])

    def change(new: dict[str, Any]) -> None:
        group.hooks[name] = new_hook({**new, "LifecycleHookName": name})

    change(properties)
    return Made(
        logical_id=logical_id,
        type="AWS::AutoScaling::LifecycleHook",
        physical_id=name,
        properties=properties,
        attribute=lambda _: name,
        end=lambda: None,  # it goes with its group: a group that shrinks to nothing still honours it
        change=change,
    )


_OWN: dict[str, Callable[[str, dict[str, Any], Place], Made]] = {
    "AWS::AutoScaling::AutoScalingGroup": _scaling_group,
    "AWS::AutoScaling::LifecycleHook": _lifecycle_hook,
}
