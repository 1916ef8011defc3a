"""The workers' group, as the controller on the store node sees it."""

from __future__ import annotations

from elastic_aws.aws.session import AwsSession, translate


def set_size_to_zero(session: AwsSession, group: str) -> None:
    """Let the group end all its instances, and launch none. Raises: AwsError."""
    with translate(f"emptying the group {group}"):
        session.client("autoscaling").update_auto_scaling_group(
            AutoScalingGroupName=group, MinSize=0, MaxSize=0, DesiredCapacity=0
        )
