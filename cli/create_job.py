"""`create-job`: from a job file to nodes that train."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from elastic_aws.aws.bucket import Bucket
from elastic_aws.aws.network import CONTAINER_IMAGE, PYTORCH_IMAGE, STORE_IMAGE, find_image, find_network
from elastic_aws.aws.session import AwsSession
from elastic_aws.aws.stacks import Stack, Stacks
from elastic_aws.bundle import Packed, pack_wheel, readable
from elastic_aws.cli.job_options import job_options, read_job
from elastic_aws.cli.session import JOB_TAG, RUN_TAG, SPEC_TAG, Job, open_session, prefix
from elastic_aws.cli.startup import wait_for_nodes, wait_for_stack
from elastic_aws.cli.text import progress
from elastic_aws.cli.user_code import pack
from elastic_aws.errors import PreflightError, UsageError
from elastic_aws.job import JobSpec
from elastic_aws.job_file import JobFile
from elastic_aws.node_config import SPEC


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that will be created; made without creating anything."""

    spec: JobSpec
    digest: str
    code: Packed
    wheel: Packed
    template: str
    bucket: str
    parameters: dict[str, str]
    run: str


@click.command("create-job")
@job_options
@click.option("--detach", is_flag=True, help="Return once the stack is begun.")
@click.pass_context
def create_job_command(ctx: click.Context, /, detach: bool, **options: Any) -> None:
    """Start a training job, and wait until its nodes have joined.

    FILE is a job file (`elastic-aws init` writes one). The same file again changes nothing.
    """
    job_file = read_job(options)
    session = open_session(ctx, job_file.spec.region)
    plan = make_plan(session, job_file)
    stacks = Stacks(session)
    existing = stacks.find(f"elastic-aws-{plan.spec.name}")
    if existing is not None and existing.status == "DELETE_IN_PROGRESS":
        raise UsageError(
            f"job {plan.spec.name} is being deleted", why="its stack is not gone yet", hint="try again in a minute"
        )
    if existing is not None:
        refuse_another_spec(ctx, session, existing, plan)
        progress(f"{plan.spec.name} exists with this very spec: nothing to do")
    else:
        deploy(session, stacks, plan)
    if not detach:
        begin = prefix(ctx)
        stack = wait_for_stack(session, stacks, plan.spec.name, begin=begin)
        wait_for_nodes(Job(name=plan.spec.name, stack=stack, session=session), plan.spec.nodes, begin=begin)
    say_next(ctx, plan.spec)


def make_plan(session: AwsSession, job: JobFile) -> Plan:
    """Check everything that can be checked before anything is created. Raises: UsageError, PreflightError..."""
    from elastic_aws.templates.job_stack import job_stack

    spec = job.spec
    if session.local and spec.image:
        why = "it has no container engine"
        raise PreflightError(
            f"the local cloud cannot run image {spec.image!r}", why=why, hint="leave image out: workers run in a venv"
        )
    account = session.account()
    code, wheel = pack(session, job), pack_wheel()
    digest = hashlib.sha256((spec.model_dump_json() + code.sha256).encode()).hexdigest()
    bucket = spec.bucket or f"elastic-aws-{account}-{session.region}"
    template = job_stack(spec)
    network = find_network(session, spec.subnets)
    run = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-") + digest[:6]
    parameters = {
        "VpcId": network.vpc,
        "SubnetIds": ",".join(network.subnets),
        "StoreImageId": find_image(session, STORE_IMAGE),
        "WorkerImageId": find_image(session, spec.machine_image or (CONTAINER_IMAGE if spec.image else PYTORCH_IMAGE)),
        "Bucket": bucket,
        "Run": run,
        "WheelKey": f"wheels/{wheel.sha256}/{wheel.name}",
        "WheelSha256": wheel.sha256,
        "BundleKey": f"bundles/{code.sha256}.tar.gz",
        "BundleSha256": code.sha256,
    }
    return Plan(
        spec=spec,
        digest=digest,
        code=code,
        wheel=wheel,
        template=template,
        bucket=bucket,
        parameters=parameters,
        run=run,
    )


def refuse_another_spec(ctx: click.Context, session: AwsSession, existing: Stack, plan: Plan) -> None:
    """Raises: UsageError with the difference when the name is taken by another spec."""
    if existing.tags.get(SPEC_TAG) == plan.digest[:32]:
        return
    name = plan.spec.name
    if existing.tags.get(JOB_TAG) != name:
        why = "it has no tag of elastic-aws, so it is left alone"
        raise UsageError(f"a stack {existing.name} exists that is no job", why=why, hint="another name (--name)")
    bucket = Bucket(session, existing.parameters["Bucket"])
    found = bucket.get(f"jobs/{name}/{existing.parameters['Run']}/{SPEC}")
    before, now = json.loads(found or b"{}"), json.loads(plan.spec.model_dump_json())
    lines = [
        f"  {key}: {json.dumps(before.get(key))} -> {json.dumps(now.get(key))}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]
    if existing.parameters.get("BundleSha256") != plan.code.sha256:
        lines.append("  the code's files changed")
    why = "\n".join(["its spec differs from this one:", *lines])
    hint = f"another name (--name), or {prefix(ctx)} delete-job {name}"
    raise UsageError(f"a job {name} exists already", why=why, hint=hint)


def deploy(session: AwsSession, stacks: Stacks, plan: Plan) -> None:
    """Upload code, wheel and spec; begin the stack."""
    bucket = Bucket(session, plan.bucket)
    if not bucket.is_there():
        progress(f"creating the bucket {plan.bucket}")
        bucket.create()
    for packed, key in ((plan.code, plan.parameters["BundleKey"]), (plan.wheel, plan.parameters["WheelKey"])):
        if not bucket.exists(key):
            bucket.put(key, packed.content)
    at = bucket.uri(plan.parameters["BundleKey"])
    progress(f"code: {plan.code.files} files, {readable(plan.code.size_bytes)} packed, at {at}")
    bucket.put(f"jobs/{plan.spec.name}/{plan.run}/{SPEC}", plan.spec.model_dump_json().encode())
    name = f"elastic-aws-{plan.spec.name}"
    tags = {JOB_TAG: plan.spec.name, RUN_TAG: plan.run, SPEC_TAG: plan.digest[:32]}
    stacks.create(name, template=plan.template, parameters=plan.parameters, tags=tags)
    progress(f"stack {name} in {session.region}")


def say_next(ctx: click.Context, spec: JobSpec) -> None:
    """The commands that people want next, ready to copy."""
    begin, more = prefix(ctx), min(spec.nodes.max, spec.nodes.target + 1)
    progress("\nNext:")
    for command, what in (
        (f"status {spec.name} --watch", "how far it is"),
        (f"logs {spec.name} -f", "what the workers write"),
        (f"scale {spec.name} {more}", "more nodes"),
        (f"delete-job {spec.name}", "end it, delete what costs money"),
    ):
        progress(f"  {begin} {command:<40} {what}")
