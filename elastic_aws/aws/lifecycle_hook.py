"""Telling auto scaling that a node has left and its machine may go."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from elastic_aws.errors import AwsError

HOOK_NAME = "elastic-aws-drain"
CALL_LIMIT = timedelta(seconds=5)


class LifecycleHook:
    """The termination hook of the workers' group, for one instance."""

    def __init__(self, *, region: str, group: str, instance: str) -> None:
        self._group = group
        self._instance = instance
        limit = CALL_LIMIT.total_seconds()
        config = Config(connect_timeout=limit, read_timeout=limit, retries={"total_max_attempts": 3})
        self._client: Any = boto3.client("autoscaling", region_name=region, config=config)

    def complete(self) -> None:
        """Let the termination go on. Raises: AwsError, also when no termination waits."""
        try:
            self._client.complete_lifecycle_action(
                LifecycleHookName=HOOK_NAME,
                AutoScalingGroupName=self._group,
                InstanceId=self._instance,
                LifecycleActionResult="CONTINUE",
            )
        except (BotoCoreError, ClientError) as error:
            raise AwsError("the lifecycle action could not be completed", why=str(error)) from error
