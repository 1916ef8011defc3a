"""`scale`: change how many nodes a running job has."""

from __future__ import annotations

import click

from elastic_aws.cli.session import Job, find_job, prefix
from elastic_aws.cli.text import progress
from elastic_aws.errors import UsageError
from elastic_aws.node_config import SCALE_REQUEST
from elastic_aws.round_record import Bounds, decode, encode


@click.command("scale")
@click.argument("job")
@click.argument("nodes", type=int, required=False)
@click.option("--min", "low", type=int, help="Train with no fewer nodes than this.")
@click.option("--max", "high", type=int, help="Never have more nodes than this.")
@click.pass_context
def scale_command(ctx: click.Context, job: str, nodes: int | None, low: int | None, high: int | None) -> None:
    """Ask for NODES nodes, or change the bounds. Training goes on; the live group is changed, not its stack."""
    found = find_job(ctx, job)
    begin = prefix(ctx)
    if nodes is None and low is None and high is None:
        raise UsageError("nothing to change", why="no number of nodes and no bound", hint=f"{begin} scale {job} 3")
    while True:
        now, etag = _bounds_asked(found, begin)
        wanted = _new_bounds(job, now, nodes=nodes, low=low, high=high, begin=begin)
        if found.bucket.replace(found.prefix + SCALE_REQUEST, encode(wanted), etag=etag):
            break  # otherwise somebody else asked for something in between
    found.group.resize(desired=wanted.target, maximum=wanted.max)
    progress(f"{job}: {wanted.target} nodes asked for (was {now.target}), bounds {wanted.min} to {wanted.max}")


def _bounds_asked(job: Job, begin: str) -> tuple[Bounds, str | None]:
    """The bounds that were asked for last, which the job may not have taken up yet; and that request's ETag."""
    status = job.status()
    if status is None or status.bounds is None:
        why, hint = "its controller has not reported yet", f"{begin} status {job.name}"
        raise UsageError(f"{job.name} cannot be scaled yet", why=why, hint=hint)
    if status.outcome is not None:
        why, hint = f"it {status.outcome.state}", f"{begin} delete-job {job.name}"
        raise UsageError(f"{job.name} has ended", why=why, hint=hint)
    request = job.bucket.get_if_changed(job.prefix + SCALE_REQUEST, None)
    return (status.bounds, None) if request is None else (decode(Bounds, request.content), request.etag)


def _new_bounds(job: str, now: Bounds, *, nodes: int | None, low: int | None, high: int | None, begin: str) -> Bounds:
    low, high = now.min if low is None else low, now.max if high is None else high
    if low < 1 or low > high:
        hint = f"{begin} scale {job} --min 1 --max 4"
        raise UsageError(f"bounds {low} to {high} cannot be", why="1 <= min <= max", hint=hint)
    target = min(max(now.target, low), high) if nodes is None else nodes
    if not low <= target <= high:
        flag = f"--min {target}" if target < low else f"--max {target}"
        why = f"the job may have {low} to {high} nodes"
        hint = f"{begin} scale {job} {target} {flag}" if target >= 1 else f"{begin} delete-job {job}"
        raise UsageError(f"{target} nodes are {'fewer' if target < low else 'more'} than allowed", why=why, hint=hint)
    return Bounds(min=low, max=high, target=target)
