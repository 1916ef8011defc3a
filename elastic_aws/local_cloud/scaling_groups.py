"""Auto Scaling of one region: keeps every group at its desired capacity."""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import count
from types import ModuleType
from typing import Any

import moto.autoscaling.urls
from moto.autoscaling.exceptions import ValidationError
from moto.core.base_backend import BaseBackend
from moto.core.exceptions import ServiceException

from elastic_aws.local_cloud.ec2 import LocalEc2
from elastic_aws.local_cloud.group_surroundings import Surroundings
from elastic_aws.local_cloud.launch_request import new_member
from elastic_aws.local_cloud.scaling_group import TERMINATING, Activity, Group, Member, check_sizes
from elastic_aws.local_cloud.scaling_rules import (
    Enter,
    Forget,
    GroupSeen,
    Launch,
    MemberSeen,
    Move,
    NoRoom,
    Phase,
    Retire,
    Terminate,
    next_moves,
)

NO_CAPACITY = (
    "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that matches "
    "your request. Launching EC2 instance failed."
)
"""EC2 Auto Scaling's own words."""

RETRY = timedelta(seconds=5)
"""How long a group waits after a launch failed for want of capacity, unless the market changes before."""


class ScalingGroups(BaseBackend):  # type: ignore[misc] # moto is untyped here
    """All groups of a region. Every method is called with the cloud's lock held."""

    def __init__(self, region_name: str, account_id: str, *, ec2: LocalEc2, around: Surroundings) -> None:
        super().__init__(region_name, account_id)
        self.ec2 = ec2
        self.groups: dict[str, Group] = {}
        self.scheduled: dict[str, dict[str, Any]] = {}
        self._around = around
        self._order = count(1)
        self._past: dict[str, list[Activity]] = {}

    @property
    def _url_module(self) -> ModuleType:
        urls: ModuleType = moto.autoscaling.urls
        return urls

    def notify_terminate_instances(self, instance_ids: list[str]) -> None:
        """Called by moto's TerminateInstances; the groups see it by themselves at the next tick."""
        del instance_ids
        self._around.wake()

    def find(self, name: str) -> Group:
        """The group. Raises: ValidationError as AWS's."""
        if name not in self.groups:
            raise ValidationError(f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found")
        return self.groups[name]

    def group_of(self, instance: str) -> tuple[Group, Member] | None:
        """The group and membership of an instance."""
        for group in self.groups.values():
            if instance in group.members:
                return group, group.members[instance]
        return None

    def add(self, group: Group) -> None:
        """A new group; its instances launch at the next tick."""
        if group.name in self.groups:
            message = (
                f"AutoScalingGroup by this name already exists - A group with the name {group.name} already exists"
            )
            raise ServiceException("AlreadyExists", message)
        check_sizes(minimum=group.min, maximum=group.max, desired=group.desired)
        self.groups[group.name] = group
        self._around.wake()

    def set_desired(self, group: Group, desired: int) -> None:
        """What SetDesiredCapacity does. Raises: ValidationError outside the group's bounds."""
        if desired > group.max:
            raise ValidationError(
                f"New SetDesiredCapacity value {desired} is above max value {group.max} for the AutoScalingGroup."
            )
        if desired < group.min:
            raise ValidationError(
                f"New SetDesiredCapacity value {desired} is below min value {group.min} for the AutoScalingGroup."
            )
        group.desired = desired
        group.launch_after = group.retry_after = 0.0
        self._around.wake()

    def resize(self, group: Group, *, minimum: int | None, maximum: int | None, desired: int | None) -> None:
        """What UpdateAutoScalingGroup does to the sizes: a desired capacity that is not named moves into the bounds."""
        low = group.min if minimum is None else minimum
        high = group.max if maximum is None else maximum
        wanted = min(max(group.desired, low), high) if desired is None else desired
        check_sizes(minimum=low, maximum=high, desired=wanted)
        if wanted != group.desired:
            group.launch_after = group.retry_after = 0.0
        group.min, group.max, group.desired = low, high, wanted
        self._around.wake()

    def delete(self, group: Group, *, force: bool) -> None:
        """Remove the group. Raises: ResourceInUse while it has instances, unless forced; then those end first."""
        if group.members and not force:
            raise ServiceException(
                "ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances still in the group."
            )
        group.deleting = True
        group.min = group.desired = 0
        if force:
            group.hooks.clear()
            for member in group.members.values():
                member.wait_ends = 0.0
        self._around.wake()

    def retire_one(self, instance: str, *, decrement: bool) -> Activity:
        """What TerminateInstanceInAutoScalingGroup does."""
        found = self.group_of(instance)
        if found is None:
            raise ValidationError(f"Instance Id not found - No managed instance found for instance ID {instance}")
        group, member = found
        if decrement and group.desired - 1 < group.min:
            raise ValidationError(
                f"Currently, desiredSize equals minSize ({group.min}). Terminating instance without replacement will"
                " violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or"
                " lower group's min size."
            )
        group.desired -= int(decrement)
        why = "was taken out of service in response to a user request"
        activity = self._retire(group, member, f"instance {instance} {why}")
        self._around.wake()
        return activity

    def complete(self, group_name: str, hook: str, *, instance: str = "", token: str = "") -> None:
        """What CompleteLifecycleAction does. Raises: ValidationError when nothing waits."""
        member = self._waiting(group_name, hook, instance=instance, token=token)
        member.wait_ends = 0.0
        self._around.wake()

    def heartbeat(self, group_name: str, hook: str, *, instance: str = "", token: str = "") -> None:
        """What RecordLifecycleActionHeartbeat does: the wait starts anew."""
        member = self._waiting(group_name, hook, instance=instance, token=token)
        member.wait_ends = time.monotonic() + self.find(group_name).hooks[hook].heartbeat_seconds

    def _waiting(self, group_name: str, hook: str, *, instance: str, token: str) -> Member:
        group = self.find(group_name)
        if hook not in group.hooks:
            raise ValidationError(f"No Lifecycle Hook found with name {hook} in group {group_name}")
        for member in group.members.values():
            named = member.instance == instance if instance else member.token == token
            if named and member.waits_for == hook:
                return member
        subject = f"instance ID {instance}" if instance else f"token {token}"
        raise ValidationError(f"No active Lifecycle Action found with {subject}")

    def activities(self, group: str) -> list[Activity]:
        """A group's history, newest first; also of a deleted group."""
        live = self.groups[group].activities if group in self.groups else []
        return list(reversed(self._past.get(group, []) + live))

    def deadline(self) -> float | None:
        """The next moment (monotonic seconds) at which a group has something to do by itself."""
        now = time.monotonic()
        times = [
            when for group in self.groups.values() for when in (group.launch_after, group.retry_after) if when > now
        ]
        for group in self.groups.values():
            times += [m.wait_ends for m in group.members.values() if m.waits_for]
        return min(times, default=None)

    def tick(self) -> None:
        """Do all that every group wants done now."""
        for group in list(self.groups.values()):
            while moves := self._moves(group):
                for move in moves:
                    self._make(group, move)
                if any(isinstance(move, NoRoom) for move in moves):
                    break
            if group.deleting and not group.members:
                self._past[group.name] = group.activities
                del self.groups[group.name]

    def _moves(self, group: Group) -> tuple[Move, ...]:
        now = time.monotonic()
        members = tuple(self._seen(group, member, now) for member in group.members.values())
        ready = "Launch" not in group.suspended and now >= max(group.launch_after, group.retry_after)
        seen = GroupSeen(
            desired=group.desired,
            zones=group.zones,
            members=members,
            newest_first=group.policies[:1] == ["NewestInstance"],
            room=self._around.room() if group.next_is_spot() else None,
            may_launch=ready and not group.deleting,
            may_terminate="Terminate" not in group.suspended or group.deleting,
        )
        return next_moves(seen)

    def _seen(self, group: Group, member: Member, now: float) -> MemberSeen:
        return MemberSeen(
            instance=member.instance,
            zone=member.zone,
            order=member.order,
            phase=member.phase,
            alive=self.ec2.running(member.instance) if member.phase.counts else not self.ec2.gone(member.instance),
            healthy=member.healthy,
            protected=member.protected and not group.deleting,
            wait_over=bool(member.waits_for) and now >= member.wait_ends,
            replaced=member.replaced,
        )

    def _make(self, group: Group, move: Move) -> None:
        match move:
            case Launch(zone=zone):
                self._launch(group, zone)
            case NoRoom():
                self._record_no_room(group)
            case Retire(instance=instance, reason=reason):
                self._retire(group, group.members[instance], f"instance {instance} was selected because {reason}")
            case Enter(instance=instance):
                member = group.members[instance]
                member.phase, member.waits_for = Phase.IN_SERVICE, ""
            case Terminate(instance=instance):
                member = group.members[instance]
                member.phase, member.waits_for = Phase.TERMINATING, ""
                self.ec2.terminate_instances([instance])
            case Forget(instance=instance, planned=planned):
                self._forget(group, instance, planned=planned)

    def _launch(self, group: Group, zone: str) -> None:
        cause = f"the group has {len(group.members)} instances and wants {group.desired}"
        activity = Activity(group=group.name, description="Launching a new EC2 instance.", cause=cause)
        group.activities.append(activity)
        try:
            member = new_member(group, self.ec2, zone=zone, order=next(self._order))
        except (ServiceException, OSError) as error:
            group.retry_after = time.monotonic() + RETRY.total_seconds()
            activity.finish("Failed", f"Launching EC2 instance failed: {error}")
            return
        group.members[member.instance] = member
        activity.instance = member.instance
        activity.description = f"Launching a new EC2 instance: {member.instance}"
        activity.finish("Successful")

    def _record_no_room(self, group: Group) -> None:
        group.retry_after = time.monotonic() + RETRY.total_seconds()
        last = group.activities[-1] if group.activities else None
        if last is not None and last.message == NO_CAPACITY:
            return
        cause = f"the group has {len(group.members)} instances and wants {group.desired}"
        activity = Activity(group=group.name, description="Launching a new EC2 instance.", cause=cause)
        activity.finish("Failed", NO_CAPACITY)
        group.activities.append(activity)

    def _retire(self, group: Group, member: Member, cause: str) -> Activity:
        description = f"Terminating EC2 instance: {member.instance}"
        activity = Activity(group=group.name, description=description, cause=cause, instance=member.instance)
        group.activities.append(activity)
        hook = group.hook(TERMINATING)
        if hook is None:
            member.phase, member.waits_for = Phase.TERMINATING, ""
            self.ec2.terminate_instances([member.instance])
        else:
            activity.status = "MidTerminatingLifecycleAction"
            member.begin_wait(Phase.TERMINATING_WAIT, hook)
        return activity

    def _forget(self, group: Group, instance: str, *, planned: bool) -> None:
        member = group.members.pop(instance)
        if planned:
            for activity in group.activities:
                if activity.instance == instance and activity.ended is None:
                    activity.finish("Successful")
            return
        cause = f"instance {instance} was taken out of service: EC2 reports that it is terminated or shutting down"
        activity = Activity(
            group=group.name, description=f"Terminating EC2 instance: {instance}", cause=cause, instance=instance
        )
        activity.finish("Successful")
        group.activities.append(activity)
        delay = self._around.replacement_delay(member.instance)
        wait = float("inf") if delay is None else delay.total_seconds()
        group.launch_after = max(group.launch_after, time.monotonic() + wait)

    def recommend_rebalance(self, instance: str) -> None:
        """A group with CapacityRebalance launches a replacement, then retires the instance."""
        found = self.group_of(instance)
        if found is not None and found[0].capacity_rebalance:
            found[1].replaced = True
            self._around.wake()
