"""The workers' group, as the controller on the store node sees it."""

from __future__ import annotations

from contextlib import suppress

from elastic_aws.aws.lifecycle_hook import HOOK_NAME
from elastic_aws.aws.session import AwsSession, translate
from elastic_aws.errors import NotFoundError


def dismiss(session: AwsSession, group: str) -> None:
    """End all instances of the group at once, and launch no more. Raises: AwsError, NotFoundError without the group.

    Nobody drains any more, so their hook goes first: an instance whose agent has ended would wait, and cost money,
    until the hook's time is over.
    """
    scaling = session.client("autoscaling")
    with suppress(NotFoundError), translate(f"ending the drains of {group}"):
        scaling.delete_lifecycle_hook(AutoScalingGroupName=group, LifecycleHookName=HOOK_NAME)
    with translate(f"emptying the group {group}"):
        scaling.update_auto_scaling_group(AutoScalingGroupName=group, MinSize=0, MaxSize=0, DesiredCapacity=0)
