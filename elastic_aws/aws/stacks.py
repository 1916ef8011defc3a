"""CloudFormation stacks, as the laptop handles them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elastic_aws.aws.session import AwsSession, translate
from elastic_aws.errors import NotFoundError


@dataclass(frozen=True, kw_only=True)
class StackResource:
    """One resource of a stack; `reason` is CloudFormation's, mostly of a failure."""

    name: str
    type: str
    status: str
    reason: str
    physical_id: str


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A stack as it was when asked."""

    name: str
    id: str
    status: str
    reason: str
    outputs: dict[str, str]
    parameters: dict[str, str]
    tags: dict[str, str]

    @property
    def settled(self) -> bool:
        """Whether CloudFormation works on it no more."""
        return not self.status.endswith("_IN_PROGRESS")


class Stacks:
    """The stacks of one region."""

    def __init__(self, session: AwsSession) -> None:
        self._client = session.client("cloudformation")

    def find(self, name: str) -> Stack | None:
        """The stack of this name or id, or None; a deleted one is found by its id only."""
        try:
            with translate(f"looking for the stack {name}"):
                return _stack(self._client.describe_stacks(StackName=name)["Stacks"][0])
        except NotFoundError:
            return None

    def tagged(self, tag: str) -> Iterator[Stack]:
        """All stacks with a tag of this key."""
        with translate("listing the stacks"):
            for page in self._client.get_paginator("describe_stacks").paginate():
                stacks = (_stack(fields) for fields in page["Stacks"])
                yield from (stack for stack in stacks if tag in stack.tags)

    def create(self, name: str, *, template: str, parameters: dict[str, str], tags: dict[str, str]) -> str:
        """Begin to create a stack; answer its id."""
        with translate(f"creating the stack {name}"):
            answer = self._client.create_stack(
                StackName=name,
                TemplateBody=template,
                Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
                Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
                Capabilities=["CAPABILITY_IAM"],
            )
        return str(answer["StackId"])

    def delete(self, name: str) -> None:
        """Begin to delete a stack."""
        with translate(f"deleting the stack {name}"):
            self._client.delete_stack(StackName=name)

    def resources(self, name: str) -> tuple[StackResource, ...]:
        """The stack's resources so far."""
        with translate(f"reading the resources of {name}"):
            answer = self._client.describe_stack_resources(StackName=name)
        return tuple(
            StackResource(
                name=each["LogicalResourceId"],
                type=each["ResourceType"],
                status=each["ResourceStatus"],
                reason=each.get("ResourceStatusReason", ""),
                physical_id=each.get("PhysicalResourceId", ""),
            )
            for each in answer["StackResources"]
        )


def _stack(fields: dict[str, Any]) -> Stack:
    return Stack(
        name=fields["StackName"],
        id=fields["StackId"],
        status=fields["StackStatus"],
        reason=fields.get("StackStatusReason", ""),
        outputs={each["OutputKey"]: each["OutputValue"] for each in fields.get("Outputs", [])},
        parameters={each["ParameterKey"]: each["ParameterValue"] for each in fields.get("Parameters", [])},
        tags={each["Key"]: each["Value"] for each in fields.get("Tags", [])},
    )
