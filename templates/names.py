"""Names and numbers that several parts of a job's stack share."""

from __future__ import annotations

from typing import Any

from troposphere import Tags

from elastic_aws import __version__

STORE_PORT = 2379
"""etcd's port for clients."""
DRAIN_HOOK = "elastic-aws-drain"
"""The workers' termination hook."""


def stack_name(job: str) -> str:
    """The stack of a job."""
    return f"elastic-aws-{job}"


def workers_group_name(job: str) -> str:
    """The workers' auto scaling group. Fixed, because nodes must know it before it exists."""
    return f"elastic-aws-{job}-workers"


def log_group_name(job: str) -> str:
    """The log group of a job."""
    return f"/elastic-aws/{job}"


def tags(job: str, part: str) -> Tags:
    """What every resource of the stack that can have tags is tagged with."""
    return Tags({"Name": f"elastic-aws-{job}-{part}", "elastic-aws:job": job, "elastic-aws:version": __version__})


def group_tags(job: str, part: str) -> list[dict[str, Any]]:
    """The same tags for an auto scaling group, which passes them on to its instances."""
    own: list[dict[str, str]] = tags(job, part).to_dict()
    return [{"Key": tag["Key"], "Value": tag["Value"], "PropagateAtLaunch": True} for tag in own]
