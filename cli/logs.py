"""`logs` and `events`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import click

from elastic_aws.aws.log_reader import LogReader
from elastic_aws.cli.session import Job, find_job
from elastic_aws.cli.text import data
from elastic_aws.event_log import MalformedEventError, from_line
from elastic_aws.events import JobEnded

POLL = timedelta(seconds=0.25)
AWS_POLL = timedelta(seconds=2)


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Keep showing new lines.")
@click.option("--node", help="Only this node.")
@click.option("--rank", type=int, help="Only this rank.")
@click.option("--round", "number", type=int, help="Only this round.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def logs_command(  # noqa: PLR0917 - click passes them by name
    ctx: click.Context, job: str, follow: bool, node: str | None, rank: int | None, number: int | None, as_json: bool
) -> None:
    """Show what workers and agents wrote, each line with its node, round and rank."""
    from pydantic_core import to_json

    found = find_job(ctx, job)

    def wanted(stream: str) -> bool:
        name, _, rest = stream.partition("/")
        place = re.fullmatch(r"round-(\d+)/rank-(\d+)", rest)
        if rest == "events" or (node is not None and name != node):
            return False
        if rank is None and number is None:
            return True
        return (
            place is not None
            and (number is None or int(place[1]) == number)
            and (rank is None or int(place[2]) == rank)
        )

    for stream, line in _lines(found, wanted, follow=follow):
        data(to_json({"stream": stream, "line": line}).decode() if as_json else f"{stream} | {line}")


@click.command("events")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Keep showing new events, until the job ends.")
@click.option("--json", "as_json", is_flag=True, help="As JSON lines.")
@click.pass_context
def events_command(ctx: click.Context, job: str, follow: bool, as_json: bool) -> None:
    """Show what happened to a job: nodes that joined and left, rounds, checkpoints, failures."""
    found = find_job(ctx, job)
    for _, line in _lines(found, lambda stream: stream.endswith("/events"), follow=follow):
        try:
            logged = from_line(line)
        except MalformedEventError:
            continue
        if as_json:
            data(line)
        else:
            fields = ", ".join(f"{name}={value}" for name, value in vars(logged.event).items())
            data(f"{logged.at:%H:%M:%S} {logged.node} {type(logged.event).__name__}: {fields}")
        if follow and isinstance(logged.event, JobEnded):
            return


def _lines(job: Job, wanted: Callable[[str], bool], *, follow: bool) -> Iterator[tuple[str, str]]:
    """(stream, line) in order of time within each look."""
    reader = LogReader(job.session, job.log_group)
    while True:
        batch: list[tuple[int, int, str, str]] = []
        for stream in filter(wanted, reader.streams()):
            lines = enumerate(reader.new_lines(stream))
            batch += [(at, order, stream, line) for order, (at, line) in lines]
        for _, _, stream, line in sorted(batch, key=lambda row: (row[0], row[2], row[1])):
            yield stream, line
        if not follow:
            return
        time.sleep((POLL if job.session.local else AWS_POLL).total_seconds())
