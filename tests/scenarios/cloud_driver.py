"""A running local cloud, as tests drive it: boto3 clients, a stack's template, and what its instances show."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from elastic_aws.local_cloud import market_client
from elastic_aws.local_cloud.machine_root import METADATA_PORT
from elastic_aws.local_cloud.market_client import MachineStatus
from elastic_aws.local_cloud.state import LocalCloudState
from tests.waiting import wait_until

SOON = timedelta(seconds=15)
HOOK = "drain"
IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"

USER_DATA = """#!/bin/bash
set -euo pipefail
here="$AWS_EC2_METADATA_SERVICE_ENDPOINT/latest"
code=$(curl -s -o /dev/null -w '%{http_code}' "$here/meta-data/instance-id")
token=$(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$here/api/token")
name=$(curl -s -H "X-aws-ec2-metadata-token: $token" "$here/meta-data/instance-id")
role=$(aws sts get-caller-identity --query Arn --output text)
aws s3 cp s3://gifts/greeting "$ELASTIC_AWS_ROOT/opt/greeting"
dnf install -y htop
form='{"without_token": "%s", "instance": "%s", "role": "%s"}'
printf "$form" "$code" "$name" "$role" > "$ELASTIC_AWS_ROOT/facts.json"
cat > "$ELASTIC_AWS_ROOT/etc/systemd/system/work.service" <<UNIT
[Service]
ExecStart=/bin/sleep 3600
Restart=always
RestartSec=10ms
UNIT
systemctl enable --now work
"""


class Cloud:
    """A running local cloud with boto3's clients for it."""

    def __init__(self, state: LocalCloudState) -> None:
        self.state = state
        self.ec2 = self.client("ec2")
        self.groups = self.client("autoscaling")
        self.stacks = self.client("cloudformation")
        self.s3 = self.client("s3")

    def client(self, service: Any) -> Any:
        return boto3.client(
            service,
            region_name=self.state.region,
            endpoint_url=self.state.endpoint_url,
            aws_access_key_id="local",
            aws_secret_access_key="local",
            config=Config(proxies={}),
        )

    def create(self, name: str, template: dict[str, Any]) -> None:
        self.stacks.create_stack(StackName=name, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM"])

    def finished(self, name: str) -> str:
        def status() -> str:
            found: str = self.stacks.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
            if found == "ROLLBACK_IN_PROGRESS":
                finish_waits(self, name)
            return "" if found.endswith("_IN_PROGRESS") else found

        return wait_until(status, limit=SOON, what=f"stack {name}")

    def group(self, stack: str) -> dict[str, Any]:
        found = self.stacks.describe_stack_resource(StackName=stack, LogicalResourceId="Group")
        name = found["StackResourceDetail"]["PhysicalResourceId"]
        group: dict[str, Any] = self.groups.describe_auto_scaling_groups(AutoScalingGroupNames=[name])[
            "AutoScalingGroups"
        ][0]
        return group

    def phases(self, stack: str) -> dict[str, str]:
        return {one["InstanceId"]: one["LifecycleState"] for one in self.group(stack)["Instances"]}

    def machine(self, instance: str) -> MachineStatus | None:
        return next((one for one in market_client.machines(self.state) if one.id == instance), None)

    def booted(self, instance: str) -> MachineStatus:
        def done() -> MachineStatus | None:
            machine = self.machine(instance)
            assert machine is not None
            assert machine.boot != "failed", Path(machine.boot_log).read_text()
            return machine if machine.boot == "done" and machine.units else None

        machine = wait_until(done, limit=SOON, what=f"boot of {instance}")
        assert machine is not None
        return machine

    def metadata(self, instance: str, path: str) -> str | None:
        machine = self.machine(instance)
        assert machine is not None
        return machine_metadata(machine.address, path)


def machine_metadata(address: str, path: str) -> str | None:
    """A document of the instance's metadata service; None where there is none."""
    opener = build_opener(ProxyHandler({}))
    here = f"http://{address}:{METADATA_PORT}/latest"
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    ask = Request(f"{here}/api/token", method="PUT", headers=lifetime)  # noqa: S310 - http to our own daemon
    token = opener.open(ask, timeout=5).read().decode()
    try:
        headers = {"X-aws-ec2-metadata-token": token}
        document = Request(f"{here}/meta-data/{path}", headers=headers)  # noqa: S310 - as above
        answer = opener.open(document, timeout=5)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise
    return str(answer.read().decode())


def finish_waits(cloud: Cloud, stack: str) -> bool:
    """Complete what waits; answer whether the stack is gone."""
    try:
        group = cloud.group(stack)
    except (ClientError, IndexError):
        return True
    for one in group["Instances"]:
        if one["LifecycleState"] == "Terminating:Wait":
            complete(cloud, group["AutoScalingGroupName"], one["InstanceId"])
    return False


def complete(cloud: Cloud, group: str, instance: str) -> None:
    cloud.groups.complete_lifecycle_action(
        AutoScalingGroupName=group, LifecycleHookName=HOOK, InstanceId=instance, LifecycleActionResult="CONTINUE"
    )


def template(cloud: Cloud, *, desired: int = 1, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    subnets = [subnet["SubnetId"] for subnet in cloud.ec2.describe_subnets()["Subnets"]]
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    data = {
        "ImageId": {"Ref": "Image"},
        "InstanceType": "m5.large",
        "IamInstanceProfile": {"Arn": {"Fn::GetAtt": ["Profile", "Arn"]}},
        "UserData": {"Fn::Base64": USER_DATA},
    }
    specification = {
        "LaunchTemplateId": {"Ref": "Launch"},
        "Version": {"Fn::GetAtt": ["Launch", "LatestVersionNumber"]},
    }
    group = {
        "MinSize": "0",
        "MaxSize": "4",
        "DesiredCapacity": str(desired),
        "VPCZoneIdentifier": subnets,
        "MixedInstancesPolicy": {
            "InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": 0},
            "LaunchTemplate": {
                "LaunchTemplateSpecification": specification,
                "Overrides": [{"InstanceType": "g5.xlarge"}],
            },
        },
    }
    hook = {
        "AutoScalingGroupName": {"Ref": "Group"},
        "LifecycleHookName": HOOK,
        "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
        "HeartbeatTimeout": 300,
        "DefaultResult": "CONTINUE",
    }
    policy = {"Version": "2012-10-17", "Statement": [trust]}
    resources = {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": policy}},
        "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "Role"}]}},
        "Launch": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}},
        "Group": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": group},
        "Hook": {"Type": "AWS::AutoScaling::LifecycleHook", "Properties": hook},
    }
    parameters = {"Image": {"Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", "Default": IMAGE}}
    return {"Parameters": parameters, "Resources": resources | (extra or {})}


def only(phases: dict[str, str]) -> str:
    assert len(phases) == 1
    return next(iter(phases))
