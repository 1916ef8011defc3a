"""`delete-job`: end a job and delete everything that costs money by the hour."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import timedelta

import click

from elastic_aws.aws.stacks import Stacks
from elastic_aws.cli.session import Job, find_job, prefix
from elastic_aws.cli.text import progress
from elastic_aws.errors import AwsError, NotFoundError
from elastic_aws.node_config import SPEC

LIMIT = timedelta(minutes=30)
POLL = timedelta(seconds=0.25)
AWS_POLL = timedelta(seconds=3)


@click.command("delete-job")
@click.argument("job")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--checkpoints", is_flag=True, help="Delete its status and checkpoints too (not a place the job file names)."
)
@click.pass_context
def delete_job_command(ctx: click.Context, job: str, yes: bool, checkpoints: bool) -> None:
    """End a job: its instances, disks, network interface, roles and logs go. Checkpoints stay unless asked."""
    found = find_job(ctx, job)
    if not yes:
        click.confirm(f"End {job} and delete its stack?", abort=True, err=True)
    Stacks(found.session).delete(found.stack.id)
    wait_until_gone(found, again=f"{prefix(ctx)} delete-job {job}")
    progress(f"{job}: its stack and everything in it is gone")
    for line in remains(found, delete_checkpoints=checkpoints):
        progress(f"  {line}")


def wait_until_gone(job: Job, *, again: str) -> None:
    """Show each resource as it goes, until the stack is gone. Raises: AwsError, with `again` to try again."""
    stacks, stack = Stacks(job.session), job.stack
    agentless = {node.split()[-1] for node in job.start_failures()}
    started = time.monotonic()
    seen: dict[str, str] = {}
    while (now := stacks.find(stack.id)) is not None and now.status != "DELETE_COMPLETE":
        for each in stacks.resources(stack.id):
            if seen.get(each.name) != each.status and each.status.startswith("DELETE"):
                progress(f"  - {each.name:<22} {each.type:<36} {each.status.lower().replace('_', ' ')}")
            seen[each.name] = each.status
        if now.status == "DELETE_FAILED" or time.monotonic() - started > LIMIT.total_seconds():
            raise AwsError(f"the stack {stack.name} is not deleted", why=now.reason or f"after {LIMIT}", hint=again)
        if agentless:
            release(job, agentless)
        time.sleep((POLL if job.session.local else AWS_POLL).total_seconds())


def release(job: Job, agentless: set[str]) -> None:
    """Let those instances go at once: auto scaling would wait for their agents, which never started."""
    with suppress(NotFoundError, AwsError):  # it is gone meanwhile, or not waiting any more
        for each in job.group.size().instances:
            if each.id in agentless and each.state == "Terminating:Wait":
                job.group.let_go(each.id)


def remains(job: Job, *, delete_checkpoints: bool) -> list[str]:
    """What is left in S3, and why; deletes the job's own part of it if asked to."""
    own = job.bucket.uri(job.prefix)
    spec = json.loads(job.bucket.get(job.prefix + SPEC) or b"{}")
    elsewhere = spec.get("checkpoints")
    if delete_checkpoints:
        lines = [f"deleted {job.bucket.delete_prefix(job.prefix)} objects below {own}"]
    else:
        what = "status" if elsewhere else "status and checkpoints"
        lines = [f"what remains: {what} below {own} (--checkpoints deletes that too)"]
    if elsewhere:
        lines.append(
            f"what remains: checkpoints at {elsewhere}; the job file named that place, so it is yours to empty"
        )
    code, wheel = (job.bucket.uri(job.stack.parameters[key]) for key in ("BundleKey", "WheelKey"))
    return [*lines, f"what remains: code {code} and wheel {wheel}, which other jobs may use; storage costs only"]
