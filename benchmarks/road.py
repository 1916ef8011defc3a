"""`make bench`: how long each stretch of the road takes on this machine, as a table.

Every figure is measured in this run, with the commands that a person types. Nothing is asserted: a machine that is busy
with other work shows greater figures.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
from pydantic import TypeAdapter

ROOT = Path(__file__).resolve().parents[1]
JOB = "digits"
JOB_FILE = "examples/imagenet/job.local.yaml"
PATIENCE = timedelta(seconds=120)
REPEATS = 7


class Road:
    """One local cloud with its home in `home`, and the CLI beside this Python."""

    def __init__(self, home: Path) -> None:
        self.environment = os.environ | {"ELASTIC_AWS_LOCAL_HOME": str(home)}
        self.home = home
        self.events: list[dict[str, Any]] = []
        self._follower: subprocess.Popen[str] | None = None

    def cli(self, *arguments: str) -> None:
        """Run a command to its end, its output hidden unless it fails."""
        command = [str(Path(sys.executable).parent / "elastic-aws"), *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"`elastic-aws {' '.join(arguments)}` failed:\n{done.stdout}{done.stderr}")

    def follow(self) -> None:
        """Collect the job's events from now on, each with the time it was seen."""
        command = [str(Path(sys.executable).parent / "elastic-aws"), "--local", "events", JOB, "--follow", "--json"]
        self._follower = subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        threading.Thread(target=self._collect, args=(self._follower,), daemon=True).start()

    def _collect(self, follower: subprocess.Popen[str]) -> None:
        assert follower.stdout is not None
        for line in follower.stdout:
            self.events.append(json.loads(line))

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event that fits."""
        deadline = time.monotonic() + PATIENCE.total_seconds()
        while time.monotonic() < deadline:
            found = next((event for event in list(self.events) if condition(event)), None)
            if found is not None:
                return found
            time.sleep(0.02)
        raise SystemExit(f"nothing within {PATIENCE.total_seconds():.0f} s; last event: {self.events[-1:]}")

    def close(self) -> None:
        """Stop following and end the cloud."""
        if self._follower is not None:
            self._follower.terminate()
            self._follower.wait()
        self.cli("local", "down")


def timed(command: list[str], environment: dict[str, str] | None = None) -> float:
    """Median seconds of the command over `REPEATS` runs after one that is not counted."""
    took = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        subprocess.run(
            command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        took.append(time.perf_counter() - started)
    return statistics.median(took[1:])


def gap_of(event: dict[str, Any]) -> float:
    """Seconds of a TrainingResumed event's gap."""
    return TypeAdapter(timedelta).validate_python(event["gap"]).total_seconds()


@contextmanager
def peak_memory(environment_mark: str) -> Iterator[dict[str, float]]:
    """Greatest sums of proportional memory over all processes that carry the mark, with and without torch.

    A process counts as torch's when libtorch is mapped into it. Sampled twice a second.
    """
    peak = {"all": 0.0, "without torch": 0.0}
    over = threading.Event()

    def sample() -> None:
        while not over.wait(0.5):
            everything = small = 0
            for process in psutil.process_iter():
                try:
                    if environment_mark not in " ".join(process.environ().values()):
                        continue
                    used = process.memory_full_info().pss
                    has_torch = any("libtorch" in region.path for region in process.memory_maps())
                except psutil.Error:
                    continue
                everything += used
                small += 0 if has_torch else used
            peak["all"] = max(peak["all"], everything / 1e9)
            peak["without torch"] = max(peak["without torch"], small / 1e9)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def road(home: Path) -> Iterator[tuple[str, float, str]]:
    """Create the demo's job, reclaim an instance, scale out; yield each figure with its limit."""
    on = Road(home)
    try:
        started = time.monotonic()
        on.cli("local", "up")
        yield "local up", time.monotonic() - started, "-"
        started = time.monotonic()
        on.cli("--local", "create-job", JOB_FILE)
        on.follow()
        on.wait(lambda event: event["event"] == "TrainingResumed")
        yield "create-job to first training step, 2 nodes", time.monotonic() - started, "15 s"
        on.wait(lambda event: event["event"] == "Progress" and event["epoch"] >= 1)
        before = max(event["round"] for event in on.events if event["event"] == "RoundFormed")
        on.cli("--local", "interrupt", JOB, "--notice", "5")
        resumed = on.wait(lambda event: event["event"] == "TrainingResumed" and event["round"] > before)
        yield "reclaimed instance: survivors without a step", gap_of(resumed), "2 s"
        on.wait(lambda event: event["event"] == "TrainingResumed" and event["round"] > resumed["round"])
        before = max(event["round"] for event in on.events if event["event"] == "RoundFormed")
        started = time.monotonic()
        on.cli("--local", "scale", JOB, "3")
        bigger = on.wait(
            lambda event: event["event"] == "TrainingResumed" and event["round"] > before and event["gap"] is not None
        )
        yield "scale to the first step of the bigger round", time.monotonic() - started, "6 s"
        yield "  of which training stood still", gap_of(bigger), "-"
    finally:
        on.close()


def main() -> None:
    """Print the table."""
    cli = str(Path(sys.executable).parent / "elastic-aws")
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    print(f"{'what':<52} {'measured':>10}   asked")
    print(f"{'elastic-aws --help':<52} {timed([cli, '--help']):>8.2f} s   0.2 s", flush=True)
    with tempfile.TemporaryDirectory() as out:
        took = timed([cli, "synth", JOB_FILE, "-o", out])
        print(f"{'elastic-aws synth':<52} {took:>8.2f} s   1 s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for what, took, asked in road(Path(folder) / "cloud"):
            print(f"{what:<52} {took:>8.2f} s   {asked}", flush=True)
    with peak_memory(str(ROOT / ".demo")) as peak:
        started = time.monotonic()
        subprocess.run([sys.executable, "-m", "examples.imagenet.demo"], cwd=ROOT, check=True, capture_output=True)
        took = time.monotonic() - started
    print(f"{'the whole demo':<52} {took:>8.2f} s   180 s")
    print(f"{'memory of all its processes that hold no torch':<52} {peak['without torch']:>7.2f} GB   1.5 GB")
    print(f"{'memory of all its processes, torch included':<52} {peak['all']:>7.2f} GB   -")


if __name__ == "__main__":
    main()
