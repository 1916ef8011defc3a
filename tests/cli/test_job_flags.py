"""Every part of a job that people change from run to run has a flag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from elastic_aws.errors import ExitCode
from tests.cli.command_line import CommandLine, Done
from tests.cli.test_without_a_cloud import texts

IN_FILE = """\
setup: [echo file]
environment: {A: 1, B: 010}
venv: {requirements: [timm==1.0.9]}
"""


def workers_config(done: Done) -> Any:
    """What a worker's node is configured with."""
    lines = (line for text in texts(done.json) for line in text.splitlines())
    return next(json.loads(line) for line in lines if '"role":"worker"' in line)


def with_fields(job_file: Path) -> str:
    job_file.write_text(job_file.read_text() + IN_FILE)
    return str(job_file)


def test_the_file_holds_where_no_flag_is_given(elastic_aws: CommandLine, job_file: Path) -> None:
    config = workers_config(elastic_aws("synth", with_fields(job_file)))
    assert config["setup"] == ["echo file"]
    assert config["environment"] == {"A": "1", "B": "010"}
    assert config["runtime"] == {"kind": "venv", "python": "/opt/pytorch/bin/python", "requirements": ["timm==1.0.9"]}


def test_setup_commands_replace_the_files_in_their_order(elastic_aws: CommandLine, job_file: Path) -> None:
    done = elastic_aws("synth", with_fields(job_file), "--setup", "pip install 'a b'", "--setup", "true")
    assert workers_config(done)["setup"] == ["pip install 'a b'", "true"]


def test_a_variable_replaces_its_like_and_leaves_the_others(elastic_aws: CommandLine, job_file: Path) -> None:
    done = elastic_aws("synth", with_fields(job_file), "--env", "B=$x=\n'1'", "--env", "C=")
    assert workers_config(done)["environment"] == {"A": "1", "B": "$x=\n'1'", "C": ""}


def test_each_part_of_the_venv_has_a_flag(elastic_aws: CommandLine, job_file: Path) -> None:
    done = elastic_aws("synth", with_fields(job_file), "--venv-python", "/usr/bin/python3")
    assert workers_config(done)["runtime"] == {
        "kind": "venv",
        "python": "/usr/bin/python3",
        "requirements": ["timm==1.0.9"],
    }


def test_requirements_replace_the_files(elastic_aws: CommandLine, job_file: Path) -> None:
    done = elastic_aws("synth", with_fields(job_file), "--requirement", "a==1", "--requirement", "b")
    assert workers_config(done)["runtime"]["requirements"] == ["a==1", "b"]


def test_flags_make_what_the_file_does_not_have(elastic_aws: CommandLine, job_file: Path) -> None:
    flags = ["--env", "A=1", "--venv-python", "/p", "--requirement", "a", "--setup", "true"]
    config = workers_config(elastic_aws("synth", str(job_file), *flags))
    assert config["environment"] == {"A": "1"}
    assert config["runtime"] == {"kind": "venv", "python": "/p", "requirements": ["a"]}
    assert config["setup"] == ["true"]


def test_create_job_takes_the_same_flags(elastic_aws: CommandLine, job_file: Path) -> None:
    flags = ["--env", "A=1", "--venv-python", "here", "--requirement", "a", "--setup", "true"]
    done = elastic_aws("--local", "create-job", str(job_file), *flags)
    assert done.code == ExitCode.USAGE
    assert "venv.python is 'here'" in done.err
