"""The CLI's words: progress on standard error, data on standard output."""

from __future__ import annotations

from typing import Any

import click
from pydantic_core import to_json

from elastic_aws.round_record import MemberState, RoundPhase
from elastic_aws.status import JobStatus


def progress(text: str) -> None:
    """One line of progress."""
    click.echo(text, err=True)


def data(text: str) -> None:
    """One line of data."""
    click.echo(text)


def json_data(value: Any) -> None:
    """A value as JSON."""
    click.echo(to_json(value, indent=2).decode())


def status_lines(
    name: str, stack: str, status: JobStatus | None, instances: list[dict[str, str]], failures: dict[str, str]
) -> list[str]:
    """A job's status for people."""
    joined = {member.node for member in status.members} if status else set()
    lost = {node: why for node, why in failures.items() if node.split()[-1] not in joined}  # others came after all
    failed = [line for node, why in lost.items() for line in _failure_lines(node, why)]
    if status is None:
        first = f"{name}: stack {stack}; its controller has not reported yet"
        return [first, *_instances(instances, None), *failed]
    lines = [f"{name}: {_headline(status)}"]
    if status.bounds:
        lines.append(f"  nodes     {status.bounds.min} to {status.bounds.max}, {status.bounds.target} asked for")
    if status.round:
        reason = status.round.reason.value.replace("_", " ")
        lines.append(
            f"  round     {status.round.number}: {status.round.world_size} workers; {reason}: {status.round.detail}"
        )
    if status.progress:
        now = status.progress
        metrics = "  ".join(f"{key} {value:.4g}" for key, value in now.metrics.items())
        rate = f"{now.samples_per_second:.0f} samples/s"
        lines.append(f"  progress  epoch {now.epoch}, step {now.step}, {rate}  {metrics}")
    if status.commit:
        lines.append(f"  saved     step {status.commit.step} at {status.commit.place}")
    if status.outcome and status.outcome.failure:
        failure = status.outcome.failure
        lines.append(
            f"  cause     rank {failure.rank} on {failure.node}: {failure.message} (exit code {failure.exit_code})"
        )
        lines += [f"            | {line}" for line in failure.log_tail]
    return lines + _instances(instances, status) + failed


def _failure_lines(node: str, why: str) -> list[str]:
    first, *more = why.splitlines()
    return [f"  failed    {node} could not start: {first}", *(f"            | {line}" for line in more)]


def _headline(status: JobStatus) -> str:
    if status.outcome:
        return f"{status.outcome.state.value} ({status.outcome.reason})"
    if status.round is None:
        return "waiting for its first nodes"
    words = {
        RoundPhase.RUNNING: "training",
        RoundPhase.DRAINING: "about to change round",
        RoundPhase.WAITING: "waiting",
    }
    text = words[status.round.phase]
    return f"{text} ({status.round.detail})" if status.round.phase is RoundPhase.WAITING else text


def _instances(instances: list[dict[str, str]], status: JobStatus | None) -> list[str]:
    members = {member.node: member for member in status.members} if status else {}
    lines = []
    for each in instances:
        member = members.get(each["id"])
        if member is None:
            what = "not (yet) in the job"
        elif member.leaving:
            what = f"leaving: {member.leaving_reason}"
        elif status is not None and each["id"] in status.spares:
            what = "spare"
        else:
            what = member.state.value if member.state is not MemberState.READY else "joined"
        lines.append(f"  node      {each['id']}  {each['type']}  {each['zone']}  {each['state']}  {what}")
    return lines
