"""`make demo`: real elastic training on this machine, through a reclaimed instance and a scale-out.

Does what a person would type by hand, shows each command, and writes `.demo/report.json`. What it claims at its end is
derived from the job's events and its ledger, never from the commands it gave.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum, auto
from pathlib import Path
from typing import Any

from elastic_aws.errors import ElasticAwsError
from elastic_aws.event_log import LoggedEvent, from_line
from examples.imagenet.report import TRAINING_IMAGES, Ledger, not_shown, page, report_of
from examples.imagenet.story import Story
from examples.imagenet.telling import telling

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".demo"
CLOUD = FOLDER / "cloud"
REPORT = FOLDER / "report.json"
JOB_FILE = Path("examples/imagenet/job.local.yaml")
JOB = "digits"

RECLAIM_AFTER_EPOCHS = 2
NODES, MORE_NODES = 2, 3
"""What job.local.yaml starts with, and what the demo scales to."""
PATIENCE_SECONDS = 120.0
"""The demo gives up when nothing has happened for so long."""
COMMAND_LIMIT_SECONDS = 300.0
"""The slowest command, `create-job`, takes some ten seconds: after so long something is broken."""


class DemoError(Exception):
    """The demo did not go as it must."""


class Chapter(Enum):
    """What the demo has done to the job so far; proves nothing about what came of it."""

    UNDISTURBED = auto()
    RECLAIM_ASKED = auto()
    SCALE_OUT_ASKED = auto()


def environment() -> dict[str, str]:
    """The commands' environment: the demo has a local cloud of its own."""
    return os.environ | {"ELASTIC_AWS_LOCAL_HOME": str(CLOUD), "PYTHONUNBUFFERED": "1"}


def command(*arguments: str) -> list[str]:
    """The command line of one `elastic-aws` command."""
    return [str(Path(sys.executable).parent / "elastic-aws"), *arguments]


def run(*arguments: str) -> None:
    """Show a command, run it, and let its output through. Raises: DemoError."""
    print(f"\n$ elastic-aws {' '.join(arguments)}", flush=True)
    try:
        subprocess.run(command(*arguments), cwd=ROOT, env=environment(), check=True, timeout=COMMAND_LIMIT_SECONDS)
    except subprocess.CalledProcessError as error:
        raise DemoError(f"`elastic-aws {' '.join(arguments)}` ended with exit code {error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"`elastic-aws {' '.join(arguments)}` took over {COMMAND_LIMIT_SECONDS:.0f} s") from error


def read_json(arguments: list[str], **variables: str) -> dict[str, Any]:
    """What a command prints as JSON. Raises: DemoError."""
    done = subprocess.run(
        arguments, cwd=ROOT, env=environment() | variables, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise DemoError(f"`{' '.join(arguments)}` ended with exit code {done.returncode}: {done.stderr.strip()}")
    return dict(json.loads(done.stdout))


@contextmanager
def followed_events() -> Iterator[queue.Queue[LoggedEvent | None]]:
    """The job's events as `elastic-aws events --follow` tells them; None at its end."""
    events: queue.Queue[LoggedEvent | None] = queue.Queue()
    arguments = command("--local", "events", JOB, "--follow", "--json")
    process = subprocess.Popen(arguments, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)

    def pump() -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                events.put(from_line(line))
        finally:
            events.put(None)

    threading.Thread(target=pump, daemon=True).start()
    try:
        yield events
    finally:
        process.terminate()
        process.wait()


def train(story: Story, started: float) -> float | None:
    """Follow the job to its end, and disturb it on the way. Returns the seconds until its first step was seen."""
    chapter, first_step = Chapter.UNDISTURBED, None
    with followed_events() as events:
        while story.outcome is None:
            try:
                logged = events.get(timeout=PATIENCE_SECONDS)
            except queue.Empty as error:
                raise DemoError(f"nothing happened for {PATIENCE_SECONDS:.0f} s") from error
            if logged is None:
                raise DemoError("the event stream ended before the job did")
            story.take(logged)
            if first_step is None and story.gaps_seconds:
                first_step = time.monotonic() - started
            if line := telling(logged):
                print(f" {line}", flush=True)
            chapter = disturb(story, chapter)
    return first_step


def disturb(story: Story, chapter: Chapter) -> Chapter:
    """Reclaim an instance once training runs well; scale out once its replacement trains too."""
    if chapter is Chapter.UNDISTURBED and story.epoch >= RECLAIM_AFTER_EPOCHS:
        print("\n   Now AWS takes one of the two spot instances back, with its notice:", flush=True)
        run("--local", "interrupt", JOB, "--notice", "10")
        return Chapter.RECLAIM_ASKED
    if chapter is Chapter.RECLAIM_ASKED and story.lost() and story.world_size() == NODES:
        print("\n   The group replaced it. Now a third instance:", flush=True)
        run("--local", "scale", JOB, str(MORE_NODES))
        return Chapter.SCALE_OUT_ASKED
    return chapter


def audit() -> Ledger:
    """What the ledger of committed steps proves about the samples."""
    status = read_json(command("--local", "status", JOB, "--json"))
    cloud = json.loads((CLOUD / "state.json").read_text())
    aws = {
        "AWS_ENDPOINT_URL": cloud["endpoint_url"],
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": cloud["region"],
    }
    place = status["job"]["commit"]["place"]
    audited = read_json(
        [sys.executable, "-m", "elastic_aws.training.ledger", place, "--dataset-size", str(TRAINING_IMAGES)], **aws
    )
    return Ledger(
        samples_missed=audited["samples_missed"],
        samples_repeated=audited["samples_repeated"],
        epochs=len(audited["epochs"]),
    )


def clean_up() -> None:
    """Start from nothing. A demo that was killed may have left its cloud running."""
    if CLOUD.exists():
        subprocess.run(command("local", "down"), cwd=ROOT, env=environment(), check=False, capture_output=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()


def demo() -> None:
    """From an empty machine to the summary. Raises: DemoError when a promise was not kept."""
    clean_up()
    started, story = time.monotonic(), Story()
    print("Elastic training on an embedded cloud: the same CLI, templates, user-data and agent as on AWS.")
    try:
        run("local", "up")
        run("--local", "create-job", str(JOB_FILE))
        first_step = train(story, started)
        ledger = audit()
        run("--local", "delete-job", JOB, "--yes")
    finally:
        run("local", "down")
    total = time.monotonic() - started
    report = report_of(story, ledger, seconds_total=total, seconds_to_first_step=first_step)
    REPORT.write_text(json.dumps(asdict(report), indent=2) + "\n")
    if broken := not_shown(story, ledger):
        raise DemoError("; ".join(broken))
    print(page(report, ledger, job=JOB, file=str(REPORT.relative_to(ROOT))))


def main() -> int:
    """Run the demo. Returns 0 when everything went as promised."""
    try:
        demo()
    except (DemoError, ElasticAwsError) as error:
        print(f"\nerror: the demo failed: {error}\ntry:   less {FOLDER.name}/cloud/local-cloud.log", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nThe demo was interrupted; its cloud is down.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
