"""`status` and `list`."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from elastic_aws.aws.stacks import Stacks
from elastic_aws.cli.session import JOB_TAG, Job, find_job, open_session
from elastic_aws.cli.text import data, json_data, status_lines
from elastic_aws.errors import NotFoundError

WATCH = timedelta(seconds=1)


@click.command("status")
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("-w", "--watch", is_flag=True, help="Again and again, until the job ends.")
@click.pass_context
def status_command(ctx: click.Context, job: str, as_json: bool, watch: bool) -> None:
    """Show a job: its stack, its instances, its round, members and spares, its step and rate."""
    shown: list[str] = []
    while True:
        found = find_job(ctx, job)
        status, instances, failures = found.status(), instances_of(found), found.start_failures()
        if as_json:
            answer = {"stack": asdict(found.stack), "instances": instances, "start_failures": failures}
            json_data({"job": asdict(status) if status else None} | answer)
        else:
            lines = status_lines(job, found.stack.status, status, instances, failures)
            if lines != shown:
                data("\n".join(lines))
            shown = lines
        if not watch or (status is not None and status.outcome is not None):
            return
        time.sleep(WATCH.total_seconds())


def instances_of(job: Job) -> list[dict[str, Any]]:
    """The instances of the workers' group; none while there is no group."""
    try:
        return [asdict(each) for each in job.group.size().instances]
    except NotFoundError:
        return []


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """List all jobs of the region."""
    session = open_session(ctx)
    rows = []
    for stack in Stacks(session).tagged(JOB_TAG):
        job = Job(name=stack.tags[JOB_TAG], stack=stack, session=session)
        status = job.status()
        state = "starting" if status is None else status.outcome.state.value if status.outcome else "running"
        step = status.progress.step if status and status.progress else 0
        rows.append(
            {"job": job.name, "state": state, "stack": stack.status, "nodes": len(instances_of(job)), "step": step}
        )
    if as_json:
        json_data(rows)
        return
    data(f"{'JOB':<30} {'STATE':<10} {'NODES':>5} {'STEP':>9}  STACK")
    for row in rows:
        data(f"{row['job']:<30} {row['state']:<10} {row['nodes']:>5} {row['step']:>9}  {row['stack']}")
