"""From a stack that has begun to nodes that train: what `create-job` waits for, and shows meanwhile."""

from __future__ import annotations

import time
from datetime import timedelta

from elastic_aws.aws.session import AwsSession
from elastic_aws.aws.stacks import Stack, Stacks
from elastic_aws.cli.session import Job
from elastic_aws.cli.text import progress
from elastic_aws.errors import AwsError, JobFailedError, NoCapacityError
from elastic_aws.job import Nodes

STACK_LIMIT = timedelta(minutes=30)
JOIN_LIMIT = timedelta(minutes=20)
"""Booting a GPU image and running set-up commands takes minutes."""
POLL = timedelta(seconds=0.25)
AWS_POLL = timedelta(seconds=2)


def wait_for_stack(session: AwsSession, stacks: Stacks, job: str, *, begin: str) -> Stack:
    """Show each resource as it changes, until the stack is complete. `begin` is how commands for this place begin.

    Raises: AwsError or NoCapacityError with CloudFormation's first reason when it fails.
    """
    name, started = f"elastic-aws-{job}", time.monotonic()
    seen: dict[str, str] = {}
    first_reason = ""
    while time.monotonic() - started < STACK_LIMIT.total_seconds():
        stack = stacks.find(name)
        first_reason = first_reason or _show_changes(stacks, name, seen) if stack else first_reason
        if stack is None or (stack.settled and stack.status != "CREATE_COMPLETE"):
            why = first_reason or (stack.reason if stack else "it is gone")
            kind = NoCapacityError if "capacity" in why.lower() else AwsError
            raise kind(f"the stack {name} was not created", why=why, hint=f"{begin} delete-job {job}")
        if stack.settled:
            return stack
        time.sleep((POLL if session.local else AWS_POLL).total_seconds())
    raise AwsError(f"the stack {name} is not complete", why=f"after {STACK_LIMIT}", hint=f"{begin} status {job}")


def _show_changes(stacks: Stacks, name: str, seen: dict[str, str]) -> str:
    """A line for each resource whose state is new; answer the first one's reason that failed."""
    first_reason = ""
    for each in stacks.resources(name):
        if seen.get(each.name) == each.status:
            continue
        seen[each.name] = each.status
        mark = {"COMPLETE": "+", "FAILED": "x"}.get(each.status.rpartition("_")[2], ".")
        text = f"  {mark} {each.name:<22} {each.type:<36} {each.status.lower().replace('_', ' ')}"
        progress(text + (f"  ({each.reason})" if each.reason else ""))
        if each.status.endswith("FAILED") and not first_reason:
            first_reason = f"{each.name}: {each.reason}"
    return first_reason


def wait_for_nodes(job: Job, nodes: Nodes, *, begin: str) -> None:
    """Wait until the job has enough nodes for its first round.

    Raises: NoCapacityError; JobFailedError, also when so many nodes cannot start that the others are too few.
    """
    started = time.monotonic()
    joined: set[str] = set()
    failed: dict[str, str] = {}
    progress(f"waiting for {nodes.target} nodes to join")
    while time.monotonic() - started < JOIN_LIMIT.total_seconds():
        status = job.status()
        for member in status.members if status else ():
            if member.node not in joined:
                joined.add(member.node)
                progress(f"  + {member.node} joined ({member.zone}, {member.instance_type})")
        if status and status.outcome and status.outcome.failure:
            raise JobFailedError(f"job {job.name} failed", why=status.outcome.reason)
        if status and (status.round or status.outcome):
            return
        for node, why in job.start_failures(known=failed).items():
            failed[node] = why
            progress(f"  x {node} cannot start: {why.splitlines()[0]}")
        lost = {node: why for node, why in failed.items() if node.split()[-1] not in joined}
        _check_enough_can_start(job.name, nodes, lost, begin=begin)
        time.sleep((POLL if job.session.local else AWS_POLL).total_seconds())
    why = f"{len(joined)} of at least {nodes.min} nodes after {JOIN_LIMIT}"
    raise NoCapacityError(f"too few nodes for {job.name}", why=why, hint=f"{begin} logs {job.name}")


def _check_enough_can_start(job: str, nodes: Nodes, failed: dict[str, str], *, begin: str) -> None:
    store = next((why for node, why in failed.items() if node.startswith("store")), None)
    if store is None and nodes.target - len(failed) >= nodes.min:
        return
    why = store or next(iter(failed.values()), "")
    if why:
        hint = f"{begin} delete-job {job}   (its instances still cost money), then try again"
        raise JobFailedError(f"job {job} cannot start", why=why, hint=hint)
