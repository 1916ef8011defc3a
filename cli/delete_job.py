"""`delete-job`: end a job and delete everything that costs money by the hour."""

from __future__ import annotations

import time
from datetime import timedelta

import click

from elastic_aws.aws.stacks import Stacks
from elastic_aws.cli.session import find_job, prefix
from elastic_aws.cli.text import progress
from elastic_aws.errors import AwsError

LIMIT = timedelta(minutes=30)
POLL = timedelta(seconds=0.25)
AWS_POLL = timedelta(seconds=3)


@click.command("delete-job")
@click.argument("job")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--checkpoints", is_flag=True, help="Delete its checkpoints too.")
@click.pass_context
def delete_job_command(ctx: click.Context, job: str, yes: bool, checkpoints: bool) -> None:
    """End a job: its instances, disks, network interface, roles and logs go. Checkpoints stay unless asked."""
    found = find_job(ctx, job)
    if not yes:
        click.confirm(f"End {job} and delete its stack?", abort=True, err=True)
    stacks, stack = Stacks(found.session), found.stack
    stacks.delete(stack.id)
    started = time.monotonic()
    seen: dict[str, str] = {}
    while True:
        now = stacks.find(stack.id)
        if now is None or now.status == "DELETE_COMPLETE":
            break
        for each in stacks.resources(stack.id):
            if seen.get(each.name) != each.status and each.status.startswith("DELETE"):
                progress(f"  - {each.name:<22} {each.type:<36} {each.status.lower().replace('_', ' ')}")
            seen[each.name] = each.status
        if now.status == "DELETE_FAILED" or time.monotonic() - started > LIMIT.total_seconds():
            why = now.reason or f"after {LIMIT}"
            raise AwsError(f"the stack {stack.name} is not deleted", why=why, hint=f"{prefix(ctx)} delete-job {job}")
        time.sleep((POLL if found.session.local else AWS_POLL).total_seconds())
    progress(f"{job}: its stack and everything in it is gone")
    place = found.bucket.uri(found.prefix)
    if checkpoints:
        progress(f"  deleted {found.bucket.delete_prefix(found.prefix)} objects below {place}")
    else:
        progress(
            f"  what remains: status and checkpoints below {place}, code and wheel in the same bucket (storage only)"
        )
