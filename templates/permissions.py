"""Least-privilege roles of the two kinds of node."""

from __future__ import annotations

from typing import Any

from troposphere import Ref, Sub, Template
from troposphere.iam import InstanceProfile, Policy, Role

from elastic_aws.templates.names import log_group_name, tags, workers_group_name

Statement = dict[str, Any]


def add_roles(template: Template, job: str, *, checkpoint_bucket: str | None) -> None:
    """Roles and instance profiles `StoreProfile` and `WorkersProfile`."""
    prefix = f"jobs/{job}/${{Run}}"
    bucket = "arn:${AWS::Partition}:s3:::${Bucket}"
    group = (
        "arn:${AWS::Partition}:autoscaling:${AWS::Region}:${AWS::AccountId}:autoScalingGroup:*:autoScalingGroupName/"
        + workers_group_name(job)
    )
    logs = _logs(job)
    store = [
        _allow(["s3:GetObject"], f"{bucket}/${{WheelKey}}", f"{bucket}/{prefix}/scale.json"),
        _allow(["s3:GetObject", "s3:PutObject"], f"{bucket}/{prefix}/status.json"),
        _list(bucket, f"{prefix}/*"),
        _allow(["autoscaling:UpdateAutoScalingGroup"], group),
        {
            "Effect": "Allow",
            "Action": ["ec2:AttachNetworkInterface"],
            "Resource": [
                Sub("arn:${AWS::Partition}:ec2:${AWS::Region}:${AWS::AccountId}:instance/*"),
                Sub("arn:${AWS::Partition}:ec2:${AWS::Region}:${AWS::AccountId}:network-interface/*"),
            ],
            "Condition": {"StringEquals": {"aws:ResourceTag/elastic-aws:job": job}},
        },
        logs,
    ]
    workers = [
        _allow(["s3:GetObject"], f"{bucket}/${{WheelKey}}", f"{bucket}/${{BundleKey}}"),
        _allow(["s3:GetObject", "s3:PutObject"], f"{bucket}/{prefix}/checkpoints/*"),
        _list(bucket, f"{prefix}/*"),
        _allow(["autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"], group),
        logs,
    ]
    if checkpoint_bucket is not None:
        other = f"arn:${{AWS::Partition}}:s3:::{checkpoint_bucket}"
        workers += [_allow(["s3:GetObject", "s3:PutObject"], f"{other}/*"), _allow(["s3:ListBucket"], other)]
    _add_role(template, job, "Store", store)
    _add_role(template, job, "Workers", workers)


def _allow(actions: list[str], *resources: str) -> Statement:
    return {"Effect": "Allow", "Action": actions, "Resource": [Sub(resource) for resource in resources]}


def _list(bucket: str, prefix: str) -> Statement:
    """Listing lets S3 answer 404 for a missing object instead of 403."""
    condition = {"StringLike": {"s3:prefix": Sub(prefix)}}
    return {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": Sub(bucket), "Condition": condition}


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
