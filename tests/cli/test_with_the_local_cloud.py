"""Commands against a running local cloud."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from elastic_aws import bundle
from elastic_aws.errors import ExitCode
from elastic_aws.local_cloud.state import HOME_VARIABLE, LocalCloudState, start, stop
from tests.cli.command_line import CommandLine
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloudState]:
    home = tmp_path_factory.mktemp("cloud")
    yield start(home=home)
    stop(home)


@pytest.fixture
def local(elastic_aws: CommandLine, cloud: LocalCloudState, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv(HOME_VARIABLE, str(cloud.home))
    return elastic_aws


@pytest.mark.parametrize(
    "command",
    [["status"], ["status", "--json"], ["logs"], ["events"], ["scale", "2"], ["delete-job", "--yes"], ["interrupt"]],
)
def test_a_job_that_does_not_exist_is_told(local: CommandLine, command: list[str]) -> None:
    done = local("--local", command[0], "nobody", *command[1:])
    assert (done.code, done.out) == (ExitCode.NOT_FOUND, "")
    assert "no job nobody" in done.err
    assert "try:   elastic-aws --local list" in done.err


def test_another_region_than_the_local_clouds_is_refused(local: CommandLine) -> None:
    done = local("--local", "--region", "eu-west-1", "list")
    assert (done.code, "not in eu-west-1" in done.err) == (ExitCode.PREFLIGHT, True)


def test_a_bundle_that_is_empty_or_too_large_and_unknown_subnets_create_nothing(
    local: CommandLine, job_file: Path
) -> None:
    too_large = job_file.parent / "code/weights.pt"
    with too_large.open("wb") as file:
        file.truncate(bundle.CODE_LIMIT_BYTES + 1)  # a hole: takes no disk
    done = local("--local", "create-job", str(job_file))
    assert (done.code, "weights.pt" in done.err) == (ExitCode.USAGE, True)
    too_large.unlink()

    (job_file.parent / "code/.gitignore").write_text("*\n")
    done = local("--local", "create-job", str(job_file))
    assert (done.code, "nothing to pack" in done.err) == (ExitCode.USAGE, True)
    (job_file.parent / "code/.gitignore").unlink()

    job_file.write_text(job_file.read_text() + "subnets: [subnet-0123456789abcdef0]\n")
    done = local("--local", "create-job", str(job_file))
    assert (done.code, "subnets cannot be used" in done.err) == (ExitCode.PREFLIGHT, True)
    assert local("--local", "list", "--json").json == []


def test_a_job_is_created_once_scaled_shown_and_deleted(local: CommandLine, job_file: Path) -> None:
    script = job_file.parent / "code/train.py"
    script.write_text("import signal\nprint('hello from a worker', flush=True)\nsignal.pause()\n")

    created = local("--local", "create-job", str(job_file))
    assert created.code == 0, created.err
    assert "joined" in created.err
    assert "elastic-aws --local status digits --watch" in created.err
    status = local("--local", "status", "digits", "--json").json
    assert status["job"]["bounds"]["target"] == len(status["job"]["members"]) == len(status["instances"]) == 1
    assert [job["job"] for job in local("--local", "list", "--json").json] == ["digits"]

    again = local("--local", "create-job", str(job_file))
    assert (again.code, "nothing to do" in again.err) == (0, True)
    other = local("--local", "create-job", str(job_file), "--nodes", "1:2")
    assert other.code == ExitCode.USAGE
    assert 'nodes: {"min": 1, "max": 3, "target": 1} -> {"min": 1, "max": 2, "target": 1}' in other.err
    script.write_text(script.read_text() + "\n")
    other = local("--local", "create-job", str(job_file))
    assert (other.code, "the code's files changed" in other.err) == (ExitCode.USAGE, True)

    for asked, hint in (("4", "scale digits 4 --max 4"), ("0", "delete-job digits")):
        refused = local("--local", "scale", "digits", asked)
        assert (refused.code, hint in refused.err) == (ExitCode.USAGE, True)
    assert local("--local", "scale", "digits", "--max", "5").code == 0
    scaled = local("--local", "scale", "digits", "2")  # at once: the job has hardly taken up the first request
    assert (scaled.code, "bounds 1 to 5" in scaled.err) == (0, True)
    assert len(local("--local", "status", "digits", "--json").json["instances"]) in {1, 2}

    deleted = local("--local", "delete-job", "digits", "--yes")
    assert deleted.code == 0, deleted.err
    assert deleted.err.count("what remains") == 2
    assert "bundles/" in deleted.err
    assert "wheels/" in deleted.err
    assert local("--local", "status", "digits").code == ExitCode.NOT_FOUND
    assert local("local", "status", "--json").json["machines"] == []


def client(cloud: LocalCloudState, service: Any) -> Any:
    return boto3.client(
        service,
        region_name=cloud.region,
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(proxies={}),
    )


def test_an_agent_that_fails_again_and_again_says_so_and_altered_code_is_never_run(
    local: CommandLine, cloud: LocalCloudState, job_file: Path
) -> None:
    (job_file.parent / "code/train.py").write_text("open('/proc/self/altered')\n")
    assert local("--local", "create-job", str(job_file), "--detach").code == 0
    parameters = local("--local", "status", "digits", "--json").json["stack"]["parameters"]
    assert local("--local", "delete-job", "digits", "--yes").code == 0
    client(cloud, "s3").put_object(Bucket=parameters["Bucket"], Key=parameters["BundleKey"], Body=b"altered")
    created = local("--local", "create-job", str(job_file))
    assert (created.code, "is not what was uploaded" in created.err) == (ExitCode.JOB_FAILED, True)
    assert local("--local", "delete-job", "digits", "--yes").code == 0


def test_a_stack_of_somebody_else_is_left_alone(local: CommandLine, cloud: LocalCloudState, job_file: Path) -> None:
    stacks = client(cloud, "cloudformation")
    template = json.dumps({"Resources": {"Logs": {"Type": "AWS::Logs::LogGroup"}}})
    stacks.create_stack(StackName="elastic-aws-digits", TemplateBody=template)
    refused = local("--local", "create-job", str(job_file))
    assert (refused.code, "elastic-aws-digits exists that is no job" in refused.err) == (ExitCode.USAGE, True)
    assert local("--local", "delete-job", "digits", "--yes").code == ExitCode.NOT_FOUND
    assert stacks.describe_stacks(StackName="elastic-aws-digits")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"
    stacks.delete_stack(StackName="elastic-aws-digits")


def test_an_image_is_refused_where_there_is_no_container_engine(local: CommandLine, job_file: Path) -> None:
    refused = local("--local", "create-job", str(job_file), "--image", "some/image:1")
    assert (refused.code, "some/image:1" in refused.err) == (ExitCode.PREFLIGHT, True)
    assert local("--local", "list", "--json").json == []


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ('setup: ["echo hush; exit 3"]', "`echo hush; exit 3` ended with exit code 3"),
        ("preload: no_such_module", "no_such_module: ModuleNotFoundError"),
        ("venv: {requirements: [no-such-package-of-elastic-aws]}", "booting failed with exit code 1"),
    ],
)
def test_nodes_that_cannot_start_end_the_wait_with_the_reason_and_are_soon_gone(
    local: CommandLine, job_file: Path, lines: str, why: str
) -> None:
    job_file.write_text(job_file.read_text().replace("{drain_timeout: 1,", "{drain_timeout: 600,") + lines + "\n")
    created = local("--local", "create-job", str(job_file))
    assert created.code == ExitCode.JOB_FAILED
    assert why in created.err
    assert "try:   elastic-aws --local delete-job digits" in created.err
    status = local("--local", "status", "digits")
    assert "could not start" in status.out
    assert why in status.out
    started = time.monotonic()
    assert local("--local", "delete-job", "digits", "--yes").code == 0
    assert time.monotonic() - started < 300, "it waited for the drain of a node that never started"


def test_a_controller_that_is_killed_goes_on_with_the_jobs_history_and_time_limit(
    local: CommandLine, job_file: Path
) -> None:
    (job_file.parent / "code/train.py").write_text("import signal\nsignal.pause()\n")
    assert local("--local", "create-job", str(job_file), "--max-hours", "0.004").code == 0  # 14 s
    before = local("--local", "status", "digits", "--json").json["job"]
    machines = local("local", "status", "--json").json["machines"]
    (controller,) = [
        units["elastic-aws-controller.service"]["pid"]
        for units in (machine["units"] for machine in machines)
        if "elastic-aws-controller.service" in units
    ]
    os.kill(controller, signal.SIGKILL)

    def ended() -> dict[str, Any] | None:
        job: dict[str, Any] = local("--local", "status", "digits", "--json").json["job"]
        return job if job["outcome"] else None

    after = wait_until(ended, limit=timedelta(seconds=60), what="the end of the job's time")
    assert after["outcome"]["state"] == "stopped"
    assert "time limit" in after["outcome"]["reason"]
    assert (after["started"], after["rounds"][0]) == (before["started"], before["rounds"][0])

    def no_workers() -> bool:
        return local("--local", "status", "digits", "--json").json["instances"] == []

    wait_until(no_workers, limit=timedelta(seconds=60), what="the end of the machines")
    assert local("--local", "delete-job", "digits", "--yes").code == 0
