"""The stack of one job, as a template."""

from __future__ import annotations

import json
from typing import Any

from troposphere import GetAtt, Output, Parameter, Ref, Sub, Template
from troposphere.logs import LogGroup

from elastic_aws.job import JobSpec
from elastic_aws.templates.limits import check_template
from elastic_aws.templates.names import log_group_name, tags
from elastic_aws.templates.network import add_network
from elastic_aws.templates.permissions import add_roles
from elastic_aws.templates.store_nodes import add_store
from elastic_aws.templates.worker_nodes import add_workers

LOG_DAYS = 30
"""How long a job's log lines are kept while its stack stands; the log group goes with it."""

_KEY = r"[A-Za-z0-9._/+-]{1,200}"
_SHA256 = r"[0-9a-f]{64}"
# type, description, pattern: what is filled into user-data can hold nothing that means something there.
_PARAMETERS = {
    "VpcId": ("AWS::EC2::VPC::Id", "Network of the job", None),
    "SubnetIds": ("List<AWS::EC2::Subnet::Id>", "Subnets of the workers, one a zone; the store's is the first", None),
    "StoreImageId": ("AWS::EC2::Image::Id", "Machine image of the store", None),
    "WorkerImageId": ("AWS::EC2::Image::Id", "Machine image of the workers", None),
    "Bucket": ("String", "Bucket for code, status and checkpoints", r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
    "Run": ("String", "This run of the job", r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"),
    "WheelKey": ("String", "Key of the elastic-aws wheel in the bucket", _KEY),
    "WheelSha256": ("String", "SHA-256 of the wheel", _SHA256),
    "BundleKey": ("String", "Key of the packed code in the bucket", _KEY),
    "BundleSha256": ("String", "SHA-256 of the packed code", _SHA256),
}


def synth(spec: JobSpec) -> dict[str, Any]:
    """The template as CloudFormation's JSON structure. Raises: UsageError when the job does not fit in it."""
    template = Template(Description=f"elastic-aws job {spec.name}: elastic PyTorch training")
    template.set_version("2010-09-09")
    for name, (kind, description, pattern) in _PARAMETERS.items():
        limits = {} if pattern is None else {"AllowedPattern": pattern}
        template.add_parameter(Parameter(name, Type=kind, Description=description, **limits))
    template.add_resource(
        LogGroup(
            "LogGroup", LogGroupName=log_group_name(spec.name), RetentionInDays=LOG_DAYS, Tags=tags(spec.name, "logs")
        )
    )
    template.resources["LogGroup"].resource |= {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"}
    add_network(template, spec.name)
    add_roles(template, spec)
    add_store(template, spec)
    add_workers(template, spec)
    outputs = {
        "WorkersGroup": Ref("Workers"),
        "StoreGroup": Ref("Store"),
        "StoreAddress": GetAtt("StoreInterface", "PrimaryPrivateIpAddress"),
        "LogGroup": Ref("LogGroup"),
        "Bucket": Ref("Bucket"),
        "JobPrefix": Sub(f"jobs/{spec.name}/${{Run}}/"),
    }
    for name, value in outputs.items():
        template.add_output(Output(name, Value=value))
    return dict(template.to_dict())


def job_stack(spec: JobSpec) -> str:
    """The template as canonical JSON: the same job gives the same bytes. Raises: UsageError as `synth`."""
    text = json.dumps(synth(spec), indent=1, sort_keys=True) + "\n"
    check_template(text)
    return text
