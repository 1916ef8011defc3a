"""`interrupt`: a spot reclaim on demand."""

from __future__ import annotations

from datetime import timedelta

import click

from elastic_aws.cli.session import find_job, running_local_cloud
from elastic_aws.cli.status import instances_of
from elastic_aws.cli.text import progress
from elastic_aws.errors import NotFoundError, UsageError

LONGEST_NOTICE = timedelta(hours=1)
"""AWS gives two minutes; more than an hour is a slip of the pen."""


def _seconds(ctx: click.Context, param: click.Parameter, value: float) -> timedelta:
    longest = LONGEST_NOTICE.total_seconds()
    if not 0 <= value <= longest:  # click's own range lets nan through
        raise click.BadParameter(f"{value:g}; allowed: a number of seconds from 0 to {longest:g}", ctx, param)
    return timedelta(seconds=value)


@click.command("interrupt")
@click.argument("job")
@click.option("--node", help="Which instance; the oldest without it.")
@click.option("--notice", type=float, callback=_seconds, default=10.0, show_default=True, metavar="SECONDS",
              help="Warning before it ends; 0 is a power failure. AWS gives 120.")  # fmt: skip
@click.pass_context
def interrupt_command(ctx: click.Context, job: str, node: str | None, notice: timedelta) -> None:
    """Take a spot instance of a job back, with its notice, on the local cloud."""
    if not ctx.find_root().obj["local"]:
        why = "on AWS, the Fault Injection Service does this"
        raise UsageError(
            "interrupt works on the local cloud only", why=why, hint=f"elastic-aws --local interrupt {job}"
        )
    found = find_job(ctx, job)
    running = [each["id"] for each in instances_of(found) if each["state"] == "InService"]
    if node is not None and node not in running:
        raise NotFoundError(f"{job} has no running instance {node}", why=f"it has {', '.join(running) or 'none'}")
    if not running:
        raise NotFoundError(f"{job} has no running instance", hint=f"elastic-aws --local status {job}")
    from elastic_aws.local_cloud.market_client import interrupt

    for instance in interrupt(running_local_cloud(), node or running[0], notice):
        progress(f"{instance} is reclaimed in {notice.total_seconds():g} s")
