"""The CloudFormation calls that the local cloud answers itself; moto parses requests and writes responses."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from types import ModuleType
from typing import Any, ClassVar
from urllib.parse import urlparse

import moto.cloudformation.urls
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import cloudformation_backends
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.base_backend import BaseBackend
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult
from moto.core.utils import camelcase_to_underscores
from moto.s3.models import s3_backends

from elastic_aws.local_cloud.intrinsic_functions import TemplateError
from elastic_aws.local_cloud.stack import Stack, StackEvent
from elastic_aws.local_cloud.stack_resources import Made, Place
from elastic_aws.local_cloud.template import MAX_BODY_BYTES, Template, parameter_values, parse_template


@dataclass(kw_only=True)
class StackSurroundings:
    """What stacks of a region need: its services, by a function of the stack's name, id and tags."""

    place: Callable[[str, str, dict[str, str]], Place]
    parameter_store: Callable[[str], str]
    lock: threading.RLock
    stacks: list[Stack] = field(default_factory=list)


class LocalStacks(BaseBackend):  # type: ignore[misc] # moto is untyped here
    """All stacks of a region, deleted ones included."""

    def __init__(self, region_name: str, account_id: str, *, around: Callable[[str], StackSurroundings]) -> None:
        super().__init__(region_name, account_id)
        self.around = around(region_name)
        self.stacks = self.around.stacks

    @property
    def _url_module(self) -> ModuleType:
        urls: ModuleType = moto.cloudformation.urls
        return urls

    def find(self, name_or_id: str) -> Stack:
        """A stack by name (not a deleted one) or id. Raises: ValidationError, 'does not exist'."""
        for stack in self.stacks:
            if stack.id == name_or_id or (stack.name == name_or_id and stack.status != "DELETE_COMPLETE"):
                return stack
        raise ValidationError(name_or_id)

    def live(self) -> list[Stack]:
        """The stacks that are not deleted."""
        return [stack for stack in self.stacks if stack.status != "DELETE_COMPLETE"]


class LocalCloudFormationResponse(CloudFormationResponse):  # type: ignore[misc] # moto is untyped here
    """One request."""

    RESPONSE_KEY_PATH_TO_TRANSFORMER: ClassVar[dict[str, Any]] = {}

    def call_action(self) -> Any:
        """Answer what is defined here; moto's own answers would need its own model."""
        name = camelcase_to_underscores(self._get_action())
        if name not in vars(type(self)):
            raise NotImplementedError(name)
        return super().call_action()

    @property
    def _stacks(self) -> LocalStacks:
        stacks: LocalStacks = cloudformation_backends[self.current_account][self.region]
        return stacks

    def create_stack(self) -> ActionResult:
        """CreateStack: answers at once; the stack goes on by itself."""
        name = self._get_param("StackName")
        if any(stack.name == name for stack in self._stacks.live()):
            raise ServiceException("AlreadyExistsException", f"Stack [{name}] already exists")
        template = self._template()
        parameters = self._checked(
            template, {p["ParameterKey"]: p["ParameterValue"] for p in self._get_param("Parameters", [])}
        )
        self._check_capabilities(template)
        around = self._stacks.around
        stack_id = f"arn:aws:cloudformation:{self.region}:{self.current_account}:stack/{name}/{uuid.uuid4()}"
        minutes = self._get_int_param("TimeoutInMinutes")
        stack = Stack(
            place=around.place(name, stack_id, self._tags()),
            template=template,
            parameters=parameters,
            lock=around.lock,
            parameter_store=around.parameter_store,
            timeout=None if minutes is None else timedelta(minutes=minutes),
            rollback=self._get_param("OnFailure", "ROLLBACK") != "DO_NOTHING"
            and not self._get_bool_param("DisableRollback", False),
        )
        self._stacks.stacks.append(stack)
        stack.create()
        return ActionResult({"StackId": stack.id})

    def update_stack(self) -> ActionResult:
        """UpdateStack: changes what can change in place. Raises: ValidationError when nothing differs."""
        stack = self._stacks.find(self._get_param("StackName"))
        if stack.status.endswith("_IN_PROGRESS") or stack.status in {
            "ROLLBACK_COMPLETE",
            "CREATE_FAILED",
            "ROLLBACK_FAILED",
        }:
            raise ValidationError(message=f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        template = stack.template if self._get_bool_param("UsePreviousTemplate", False) else self._template()
        given = {}
        for parameter in self._get_param("Parameters", []):
            key = parameter["ParameterKey"]
            previous = str(parameter.get("UsePreviousValue", "")).lower() == "true"
            given[key] = stack.parameters[key] if previous else parameter["ParameterValue"]
        parameters = self._checked(template, given)
        tags = self._tags() or dict(stack.place.tags)
        if template.body == stack.template.body and parameters == stack.parameters and tags == stack.place.tags:
            raise ValidationError(message="No updates are to be performed.")
        self._check_capabilities(template)
        stack.retagged(tags)
        stack.update(template, parameters)
        return ActionResult({"StackId": stack.id})

    def delete_stack(self) -> ActionResult:
        """DeleteStack: answers at once; a stack that does not exist is no error."""
        name = self._get_param("StackName")
        for stack in self._stacks.live():
            if name in {stack.name, stack.id} and stack.status != "DELETE_IN_PROGRESS":
                stack.delete()
        return EmptyResult()

    def describe_stacks(self) -> ActionResult:
        """DescribeStacks; always one page."""
        name = self._get_param("StackName")
        stacks = [self._stacks.find(name)] if name else self._stacks.live()
        return ActionResult({"Stacks": [_shown(stack) for stack in stacks]})

    def list_stacks(self) -> ActionResult:
        """ListStacks; always one page, deleted ones included."""
        wanted = self._get_param("StackStatusFilter", [])
        summaries = [_summary(stack) for stack in self._stacks.stacks if not wanted or stack.status in wanted]
        return ActionResult({"StackSummaries": summaries})

    def describe_stack_events(self) -> ActionResult:
        """DescribeStackEvents, newest first; always one page."""
        stack = self._stacks.find(self._get_param("StackName"))
        return ActionResult({"StackEvents": [_event(stack, event) for event in reversed(tuple(stack.events))]})

    def describe_stack_resources(self) -> ActionResult:
        """DescribeStackResources."""
        stack = self._stacks.find(self._get_param("StackName"))
        wanted = self._get_param("LogicalResourceId")
        made = [one for one in tuple(stack.made.values()) if wanted in {None, one.logical_id}]
        return ActionResult({"StackResources": [_resource(stack, one) for one in made]})

    def list_stack_resources(self) -> ActionResult:
        """ListStackResources; always one page."""
        stack = self._stacks.find(self._get_param("StackName"))
        resources = [_resource(stack, one) for one in tuple(stack.made.values())]
        return ActionResult({"StackResourceSummaries": resources})

    def describe_stack_resource(self) -> ActionResult:
        """DescribeStackResource."""
        stack = self._stacks.find(self._get_param("StackName"))
        wanted = self._get_param("LogicalResourceId")
        if wanted not in stack.made:
            raise ValidationError(message=f"Resource {wanted} does not exist for stack {stack.name}")
        return ActionResult({"StackResourceDetail": _resource(stack, stack.made[wanted])})

    def get_template(self) -> ActionResult:
        """GetTemplate."""
        stack = self._stacks.find(self._get_param("StackName"))
        return ActionResult({"TemplateBody": stack.template.body, "StagesAvailable": ["Original", "Processed"]})

    def validate_template(self) -> ActionResult:
        """ValidateTemplate: reads it, its references and their order."""
        template = self._template()
        parameters = [{"ParameterKey": key, "NoEcho": False} for key in template.parameters]
        needed = sorted(template.needed_capabilities())
        return ActionResult({"Description": template.description, "Parameters": parameters, "Capabilities": needed})

    def _tags(self) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in self._get_param("Tags", [])}

    def _template(self) -> Template:
        body, url = self._get_param("TemplateBody"), self._get_param("TemplateURL")
        if body and len(body.encode()) > MAX_BODY_BYTES:
            message = "1 validation error detected: Value at 'templateBody' failed to satisfy constraint"
            raise ValidationError(message=f"{message}: Member must have length less than or equal to {MAX_BODY_BYTES}")
        if url:
            bucket, _, key = urlparse(url).path.lstrip("/").partition("/")
            body = s3_backends[self.current_account][self.partition].get_object(bucket, key).value.decode()
        if not body:
            raise ValidationError(message="Either Template URL or Template Body must be specified.")
        try:
            template = parse_template(body)
            template.check_references()
            template.order()
        except TemplateError as error:
            raise ValidationError(message=str(error)) from error
        return template

    @staticmethod
    def _checked(template: Template, given: dict[str, str]) -> dict[str, str]:
        try:
            return parameter_values(template, given)
        except TemplateError as error:
            raise ValidationError(message=str(error)) from error

    def _check_capabilities(self, template: Template) -> None:
        given = set(self._get_param("Capabilities", []))
        if "CAPABILITY_NAMED_IAM" in given:
            given.add("CAPABILITY_IAM")
        if missing := template.needed_capabilities() - given:
            raise ServiceException(
                "InsufficientCapabilitiesException", f"Requires capabilities : [{', '.join(missing)}]"
            )


def _shown(stack: Stack) -> dict[str, Any]:
    return {
        "StackId": stack.id,
        "StackName": stack.name,
        "Description": stack.template.description or None,
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in stack.parameters.items()],
        "CreationTime": stack.created,
        "LastUpdatedTime": stack.updated,
        "DeletionTime": stack.deleted,
        "RollbackConfiguration": {},
        "StackStatus": stack.status,
        "StackStatusReason": stack.reason or None,
        "DisableRollback": False,
        "NotificationARNs": [],
        "Capabilities": sorted(stack.template.needed_capabilities()),
        "Outputs": stack.outputs,
        "Tags": [{"Key": key, "Value": value} for key, value in stack.place.tags.items()],
        "EnableTerminationProtection": False,
    }


def _summary(stack: Stack) -> dict[str, Any]:
    shown = _shown(stack)
    keys = (
        "StackId",
        "StackName",
        "CreationTime",
        "LastUpdatedTime",
        "DeletionTime",
        "StackStatus",
        "StackStatusReason",
    )
    return {key: shown[key] for key in keys} | {"TemplateDescription": shown["Description"]}


def _event(stack: Stack, event: StackEvent) -> dict[str, Any]:
    return {
        "StackId": stack.id,
        "EventId": event.id,
        "StackName": stack.name,
        "LogicalResourceId": event.logical_id,
        "PhysicalResourceId": event.physical_id,
        "ResourceType": event.type,
        "Timestamp": event.at,
        "ResourceStatus": event.status,
        "ResourceStatusReason": event.reason or None,
    }


def _resource(stack: Stack, made: Made) -> dict[str, Any]:
    return {
        "StackId": stack.id,
        "StackName": stack.name,
        "LogicalResourceId": made.logical_id,
        "PhysicalResourceId": made.physical_id,
        "ResourceType": made.type,
        "Timestamp": stack.created,
        "LastUpdatedTimestamp": stack.created,
        "ResourceStatus": made.status,
        "ResourceStatusReason": made.reason or None,
    }
