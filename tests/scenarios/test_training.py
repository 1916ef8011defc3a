"""The training library without an agent: real processes, gloo, worlds of changing size."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch.distributed import TCPStore

SCRIPT = Path(__file__).parent / "scripts" / "train_tiny.py"
ROOT = Path(__file__).parents[2]
SAMPLES = 97
LIMIT = timedelta(seconds=120)


def start_world(size: int, *arguments: str) -> tuple[TCPStore, list[subprocess.Popen[str]]]:
    """Start the workers of one round, as torchrun would; the test hosts their TCP store."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    world = {
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(SCRIPT), *arguments]
    workers = [
        subprocess.Popen(
            command,
            env=os.environ | world | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    return store, workers


def run_world(size: int, *arguments: str) -> list[tuple[int, str]]:
    """(exit code, output) of each worker, by rank."""
    store, workers = start_world(size, *arguments)
    try:
        outputs = [worker.communicate(timeout=LIMIT.total_seconds())[0] for worker in workers]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        del store
    return [(worker.returncode, output) for worker, output in zip(workers, outputs, strict=True)]


def audit(place: Path) -> dict[str, object]:
    """What `python -m elastic_aws.training.ledger` says about the newest checkpoint."""
    newest = json.loads((place / "newest.json").read_text())["place"]
    command = [sys.executable, "-m", "elastic_aws.training.ledger", newest, "--dataset-size", str(SAMPLES)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def test_a_kill_a_drain_and_three_world_sizes_lose_nothing_and_change_nothing(tmp_path: Path) -> None:
    place = tmp_path / "checkpoints"
    weights = tmp_path / "weights.pt"
    common = (f"--place={place}", f"--weights={weights}")

    killed = run_world(2, *common, "--kill-at=12")
    assert killed[1][0] == -signal.SIGKILL
    assert killed[0][0] != 0, "the survivor must not wait for ever"

    drained = run_world(3, *common, "--ask-to-stop-at=17")
    assert [code for code, _ in drained] == [0, 0, 0], drained
    assert all("from step 10\n" in output for _, output in drained), "resumes at the newest checkpoint, mid-epoch"
    stops = {re.findall(r"stopped at step (\d+)", output)[0] for _, output in drained}
    assert len(stops) == 1, "all ranks stop on the same step"
    assert audit(place)["samples_missed"] == 0, "an unfinished epoch is held against what it claims"

    finished = run_world(1, *common)
    assert finished[0][0] == 0, finished[0][1]
    assert f"from step {stops.pop()}\n" in finished[0][1]
    report = audit(place)
    assert (report["samples_missed"], report["samples_repeated"]) == (0, 0)
    assert report["epochs"] == [{"epoch": epoch, "missed": 0, "repeated": 0} for epoch in range(3)]

    alone = tmp_path / "alone.pt"
    assert run_world(1, f"--place={tmp_path / 'other'}", f"--weights={alone}")[0][0] == 0
    for mine, undisturbed in zip(torch.load(weights), torch.load(alone), strict=True):
        torch.testing.assert_close(mine, undisturbed)
