"""The stack of a job: its shape, held by golden copies and by cfn-lint."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from elastic_aws.errors import UsageError
from elastic_aws.job import JobSpec
from elastic_aws.templates.job_stack import job_stack, synth
from elastic_aws.templates.limits import TEMPLATE_LIMIT_BYTES

GOLDEN = Path(__file__).parent / "golden"
REGIONS = ["us-west-2", "us-east-1", "eu-west-1"]

JOBS = {
    "spot": JobSpec.model_validate(
        {
            "name": "digits",
            "script": "train.py",
            "code": ".",
            "arguments": ["--epochs", "4", "it's ${HOME}\n{{resolve:ssm:x}} é"],
            "nodes": "2:4",
            "instance_types": ["g5.xlarge", "g4dn.xlarge"],
            "preload": ["torchvision"],
        }
    ),
    "container-on-demand": JobSpec.model_validate(
        {
            "name": "big",
            "script": "image:///app/train.py",
            "image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1",
            "nodes": {"min": 1, "max": 16, "target": 8},
            "instance_types": "p4d.24xlarge",
            "capacity": "on-demand",
            "checkpoints": "s3://other-bucket/runs",
        }
    ),
}


@pytest.fixture(params=JOBS)
def job(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def statements(template: dict[str, Any], role: str) -> list[dict[str, Any]]:
    policies = template["Resources"][role]["Properties"]["Policies"]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def test_the_stack_is_the_golden_one(job: str) -> None:
    text = job_stack(JOBS[job])
    golden = GOLDEN / f"{job}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text(), "the stack changed: `make golden` takes it over, if it was meant"


def test_the_same_job_makes_the_same_bytes(job: str) -> None:
    assert job_stack(JOBS[job]) == job_stack(JOBS[job].model_copy(deep=True))


def test_cfn_lint_reports_nothing_in_any_of_three_regions(job: str) -> None:
    matches = lint(job_stack(JOBS[job]), config=ManualArgs(regions=REGIONS))
    assert [f"{match.rule.id} {match.message} {match.path}" for match in matches] == []


def test_a_group_can_shrink_to_nothing_and_starts_at_the_target() -> None:
    group = synth(JOBS["container-on-demand"])["Resources"]["Workers"]
    sizes = [group["Properties"][name] for name in ("MinSize", "DesiredCapacity", "MaxSize")]
    assert sizes == ["0", "8", "16"]


def test_an_update_of_the_stack_leaves_a_live_scale_alone() -> None:
    group = synth(JOBS["spot"])["Resources"]["Workers"]
    assert group["UpdatePolicy"]["AutoScalingScheduledAction"]["IgnoreUnmodifiedGroupSizeProperties"] is True


def test_a_spot_job_buys_nothing_on_demand_and_an_on_demand_job_no_spot() -> None:
    def share(job: str) -> int:
        group = synth(JOBS[job])["Resources"]["Workers"]["Properties"]
        distribution = group["MixedInstancesPolicy"]["InstancesDistribution"]
        assert group["CapacityRebalance"] is (job == "spot")
        return int(distribution["OnDemandPercentageAboveBaseCapacity"])

    assert [share("spot"), share("container-on-demand")] == [0, 100]


def test_only_the_jobs_own_nodes_are_let_in_and_never_by_ssh(job: str) -> None:
    resources = synth(JOBS[job])["Resources"]
    ingress = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::EC2::SecurityGroupIngress"]
    assert len(ingress) == 2
    for rule in ingress:
        assert rule["SourceSecurityGroupId"] == {"Fn::GetAtt": ["WorkersSecurityGroup", "GroupId"]}
        assert "CidrIp" not in rule
    groups = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::EC2::SecurityGroup"]
    assert all("SecurityGroupIngress" not in group for group in groups)


def test_every_node_has_encrypted_disks_and_imdsv2_and_no_key(job: str) -> None:
    resources = synth(JOBS[job])["Resources"]
    templates = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::EC2::LaunchTemplate"]
    assert len(templates) == 2
    for data in (template["LaunchTemplateData"] for template in templates):
        assert data["MetadataOptions"]["HttpTokens"] == "required"
        assert all(disk["Ebs"]["Encrypted"] for disk in data["BlockDeviceMappings"])
        assert "KeyName" not in data


def test_no_role_may_do_everything_with_anything(job: str) -> None:
    template = synth(JOBS[job])
    for role in ("StoreRole", "WorkersRole"):
        for statement in statements(template, role):
            assert not [action for action in statement["Action"] if "*" in action]
            if not statement["Action"][0].startswith("ecr:"):
                assert statement["Resource"] != "*"


def test_workers_cannot_write_the_jobs_state_nor_its_code(job: str) -> None:
    written = [
        resource["Fn::Sub"]
        for statement in statements(synth(JOBS[job]), "WorkersRole")
        if "s3:PutObject" in statement["Action"]
        for resource in statement["Resource"]
    ]
    assert written
    allowed = ("/checkpoints/", "other-bucket/runs/", "/failures/worker/")
    assert all(any(each in place for each in allowed) for place in written)


def test_the_longest_job_fits_in_a_template_and_what_would_not_is_refused() -> None:
    spec = JOBS["spot"].model_copy(
        update={"name": "j" * 40, "arguments": ("x" * 11_500,), "instance_types": ("g6e.12xlarge",) * 20}
    )
    assert len(job_stack(spec).encode()) <= TEMPLATE_LIMIT_BYTES
    with pytest.raises(UsageError, match="template is too long"):
        job_stack(spec.model_copy(update={"instance_types": ("g6e.12xlarge",) * 500}))


def test_outputs_name_what_the_cli_acts_on(job: str) -> None:
    outputs = json.loads(job_stack(JOBS[job]))["Outputs"]
    assert set(outputs) == {"WorkersGroup", "StoreGroup", "StoreAddress", "LogGroup", "Bucket", "JobPrefix"}
