"""What an instance of the local cloud finds: its units, its metadata, its `aws`."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from elastic_aws.local_cloud.instance_facts import InstanceFacts
from elastic_aws.local_cloud.metadata_server import Request, Tokens, respond
from elastic_aws.local_cloud.metadata_tree import document
from elastic_aws.local_cloud.unit_file import UnitError, parse_unit, seconds

FACTS = InstanceFacts(
    id="i-1",
    image="ami-1",
    type="g5.xlarge",
    zone="us-west-2a",
    zone_id="usw2-az1",
    region="us-west-2",
    account="1",
    address="127.64.0.4",
    host_name="ip",
    launch_index=0,
    launched_at=datetime(2026, 1, 1, tzinfo=UTC),
    spot=True,
    user_data=b"\xff#!",
    interfaces=(),
    target_state="InService",
)


def test_a_unit_is_read_as_systemd_reads_it() -> None:
    text = """
[Service]
Environment="WORDS=a b" PLAIN=%%x
ExecStart=/bin/x "${WORDS}" $WORDS %n \\
  $$HOME
Restart=on-failure
RestartSec=1min 500ms
RestartPreventExitStatus=2 7
Colour=red
"""
    unit = parse_unit("x.service", text, environment={"PATH": "/bin"})
    assert unit.start[0].argv == ("/bin/x", "a b", "a", "b", "x.service", "$HOME")
    assert unit.environment == {"PATH": "/bin", "WORDS": "a b", "PLAIN": "%x"}
    assert [unit.restarts_after(code) for code in (0, 1, 2, 7, -9)] == [False, True, False, False, True]
    assert (unit.restart_seconds, unit.unknown) == (60.5, ("Colour",))
    assert seconds("infinity") == float("inf")
    with pytest.raises(UnitError, match="no ExecStart"):
        parse_unit("y.service", "[Service]\n", environment={})


def test_metadata_needs_a_token_that_holds() -> None:
    now = [0.0]
    tokens = Tokens(clock=lambda: now[0])

    def ask(method: str, path: str, **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = respond(Request(method=method, path=path, headers=named), facts=lambda: FACTS, tokens=tokens)
        return answer.status, answer.body

    assert ask("GET", "/latest/meta-data/instance-id")[0] == 401
    assert ask("PUT", "/latest/api/token", x_aws_ec2_metadata_token_ttl_seconds="99999")[0] == 400
    status, token = ask("PUT", "/latest/api/token", x_aws_ec2_metadata_token_ttl_seconds="60")
    assert status == 200
    assert ask("GET", "/latest/meta-data/instance-id", x_aws_ec2_metadata_token=token) == (200, "i-1")
    assert ask("GET", "/latest/meta-data/spot/instance-action", x_aws_ec2_metadata_token=token)[0] == 404
    now[0] = timedelta(seconds=61).total_seconds()
    assert ask("GET", "/latest/meta-data/instance-id", x_aws_ec2_metadata_token=token)[0] == 401


def test_metadata_shows_folders_and_keeps_bytes() -> None:
    assert document("meta-data/placement/region", FACTS) == "us-west-2"
    assert "availability-zone-id" in (document("meta-data/placement/", FACTS) or "").splitlines()
    assert (document("user-data", FACTS) or "").encode("utf-8", "surrogateescape") == b"\xff#!"
    assert json.loads(document("dynamic/instance-identity/document", FACTS) or "")["instanceId"] == "i-1"


def test_the_aws_stand_in_refuses_what_it_cannot() -> None:
    program = Path(__file__).parents[2] / "elastic_aws/local_cloud/stand_ins/aws.py"
    bare = {"PATH": os.defpath, "AWS_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}

    def aws(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, program, *words], capture_output=True, text=True, check=False, env=bare)

    assert (aws("s3", "sync", "a", "b").returncode, aws("ec2", "fly").returncode) == (252, 252)
    elsewhere = aws("s3", "cp", "s3://bucket/key", "-", "--endpoint-url", "http://192.0.2.1:80")
    assert elsewhere.returncode == 253
    assert "only talks to this computer" in elsewhere.stderr
