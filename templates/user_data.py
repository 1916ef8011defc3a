"""User-data: boot/stub.sh with the node's configuration filled in, as CloudFormation's Fn::Sub takes it."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from troposphere import Base64, GetAtt, Ref, Sub

from elastic_aws.job import JobSpec, Venv
from elastic_aws.node_config import (
    START_FAILURES,
    Artifact,
    ContainerRuntime,
    NodeBounds,
    NodeConfig,
    Role,
    Runtime,
    VenvRuntime,
)
from elastic_aws.templates.limits import check_user_data
from elastic_aws.templates.names import STORE_PORT, log_group_name, workers_group_name


def user_data(spec: JobSpec, role: Role) -> Base64:
    """What a node of this role boots with. Raises: UsageError when the job's text does not fit."""
    text = stub_text(spec, role)
    check_user_data(text)
    values = {
        "StoreInterface": Ref("StoreInterface"),
        "StoreAddress": GetAtt("StoreInterface", "PrimaryPrivateIpAddress"),
    }
    return Base64(Sub(text, values))


def stub_text(spec: JobSpec, role: Role) -> str:
    """The text for Fn::Sub: `${Name}` is filled in by CloudFormation, `${!Name}` stands for the shell's `${Name}`."""
    boot = "store" if role is Role.STORE else "worker"
    stub = files("elastic_aws.templates").joinpath("boot/stub.sh").read_text().replace("${", "${!")
    failures = f"s3://${{Bucket}}/jobs/{spec.name}/${{Run}}/{START_FAILURES}{boot}"
    wheel = f"{boot} ${{AWS::Region}} {failures} s3://${{Bucket}}/${{WheelKey}} ${{WheelSha256}}"
    # The configuration comes last: nothing in a user's text may be taken for a line to fill in.
    return stub.replace("@WHEEL", wheel).replace("@NODE_CONFIG", _node_config(spec, role))


def _node_config(spec: JobSpec, role: Role) -> str:
    """NodeConfig as one line of JSON, in which CloudFormation fills in what is known only at deployment."""
    filled_in = _filled_in(spec, role)
    fields = _known(spec, role).model_dump(mode="json", exclude=set(filled_in))
    members = {name: _inert(value) for name, value in fields.items()}
    members |= {name: _json(value) for name, value in filled_in.items()}
    return "{" + ",".join(f'"{name}":{text}' for name, text in sorted(members.items())) + "}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _inert(value: Any) -> str:
    """JSON in which CloudFormation finds nothing to replace: no `${...}`, no `{{resolve:...}}`.

    Both characters stand in texts only, where JSON lets one write them as numbers.
    """
    return re.sub(r"\{(?=\{)", r"\\u007b", _json(value).replace("$", "\\u0024"))


def _known(spec: JobSpec, role: Role) -> NodeConfig:
    """What is known on the laptop; the fields of `_filled_in` are left empty."""
    worker = role is Role.WORKER
    nodes = spec.nodes
    return NodeConfig(
        job=spec.name,
        run="",
        role=role,
        region="",
        bucket="",
        job_prefix="",
        wheel=Artifact(key="", sha256=""),
        program=spec.program if worker else None,
        runtime=_runtime(spec) if worker else VenvRuntime(python="/usr/bin/python3"),
        store_endpoints=(),
        workers_group=workers_group_name(spec.name),
        workers_per_node=spec.workers_per_node,
        bounds=NodeBounds(min=nodes.min, max=nodes.max, target=nodes.target),
        setup=spec.setup if worker else (),
        environment=spec.environment if worker else {},
        preload=spec.preload if worker else (),
        checkpoints=spec.checkpoints or "",
        log_group=log_group_name(spec.name),
        time_limit=spec.time_limit,
        timing=spec.timing,
    )


def _filled_in(spec: JobSpec, role: Role) -> dict[str, Any]:
    prefix = f"jobs/{spec.name}/${{Run}}/"
    filled: dict[str, Any] = {
        "run": "${Run}",
        "region": "${AWS::Region}",
        "bucket": "${Bucket}",
        "job_prefix": prefix,
        "wheel": {"key": "${WheelKey}", "sha256": "${WheelSha256}"},
        "store_endpoints": [f"http://${{StoreAddress}}:{STORE_PORT}"],
        "store_interface": "${StoreInterface}",
    }
    if role is Role.WORKER:
        filled["bundle"] = {"key": "${BundleKey}", "sha256": "${BundleSha256}"}
    if spec.checkpoints is None:
        filled["checkpoints"] = f"s3://${{Bucket}}/{prefix}checkpoints"
    return filled


def _runtime(spec: JobSpec) -> Runtime:
    if spec.image is not None:
        return ContainerRuntime(image=spec.image)
    venv = spec.venv or Venv()
    return VenvRuntime(python=venv.python, requirements=venv.requirements)
