"""A node that cannot start says why, where `create-job` and `status` look."""

from __future__ import annotations

import contextlib
from pathlib import Path

from elastic_aws.errors import ElasticAwsError, PreflightError, UsageError
from elastic_aws.node_config import START_FAILURES, NodeConfig

TRIES = 3
"""Failures in a row, before the node has joined, after which an error that may mend itself is reported too."""


def report(config: NodeConfig, error: Exception, *, root: str) -> None:
    """Report the error, if trying again will not mend it (boot/worker.sh: it is not tried) or has not so far."""
    why = str(error) if isinstance(error, ElasticAwsError) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(ElasticAwsError, OSError):  # the error itself matters more
        if not isinstance(error, UsageError | PreflightError) and _failed_again(root) < TRIES:
            return
        from elastic_aws.aws.bucket import Bucket
        from elastic_aws.aws.session import AwsSession

        instance = Path(f"{root}/var/lib/cloud/data/instance-id").read_text().strip()
        bucket = Bucket(AwsSession.from_environment(config.region), config.bucket)
        bucket.put(f"{config.job_prefix}{START_FAILURES}{config.role}/{instance}", why.encode())


def _failed_again(root: str) -> int:
    """How many times in a row it failed, this time included."""
    failures = _failures(root)
    failures.parent.mkdir(parents=True, exist_ok=True)
    with failures.open("a") as file:
        file.write("x")
    return failures.stat().st_size


def forget(root: str) -> None:
    """The node starts well: what failed before no longer counts."""
    _failures(root).unlink(missing_ok=True)


def _failures(root: str) -> Path:
    """Has a byte for each failed start."""
    return Path(f"{root}/var/lib/elastic-aws/failed-starts")
