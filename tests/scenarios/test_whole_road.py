"""One job through everything, on a local cloud of its own: real CLI, template, user-data, etcd, agents and workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import wait_until

SCRIPTS = Path(__file__).parent / "scripts"
SOON = timedelta(seconds=60)
JOB = "road"


class Road:
    """The CLI with a local cloud whose files are below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "cloud"
        self.signals = folder / "signals"
        self.signals.mkdir()
        self.file = folder / "job.yaml"
        code = folder / "code"
        code.mkdir()
        (code / "train.py").write_text((SCRIPTS / "train_until_told.py").read_text())
        lines = [f"name: {JOB}", "code: code", "script: train.py", "nodes: {min: 1, max: 3, target: 2}"]
        lines += ["instance_types: g5.xlarge", f"arguments: [{json.dumps(str(self.signals))}]"]
        self.file.write_text("\n".join([*lines, "preload: elastic_aws.training"]) + "\n")

    def cli(self, *arguments: str) -> str:
        environment = os.environ | {"ELASTIC_AWS_LOCAL_HOME": str(self.home)}
        command = [str(Path(sys.executable).parent / "elastic-aws"), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def job(self) -> dict[str, Any]:
        return dict(json.loads(self.cli("--local", "status", JOB, "--json"))["job"] or {})

    def wait(self, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The job's status once it fits and a step was made in its round."""
        seen: list[dict[str, Any]] = []

        def fits() -> bool:
            seen.append(self.job())
            return condition(seen[-1])

        try:
            wait_until(fits, limit=SOON, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen[-1]}\n{self.cli('--local', 'events', JOB)}") from error
        return seen[-1]

    def wait_training(self, world_size: int, after_round: int) -> dict[str, Any]:
        def fits(job: dict[str, Any]) -> bool:
            now, saved = job.get("round"), job.get("commit")
            if not now or not saved or now["phase"] != "running" or now["number"] <= after_round:
                return False
            return sum(seat["workers"] for seat in now["seats"]) == world_size and saved["round"] == now["number"]

        return self.wait(fits, f"a commit of a round of {world_size} after round {after_round}")


@pytest.fixture
def road(tmp_path: Path) -> Iterator[Road]:
    made = Road(tmp_path)
    made.cli("local", "up")
    try:
        yield made
    finally:
        made.cli("local", "down")
        wait_until(lambda: not family(made.home), limit=SOON, what="no process of the cloud is left")


def family(home: Path) -> list[str]:
    """Command lines of the processes that belong to the local cloud of this home."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(home) in process.environ().get("ELASTIC_AWS_ROOT", "") or str(home) in " ".join(process.cmdline()):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def strangers(home: Path) -> list[str]:
    """Connections of those processes to anything but loopback."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(home) not in process.environ().get("ELASTIC_AWS_ROOT", ""):
                continue
            peers = [connection.raddr.ip for connection in process.net_connections("inet") if connection.raddr]
            found += [peer for peer in peers if not peer.startswith(("127.", "::1", "::ffff:127."))]
        except psutil.Error:
            continue
    return found


def test_a_job_trains_on_through_reclaim_scale_out_scale_in_and_crash_until_it_succeeds(road: Road) -> None:
    road.cli("--local", "create-job", str(road.file))
    now = road.wait_training(2, 0)

    road.cli("--local", "interrupt", JOB, "--notice", "5")
    now = road.wait_training(2, now["round"]["number"] + 1)  # without it, then with its replacement
    assert [each["reason"] for each in now["rounds"]][:3] == ["first", "node_left", "nodes_joined"]

    road.cli("--local", "scale", JOB, "3")
    now = road.wait_training(3, now["round"]["number"])
    assert strangers(road.home) == []

    road.cli("--local", "scale", JOB, "2")
    now = road.wait_training(2, now["round"]["number"])
    assert now["rounds"][-1]["reason"] == "node_left"

    (road.signals / "crash").touch()
    now = road.wait_training(2, now["round"]["number"])
    assert now["rounds"][-1]["reason"] == "worker_failed"
    assert "asked to crash" in now["rounds"][-1]["detail"]

    (road.signals / "finish").touch()
    now = road.wait(lambda job: bool(job.get("outcome")), "the outcome")
    assert now["outcome"]["state"] == "succeeded"
    assert "from step 0" in road.cli("--local", "logs", JOB)

    road.cli("--local", "delete-job", JOB, "--yes")
    assert json.loads(road.cli("--local", "list", "--json")) == []
    machines = json.loads(road.cli("local", "status", "--json"))["machines"]
    assert [machine["id"] for machine in machines if machine["state"] == "running"] == []
