"""From the command line's options to AWS, and to one job on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import click

from elastic_aws.aws.bucket import Bucket
from elastic_aws.aws.session import AwsSession
from elastic_aws.aws.spot_group import SpotGroup
from elastic_aws.aws.stacks import Stack, Stacks
from elastic_aws.cli.text import progress
from elastic_aws.errors import NotFoundError, PreflightError
from elastic_aws.node_config import START_FAILURES, STATUS
from elastic_aws.status import JobStatus

JOB_TAG, RUN_TAG, SPEC_TAG = "elastic-aws:job", "elastic-aws:run", "elastic-aws:spec"


def open_session(ctx: click.Context, region: str | None = None) -> AwsSession:
    """The session that `--local` and `--region` ask for; `region` is the job file's.

    Raises: PreflightError when the local cloud does not run, or no region is known.
    """
    asked: dict[str, Any] = ctx.find_root().obj
    if not asked["local"]:
        asked["region"] = asked["region"] or region  # from here on also in the commands that we print
        return AwsSession(asked["region"])
    state = running_local_cloud()
    if region not in (None, state.region):
        progress(f"the local cloud plays {state.region}: the job file's region {region} does not count here")
    if asked["region"] not in (None, state.region):
        raise PreflightError(
            f"the local cloud is not in {asked['region']}", why=f"it plays {state.region}", hint="leave --region out"
        )
    return AwsSession(state.region, state.endpoint_url, local=True)


def running_local_cloud() -> Any:
    """The state of the local cloud. Raises: PreflightError when it does not run."""
    from elastic_aws.local_cloud.state import read_state

    state = read_state()
    if state is None:
        raise PreflightError("the local cloud is not running", why="nothing answers here", hint="elastic-aws local up")
    return state


def prefix(ctx: click.Context) -> str:
    """How a command for the same place begins: for the hints that we print."""
    asked = ctx.find_root().obj
    region = f" --region {asked['region']}" if asked["region"] else ""
    return "elastic-aws" + (" --local" if asked["local"] else "") + region


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job that has a stack."""

    name: str
    stack: Stack
    session: AwsSession

    @property
    def bucket(self) -> Bucket:
        """Where its status is."""
        return Bucket(self.session, self.stack.parameters["Bucket"])

    @property
    def prefix(self) -> str:
        """Key prefix of this run."""
        return f"jobs/{self.name}/{self.stack.parameters['Run']}/"

    @property
    def group(self) -> SpotGroup:
        """Its workers' group."""
        return SpotGroup(self.session, f"elastic-aws-{self.name}-workers")

    @property
    def log_group(self) -> str:
        """Its log group."""
        return f"/elastic-aws/{self.name}"

    def status(self) -> JobStatus | None:
        """What its controller published last; None before the first time."""
        content = self.bucket.get(self.prefix + STATUS)
        return None if content is None else JobStatus.from_json(content)

    def start_failures(self, known: Collection[str] = ()) -> dict[str, str]:
        """Nodes, as `worker i-0abc`, that cannot start and will not try again, and why; without those known already."""
        place = self.prefix + START_FAILURES
        found = {key: " ".join(key.removeprefix(place).split("/")) for key in self.bucket.list(place)}
        texts = {node: self.bucket.get(key) for key, node in found.items() if node not in known}
        return {node: (text or b"").decode(errors="replace").strip() or "no reason" for node, text in texts.items()}


def find_job(ctx: click.Context, name: str) -> Job:
    """The job of this name. Raises: NotFoundError."""
    session = open_session(ctx)
    stack = Stacks(session).find(f"elastic-aws-{name}")
    if stack is None or stack.tags.get(JOB_TAG) != name:
        hint = f"{prefix(ctx)} list"
        raise NotFoundError(
            f"no job {name} in {session.region}", why=f"there is no stack elastic-aws-{name}", hint=hint
        )
    return Job(name=name, stack=stack, session=session)
