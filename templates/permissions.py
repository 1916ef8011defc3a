"""Least-privilege roles of the two kinds of node."""

from __future__ import annotations

from typing import Any

from troposphere import Ref, Sub, Template
from troposphere.iam import InstanceProfile, Policy, Role

from elastic_aws.job import JobSpec
from elastic_aws.node_config import SCALE_REQUEST, START_FAILURES, STATUS
from elastic_aws.templates.names import log_group_name, tags, workers_group_name

Statement = dict[str, Any]

_BUCKET = "arn:${AWS::Partition}:s3:::${Bucket}"


def add_roles(template: Template, spec: JobSpec) -> None:
    """Roles and instance profiles `StoreProfile` and `WorkersProfile`."""
    _add_role(template, spec.name, "Store", _store_statements(spec.name))
    _add_role(template, spec.name, "Workers", _workers_statements(spec))


def _store_statements(job: str) -> list[Statement]:
    run = f"{_BUCKET}/jobs/{job}/${{Run}}"
    ec2 = "arn:${AWS::Partition}:ec2:${AWS::Region}:${AWS::AccountId}"
    attach = _allow(["ec2:AttachNetworkInterface"], f"{ec2}:instance/*", f"{ec2}:network-interface/*")
    return [
        _allow(["s3:GetObject"], f"{_BUCKET}/${{WheelKey}}", f"{run}/{SCALE_REQUEST}"),
        _allow(["s3:GetObject", "s3:PutObject"], f"{run}/{STATUS}"),
        _allow(["s3:PutObject"], f"{run}/{START_FAILURES}store/*"),
        _list(job),
        _allow(["autoscaling:UpdateAutoScalingGroup", "autoscaling:DeleteLifecycleHook"], _workers_group(job)),
        attach | {"Condition": {"StringEquals": {"aws:ResourceTag/elastic-aws:job": job}}},
        _logs(job),
    ]


def _workers_statements(spec: JobSpec) -> list[Statement]:
    job = spec.name
    checkpoints = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    statements = [
        _allow(["s3:GetObject"], f"{_BUCKET}/${{WheelKey}}", f"{_BUCKET}/${{BundleKey}}"),
        _allow(checkpoints, f"{_BUCKET}/jobs/{job}/${{Run}}/checkpoints/*"),
        _allow(["s3:PutObject"], f"{_BUCKET}/jobs/{job}/${{Run}}/{START_FAILURES}worker/*"),
        _list(job),
        _allow(
            ["autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"], _workers_group(job)
        ),
        _logs(job),
    ]
    if (place := spec.checkpoints or "").startswith("s3://"):
        bucket, _, prefix = place.removeprefix("s3://").replace("${", "${!").rstrip("/").partition("/")
        other = f"arn:${{AWS::Partition}}:s3:::{bucket}"
        objects = f"{other}/{prefix}/*" if prefix else f"{other}/*"
        statements += [_allow(checkpoints, objects), _allow(["s3:ListBucket"], other)]
    if spec.image is not None and ".dkr.ecr." in spec.image:
        pull = ["ecr:GetAuthorizationToken", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        statements.append({"Effect": "Allow", "Action": pull, "Resource": "*"})
    return statements


def _workers_group(job: str) -> str:
    groups = "arn:${AWS::Partition}:autoscaling:${AWS::Region}:${AWS::AccountId}:autoScalingGroup"
    return f"{groups}:*:autoScalingGroupName/{workers_group_name(job)}"


def _allow(actions: list[str], *resources: str) -> Statement:
    return {"Effect": "Allow", "Action": actions, "Resource": [Sub(resource) for resource in resources]}


def _list(job: str) -> Statement:
    """Listing lets S3 answer 404 for a missing object instead of 403: then no prefix is asked for."""
    condition = {"StringLikeIfExists": {"s3:prefix": Sub(f"jobs/{job}/${{Run}}/*")}}
    return _allow(["s3:ListBucket"], _BUCKET) | {"Condition": condition}


def _logs(job: str) -> Statement:
    group = "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:" + log_group_name(job) + ":*"
    return _allow(["logs:CreateLogStream", "logs:PutLogEvents"], group)


def _add_role(template: Template, job: str, part: str, statements: list[Statement]) -> None:
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}],
    }
    template.add_resource(
        Role(
            f"{part}Role",
            AssumeRolePolicyDocument=trust,
            Policies=[
                Policy(
                    PolicyName=f"elastic-aws-{part.lower()}",
                    PolicyDocument={"Version": "2012-10-17", "Statement": statements},
                )
            ],
            Tags=tags(job, part.lower()),
        )
    )
    template.add_resource(InstanceProfile(f"{part}Profile", Roles=[Ref(f"{part}Role")]))
