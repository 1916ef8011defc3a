"""The command line, away from this machine's own AWS settings and local cloud."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elastic_aws.local_cloud.state import HOME_VARIABLE
from tests.cli.command_line import CommandLine

JOB = """\
name: digits
script: train.py
code: code
nodes: {min: 1, max: 3, target: 1}
instance_types: [g5.xlarge]
workers_per_node: 1
timing: {drain_timeout: 1, stop_timeout: 1}
"""


@pytest.fixture
def elastic_aws(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandLine:
    """`elastic-aws` in an empty folder, with no credentials, no region and no local cloud."""
    for name in [*os.environ]:
        if name.startswith("AWS_") and name != "AWS_CA_BUNDLE":
            monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "no-cloud"))
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    """A good job file with its script."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text("print('hello')\n")
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    return file
