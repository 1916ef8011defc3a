"""The Auto Scaling calls that the local cloud answers itself; moto parses requests and writes responses."""

from __future__ import annotations

from typing import Any

from moto.autoscaling.exceptions import ValidationError
from moto.autoscaling.models import autoscaling_backends
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult, EmptyResult
from moto.core.utils import camelcase_to_underscores

from elastic_aws.local_cloud.group_request import apply_tags, changed_group, new_group, new_hook
from elastic_aws.local_cloud.scaling_group import Group, Hook, shown_member, shown_tags
from elastic_aws.local_cloud.scaling_groups import ScalingGroups

_SUSPENDABLE = (
    "AZRebalance", "AddToLoadBalancer", "AlarmNotification", "HealthCheck", "InstanceRefresh", "Launch",
    "ReplaceUnhealthy", "ScheduledActions", "Terminate",
)  # fmt: skip


class LocalAutoScalingResponse(AutoScalingResponse):  # type: ignore[misc] # moto is untyped here
    """One request."""

    def call_action(self) -> Any:
        """Answer what is defined here; moto's own answers would need its own model."""
        name = camelcase_to_underscores(self._get_action())
        if name not in vars(type(self)):
            raise NotImplementedError(name)
        return super().call_action()

    @property
    def _groups(self) -> ScalingGroups:
        groups: ScalingGroups = autoscaling_backends[self.current_account][self.region]
        return groups

    def _group(self) -> Group:
        return self._groups.find(self._get_param("AutoScalingGroupName"))

    def create_auto_scaling_group(self) -> ActionResult:
        """CreateAutoScalingGroup."""
        self._groups.add(new_group(self._groups, self._get_param("AutoScalingGroupName"), self._get_params()))
        return EmptyResult()

    def update_auto_scaling_group(self) -> ActionResult:
        """UpdateAutoScalingGroup."""
        name = self._get_param("AutoScalingGroupName")
        if name not in self._groups.groups:
            raise ValidationError("AutoScalingGroup name not found - null")
        changed_group(self._groups, self._groups.groups[name], self._get_params())
        return EmptyResult()

    def delete_auto_scaling_group(self) -> ActionResult:
        """DeleteAutoScalingGroup."""
        self._groups.delete(self._group(), force=self._get_bool_param("ForceDelete", False))
        return EmptyResult()

    def describe_auto_scaling_groups(self) -> ActionResult:
        """DescribeAutoScalingGroups; always one page."""
        names = self._get_param("AutoScalingGroupNames", [])
        filters = self._get_param("Filters", [])
        groups = [group for name, group in self._groups.groups.items() if not names or name in names]
        shown = [group.shown() for group in groups if all(_matches(group, condition) for condition in filters)]
        return ActionResult({"AutoScalingGroups": shown})

    def describe_auto_scaling_instances(self) -> ActionResult:
        """DescribeAutoScalingInstances; always one page."""
        wanted = self._get_param("InstanceIds", [])
        shown = [
            shown_member(member) | {"AutoScalingGroupName": group.name}
            for group in self._groups.groups.values()
            for member in group.members.values()
            if not wanted or member.instance in wanted
        ]
        return ActionResult({"AutoScalingInstances": shown})

    def set_desired_capacity(self) -> ActionResult:
        """SetDesiredCapacity."""
        self._groups.set_desired(self._group(), self._get_int_param("DesiredCapacity"))
        return EmptyResult()

    def describe_scaling_activities(self) -> ActionResult:
        """DescribeScalingActivities, newest first; always one page."""
        name = self._get_param("AutoScalingGroupName")
        names = [name] if name else list(self._groups.groups)
        activities = [activity.shown() for group in names for activity in self._groups.activities(group)]
        return ActionResult({"Activities": activities[: self._get_int_param("MaxRecords") or 100]})

    def terminate_instance_in_auto_scaling_group(self) -> ActionResult:
        """TerminateInstanceInAutoScalingGroup."""
        decrement = bool(self._get_bool_param("ShouldDecrementDesiredCapacity", False))
        activity = self._groups.retire_one(self._get_param("InstanceId"), decrement=decrement)
        return ActionResult({"Activity": activity.shown()})

    def put_lifecycle_hook(self) -> ActionResult:
        """PutLifecycleHook."""
        hook = new_hook(self._get_params())
        self._group().hooks[hook.name] = hook
        return EmptyResult()

    def describe_lifecycle_hooks(self) -> ActionResult:
        """DescribeLifecycleHooks."""
        group = self._group()
        names = self._get_param("LifecycleHookNames", [])
        hooks = [_shown_hook(group, hook) for hook in group.hooks.values() if not names or hook.name in names]
        return ActionResult({"LifecycleHooks": hooks})

    def delete_lifecycle_hook(self) -> ActionResult:
        """DeleteLifecycleHook; what waits for it goes on."""
        group, name = self._group(), self._get_param("LifecycleHookName")
        if group.hooks.pop(name, None) is None:
            raise ValidationError(f"No Lifecycle Hook found with name {name} in group {group.name}")
        for member in group.members.values():
            if member.waits_for == name:
                member.wait_ends = 0.0
        self._groups.notify_terminate_instances([])
        return EmptyResult()

    def complete_lifecycle_action(self) -> ActionResult:
        """CompleteLifecycleAction. CONTINUE and ABANDON both end a terminating instance."""
        self._groups.complete(
            self._get_param("AutoScalingGroupName"), self._get_param("LifecycleHookName"), **self._waiting_instance()
        )
        return EmptyResult()

    def record_lifecycle_action_heartbeat(self) -> ActionResult:
        """RecordLifecycleActionHeartbeat."""
        self._groups.heartbeat(
            self._get_param("AutoScalingGroupName"), self._get_param("LifecycleHookName"), **self._waiting_instance()
        )
        return EmptyResult()

    def _waiting_instance(self) -> dict[str, str]:
        return {"instance": self._get_param("InstanceId", ""), "token": self._get_param("LifecycleActionToken", "")}

    def set_instance_health(self) -> ActionResult:
        """SetInstanceHealth."""
        found = self._groups.group_of(self._get_param("InstanceId"))
        if found is None:
            raise ValidationError(f"No managed instance found for instance ID {self._get_param('InstanceId')}")
        found[1].healthy = self._get_param("HealthStatus") == "Healthy"
        self._groups.notify_terminate_instances([])
        return EmptyResult()

    def set_instance_protection(self) -> ActionResult:
        """SetInstanceProtection."""
        group = self._group()
        for instance in self._get_param("InstanceIds", []):
            if instance in group.members:
                group.members[instance].protected = bool(self._get_bool_param("ProtectedFromScaleIn"))
        return EmptyResult()

    def suspend_processes(self) -> ActionResult:
        """SuspendProcesses."""
        self._group().suspended |= set(self._get_param("ScalingProcesses", []) or _SUSPENDABLE)
        return EmptyResult()

    def resume_processes(self) -> ActionResult:
        """ResumeProcesses."""
        self._group().suspended -= set(self._get_param("ScalingProcesses", []) or _SUSPENDABLE)
        self._groups.notify_terminate_instances([])
        return EmptyResult()

    def create_or_update_tags(self) -> ActionResult:
        """CreateOrUpdateTags."""
        for tag in self._get_param("Tags", []):
            apply_tags(self._groups.find(tag["ResourceId"]), [tag])
        return EmptyResult()

    def delete_tags(self) -> ActionResult:
        """DeleteTags."""
        for tag in self._get_param("Tags", []):
            group = self._groups.find(tag["ResourceId"])
            group.tags = [kept for kept in group.tags if kept["Key"] != tag["Key"]]
        return EmptyResult()

    def describe_tags(self) -> ActionResult:
        """DescribeTags."""
        filters = self._get_param("Filters", [])
        tags = [tag for group in self._groups.groups.values() for tag in shown_tags(group)]
        fields = {"auto-scaling-group": "ResourceId", "key": "Key", "value": "Value"}
        kept = [
            tag for tag in tags if all(tag[fields[f["Name"]]] in f["Values"] for f in filters if f["Name"] in fields)
        ]
        return ActionResult({"Tags": kept})

    def put_scheduled_update_group_action(self) -> ActionResult:
        """PutScheduledUpdateGroupAction: remembered, never run."""
        self._groups.scheduled[self._get_param("ScheduledActionName")] = dict(self._get_params())
        return EmptyResult()

    def describe_scheduled_actions(self) -> ActionResult:
        """DescribeScheduledActions."""
        name = self._get_param("AutoScalingGroupName")
        actions = [
            action for action in self._groups.scheduled.values() if name in {None, action["AutoScalingGroupName"]}
        ]
        return ActionResult({"ScheduledUpdateGroupActions": actions})


def _matches(group: Group, condition: dict[str, Any]) -> bool:
    name, values = condition["Name"], condition["Values"]
    if name == "tag-key":
        return any(tag["Key"] in values for tag in group.tags)
    if name == "tag-value":
        return any(tag.get("Value") in values for tag in group.tags)
    return any(tag["Key"] == name.removeprefix("tag:") and tag.get("Value") in values for tag in group.tags)


def _shown_hook(group: Group, hook: Hook) -> dict[str, Any]:
    return {
        "LifecycleHookName": hook.name,
        "AutoScalingGroupName": group.name,
        "LifecycleTransition": hook.transition,
        "NotificationTargetARN": hook.target or None,
        "RoleARN": hook.role or None,
        "NotificationMetadata": hook.metadata or None,
        "HeartbeatTimeout": hook.heartbeat_seconds,
        "GlobalTimeout": min(hook.heartbeat_seconds * 100, 172800),
        "DefaultResult": hook.result,
    }
