"""User-data: boot/stub.sh with the node's configuration filled in, as CloudFormation's Fn::Sub takes it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from troposphere import Base64, GetAtt, Ref, Sub

from elastic_aws.errors import UsageError
from elastic_aws.job import JobSpec
from elastic_aws.node_config import (
    Artifact,
    ContainerRuntime,
    NodeBounds,
    NodeConfig,
    Role,
    Runtime,
    VenvRuntime,
)
from elastic_aws.templates.limits import USER_DATA_LIMIT_BYTES
from elastic_aws.templates.names import STORE_PORT, log_group_name, workers_group_name

MARGIN_BYTES = 1024
"""Kept free for what CloudFormation fills in: names, addresses and digests are shorter than this."""


def user_data(spec: JobSpec, role: Role) -> Base64:
    """What a node of this role boots with. Raises: UsageError when the job's text does not fit."""
    text = stub_text(spec, role)
    size = len(text.encode())
    if size > USER_DATA_LIMIT_BYTES - MARGIN_BYTES:
        why = f"user-data would have {size} bytes, and EC2 takes {USER_DATA_LIMIT_BYTES}"
        hint = "move set-up commands and long arguments into a script of the code folder"
        raise UsageError("the job file's set-up commands, arguments and environment are too long", why=why, hint=hint)
    values = {
        "StoreInterface": Ref("StoreInterface"),
        "StoreAddress": GetAtt("StoreInterface", "PrimaryPrivateIpAddress"),
    }
    return Base64(Sub(text, values))


def stub_text(spec: JobSpec, role: Role) -> str:
    """The text for Fn::Sub: `${Name}` is a parameter, `${!Name}` stands for itself."""
    boot = "store" if role is Role.STORE else "worker"
    stub = _literal(files("elastic_aws.templates").joinpath("boot/stub.sh").read_text())
    config = json.dumps(_node_config(spec, role), separators=(",", ":"), sort_keys=True)
    wheel = f"{boot} s3://${{Bucket}}/${{WheelKey}} ${{WheelSha256}}"
    return stub.replace("@NODE_CONFIG", config).replace("@WHEEL", wheel)


def _literal(value: Any) -> Any:
    """The value with every `${` in its texts kept from Fn::Sub."""
    if isinstance(value, str):
        return value.replace("${", "${!")
    if isinstance(value, dict):
        return {_literal(key): _literal(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_literal(member) for member in value]
    return value


def _node_config(spec: JobSpec, role: Role) -> dict[str, Any]:
    """NodeConfig's JSON, in which CloudFormation fills in what is known only at deployment."""
    worker = role is Role.WORKER
    nodes = spec.nodes
    config = NodeConfig(
        job=spec.name,
        run="",
        role=role,
        region="",
        bucket="",
        job_prefix="",
        wheel=Artifact(key="", sha256=""),
        bundle=Artifact(key="", sha256="") if worker else None,
        program=spec.program if worker else None,
        runtime=_runtime(spec),
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
    prefix = f"jobs/{spec.name}/${{Run}}/"
    filled: dict[str, Any] = _literal(config.model_dump(mode="json"))
    filled |= {
        "run": "${Run}",
        "region": "${AWS::Region}",
        "bucket": "${Bucket}",
        "job_prefix": prefix,
        "wheel": {"key": "${WheelKey}", "sha256": "${WheelSha256}"},
        "store_endpoints": [f"http://${{StoreAddress}}:{STORE_PORT}"],
        "store_interface": "${StoreInterface}",
    }
    if worker:
        filled["bundle"] = {"key": "${BundleKey}", "sha256": "${BundleSha256}"}
    if spec.checkpoints is None:
        filled["checkpoints"] = f"s3://${{Bucket}}/{prefix}checkpoints"
    return filled


def _runtime(spec: JobSpec) -> Runtime:
    if spec.image is not None:
        return ContainerRuntime(image=spec.image)
    from elastic_aws.job import Venv

    venv = spec.venv or Venv()
    return VenvRuntime(python=venv.python, requirements=venv.requirements)
