"""User-data: what the node reads is what the user wrote, whatever CloudFormation, shell and heredoc make of it."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_aws.errors import UsageError
from elastic_aws.job import JobSpec
from elastic_aws.local_cloud.intrinsic_functions import Scope, evaluate
from elastic_aws.node_config import NodeConfig, Role
from elastic_aws.templates.job_stack import synth
from elastic_aws.templates.limits import FILLED_IN_BYTES, USER_DATA_LIMIT_BYTES
from elastic_aws.templates.user_data import stub_text

BOOT = Path(__file__).parents[2] / "templates/boot"
VALUES = {
    "AWS::Region": "us-west-2",
    "Bucket": "some-bucket",
    "Run": "20261207-ab12",
    "WheelKey": "wheels/w.whl",
    "WheelSha256": "a" * 64,
    "BundleKey": "bundles/b.tar.gz",
    "BundleSha256": "b" * 64,
    "StoreAddress": "10.0.0.7",
    "StoreInterface": "eni-0123456789abcdef0",
}
LONGEST = VALUES | {
    "AWS::Region": "ap-northeast-99",
    "Bucket": "b" * 63,
    "Run": "r" * 64,
    "WheelKey": "w" * 200,
    "BundleKey": "b" * 200,
    "StoreAddress": "255.255.255.255",
}
AWKWARD = (
    "two words",
    'it\'s "quoted" \\ back',
    "$HOME ${HOME} ${!HOME} ${ $$ ${Run} ${a{b}",
    "{{resolve:ssm:/x}} {{{",
    "line\nELASTIC_AWS_NODE\n@WHEEL\n@NODE_CONFIG",
    "`id` $(id) ; & | > *",
    "ünïcödé 机器 🚀 \u2028",
    "",
)


def spec(**fields: object) -> JobSpec:
    return JobSpec.model_validate(
        {"name": "digits", "script": "train.py", "code": ".", "nodes": "2:4", "instance_types": "g5.xlarge"} | fields
    )


def filled(job: JobSpec, role: Role, values: dict[str, str] = VALUES) -> str:
    """The user-data as CloudFormation fills it in; the local cloud's evaluation stands in for it."""

    def attribute(name: str, wanted: str) -> str:
        raise AssertionError(f"the user-data refers to {name}.{wanted}")

    scope = Scope(
        reference=values.__getitem__,
        attribute=attribute,
        condition=lambda _: False,
        mappings={},
        zones=lambda _: [],
        parameter=lambda name: pytest.fail(f"the user-data looks {name} up"),
        exported=lambda _: None,
    )
    return str(evaluate({"Fn::Sub": stub_text(job, role)}, scope))


def node_config(user_data: str) -> NodeConfig:
    match = re.search(r"<<'ELASTIC_AWS_NODE'\n(.*)\nELASTIC_AWS_NODE\n", user_data)
    assert match is not None
    return NodeConfig.model_validate_json(match[1])


@pytest.mark.parametrize("role", list(Role))
def test_a_nodes_configuration_is_filled_in(role: Role) -> None:
    config = node_config(filled(spec(), role))
    assert (config.role, config.run, config.region) == (role, "20261207-ab12", "us-west-2")
    assert config.job_prefix == "jobs/digits/20261207-ab12/"
    assert config.checkpoints == "s3://some-bucket/jobs/digits/20261207-ab12/checkpoints"
    assert config.store_endpoints == ("http://10.0.0.7:2379",)
    assert config.store_interface == "eni-0123456789abcdef0"
    assert config.workers_group == "elastic-aws-digits-workers"
    assert (config.bundle is not None) is (role is Role.WORKER)


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_argument_arrives_unchanged(text: str) -> None:
    config = node_config(filled(spec(arguments=[text]), Role.WORKER))
    assert config.program is not None
    assert config.program.arguments == (text,)


def test_awkward_arguments_set_up_commands_and_variables_arrive_unchanged() -> None:
    job = spec(arguments=AWKWARD, setup=AWKWARD, environment={"X": AWKWARD[2], "Y": AWKWARD[3]})
    config = node_config(filled(job, Role.WORKER))
    assert config.program is not None
    assert config.program.arguments == AWKWARD
    assert config.setup == AWKWARD
    assert config.environment == {"X": AWKWARD[2], "Y": AWKWARD[3]}


def test_the_stores_user_data_holds_nothing_of_the_users_program() -> None:
    text = filled(spec(arguments=["hush"], environment={"TOKEN": "hush"}, setup=["hush"]), Role.STORE)
    assert "hush" not in text


def test_user_data_holds_no_credentials() -> None:
    for role in Role:
        text = filled(spec(), role)
        assert not re.search(r"(AKIA|ASIA)[A-Z0-9]{16}|secret|password|BEGIN [A-Z ]*KEY", text, re.IGNORECASE)


def test_the_longest_user_data_is_below_16_kb_and_a_longer_one_is_refused() -> None:
    allowed = USER_DATA_LIMIT_BYTES - FILLED_IN_BYTES
    room = allowed - len(stub_text(spec(name="j" * 40, arguments=[""]), Role.WORKER).encode())
    longest = spec(name="j" * 40, arguments=["x" * room])
    synth(longest)
    assert len(filled(longest, Role.WORKER, LONGEST).encode()) <= USER_DATA_LIMIT_BYTES
    with pytest.raises(UsageError, match="too long"):
        synth(spec(name="j" * 40, arguments=["x" * (room + 1)]))


@pytest.mark.parametrize("role", list(Role))
def test_user_data_and_boot_scripts_are_clean_for_shellcheck(role: Role, tmp_path: Path) -> None:
    script = tmp_path / "user-data"
    script.write_text(filled(spec(arguments=AWKWARD), role))
    done = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), str(script), *sorted(map(str, BOOT.glob("*.sh")))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_a_wheel_with_another_digest_is_not_run(tmp_path: Path) -> None:
    done = boot(tmp_path, sha256=hashlib.sha256(b"another").hexdigest())
    assert done.returncode != 0
    assert not (tmp_path / "root/opt/elastic-aws/wheel").exists()


def test_the_wheels_own_boot_script_runs_with_the_configuration_written(tmp_path: Path) -> None:
    done = boot(tmp_path, sha256=None)
    assert (done.returncode, done.stdout) == (0, "booted\n"), done.stderr
    written = (tmp_path / "root/etc/elastic-aws/node.json").read_text()
    assert json.loads(written)["program"]["arguments"] == list(AWKWARD)


def boot(folder: Path, *, sha256: str | None) -> subprocess.CompletedProcess[str]:
    """Run a worker's user-data below `folder`, with an `aws` that copies a wheel whose boot script says `booted`."""
    root = folder / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3").symlink_to(sys.executable)
    wheel = folder / "wheel.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("elastic_aws/templates/boot/worker.sh", "echo booted\n")
    programs = folder / "programs"
    programs.mkdir()
    (programs / "aws").write_text(f'#!/bin/sh\nfor to; do :; done\nexec cp "{wheel}" "$to"\n')
    (programs / "aws").chmod(0o755)
    digest = sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest()
    script = filled(spec(arguments=AWKWARD), Role.WORKER, VALUES | {"WheelSha256": digest})
    environment = {"ELASTIC_AWS_ROOT": str(root), "PATH": f"{programs}:/usr/bin:/bin"}
    return subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
