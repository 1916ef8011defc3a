"""The stack of one job, as a template."""

from __future__ import annotations

import json
from typing import Any

from troposphere import GetAtt, Output, Parameter, Ref, Sub, Template
from troposphere.logs import LogGroup

from elastic_aws.job import JobSpec
from elastic_aws.templates.names import log_group_name, tags
from elastic_aws.templates.network import add_network
from elastic_aws.templates.permissions import add_roles
from elastic_aws.templates.store_nodes import add_store
from elastic_aws.templates.worker_nodes import add_workers

LOG_DAYS = 30
"""How long a job's logs are kept after its stack is gone."""

_PARAMETERS = {
    "VpcId": ("AWS::EC2::VPC::Id", "Network of the job"),
    "SubnetIds": ("List<AWS::EC2::Subnet::Id>", "Subnets of the workers, one a zone"),
    "StoreSubnetId": ("AWS::EC2::Subnet::Id", "Subnet of the store"),
    "StoreImageId": ("AWS::EC2::Image::Id", "Machine image of the store"),
    "WorkerImageId": ("AWS::EC2::Image::Id", "Machine image of the workers"),
    "Bucket": ("String", "Bucket for code, status and checkpoints"),
    "Run": ("String", "This run of the job"),
    "WheelKey": ("String", "Key of the elastic-aws wheel in the bucket"),
    "WheelSha256": ("String", "Its SHA-256"),
    "BundleKey": ("String", "Key of the packed code in the bucket"),
    "BundleSha256": ("String", "Its SHA-256"),
}


def synth(spec: JobSpec) -> dict[str, Any]:
    """The template as CloudFormation's JSON structure. Raises: UsageError when the job does not fit in it."""
    template = Template(Description=f"elastic-aws job {spec.name}: elastic PyTorch training")
    template.set_version("2010-09-09")
    for name, (kind, description) in _PARAMETERS.items():
        template.add_parameter(Parameter(name, Type=kind, Description=description))
    template.add_resource(
        LogGroup(
            "LogGroup", LogGroupName=log_group_name(spec.name), RetentionInDays=LOG_DAYS, Tags=tags(spec.name, "logs")
        )
    )
    template.resources["LogGroup"].resource |= {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Retain"}
    add_network(template, spec.name)
    add_roles(template, spec.name, checkpoint_bucket=_bucket_of(spec.checkpoints))
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
    """The template as canonical JSON: the same job gives the same bytes."""
    return json.dumps(synth(spec), indent=1, sort_keys=True) + "\n"


def _bucket_of(place: str | None) -> str | None:
    if place is None or not place.startswith("s3://"):
        return None
    return place.removeprefix("s3://").partition("/")[0]
