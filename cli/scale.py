"""`scale`: change how many nodes a running job has."""

from __future__ import annotations

import click

from elastic_aws.cli.session import find_job, prefix
from elastic_aws.cli.text import progress
from elastic_aws.errors import UsageError
from elastic_aws.round_record import Bounds, encode


@click.command("scale")
@click.argument("job")
@click.argument("nodes", type=int, required=False)
@click.option("--min", "low", type=int, help="Train with no fewer nodes than this.")
@click.option("--max", "high", type=int, help="Never have more nodes than this.")
@click.pass_context
def scale_command(ctx: click.Context, job: str, nodes: int | None, low: int | None, high: int | None) -> None:
    """Ask for NODES nodes, or change the bounds. Training goes on; the live group is changed, not its stack."""
    found = find_job(ctx, job)
    status = found.status()
    if status is None or status.bounds is None:
        raise UsageError(
            f"{job} cannot be scaled yet", why="its controller has not reported yet", hint=f"{prefix(ctx)} status {job}"
        )
    if status.outcome is not None:
        raise UsageError(f"{job} has ended", why=f"it {status.outcome.state}", hint=f"{prefix(ctx)} delete-job {job}")
    if nodes is None and low is None and high is None:
        raise UsageError(
            "nothing to change", why="no number of nodes and no bound", hint=f"{prefix(ctx)} scale {job} 3"
        )
    now = status.bounds
    low, high = now.min if low is None else low, now.max if high is None else high
    if low < 1 or low > high:
        raise UsageError(
            f"bounds {low} to {high} cannot be",
            why="1 <= min <= max",
            hint=f"{prefix(ctx)} scale {job} --min 1 --max 4",
        )
    target = min(max(now.target, low), high) if nodes is None else nodes
    if not low <= target <= high:
        flag = f"--min {target}" if target < low else f"--max {target}"
        why = f"the job may have {low} to {high} nodes"
        hint = f"{prefix(ctx)} scale {job} {target} {flag}" if target >= 1 else f"{prefix(ctx)} delete-job {job}"
        raise UsageError(f"{target} nodes are {'fewer' if target < low else 'more'} than allowed", why=why, hint=hint)
    wanted = Bounds(min=low, max=high, target=target)
    found.bucket.put(found.prefix + "scale.json", encode(wanted))
    found.group.resize(desired=target, maximum=high)
    progress(f"{job}: {target} nodes asked for (was {now.target}), bounds {low} to {high}")
