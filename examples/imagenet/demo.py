"""`make demo`: real elastic training on this machine, through a reclaimed instance and a scale-out.

Does what a person would type by hand, shows each command, and writes `.demo/report.json`.
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
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".demo"
JOB_FILE = Path("examples/imagenet/job.local.yaml")
JOB = "digits"
TRAINING_IMAGES = 1437
"""Size of the training split that `prepare_digits.py` writes, 80 % of scikit-learn's 1,797 digits."""

RECLAIM_AFTER_EPOCHS = 2
SCALE_AFTER_EPOCHS = 2
LEAST_ACCURACY = 95.0
"""Percent of the held-out digits that the trained model must recognize."""
PATIENCE_SECONDS = 120.0
"""The demo gives up when nothing has happened for so long."""


class DemoError(Exception):
    """The demo did not go as it must."""


@dataclass(kw_only=True)
class Story:
    """What the demo has seen so far."""

    started: float
    round: int = 0
    step: int = 0
    epoch: int = 0
    accuracy: float | None = None
    outcome: str = "unknown"
    first_step_at: float | None = None
    rounds: dict[int, dict[str, Any]] = field(default_factory=dict)
    gaps: dict[int, list[float]] = field(default_factory=dict)
    instances_lost: int = 0
    scale_outs: int = 0
    resumed_rounds: set[int] = field(default_factory=set)


def say(text: str, *, mark: str = " ") -> None:
    """Print one line of the story."""
    print(f" {mark} {text}", flush=True)


def environment() -> dict[str, str]:
    """The commands' environment: the demo has a local cloud of its own."""
    return os.environ | {"ELASTIC_AWS_LOCAL_HOME": str(FOLDER / "cloud"), "PYTHONUNBUFFERED": "1"}


def command(*arguments: str) -> list[str]:
    """The command line of one `elastic-aws` command."""
    return [str(Path(sys.executable).parent / "elastic-aws"), *arguments]


def run(*arguments: str) -> None:
    """Show a command, run it, and let its output through."""
    print(f"\n$ elastic-aws {' '.join(arguments)}", flush=True)
    done = subprocess.run(command(*arguments), cwd=ROOT, env=environment(), check=False)
    if done.returncode:
        raise DemoError(f"`elastic-aws {' '.join(arguments)}` ended with exit code {done.returncode}")


def read_json(*arguments: str) -> Any:
    """What a command with `--json` answers."""
    done = subprocess.run(command(*arguments), cwd=ROOT, env=environment(), check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def follow_events(events: queue.Queue[dict[str, Any] | None]) -> subprocess.Popen[str]:
    """Start `elastic-aws events --follow`, whose lines arrive in the queue; None at its end."""
    arguments = command("--local", "events", JOB, "--follow", "--json")
    process = subprocess.Popen(arguments, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)

    def pump() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            events.put(json.loads(line))
        events.put(None)

    threading.Thread(target=pump, daemon=True).start()
    return process


def note(story: Story, event: dict[str, Any]) -> None:
    """Take one event into the story, and tell it."""
    node = event["node"]
    match event["event"]:
        case "NodeJoined":
            say(f"{node} joined the job ({event['zone'] or 'no zone'}, {event['instance_type']})", mark="+")
        case "NodeLeft":
            say(f"{node} left: {event['reason']}", mark="-")
        case "InterruptionNoticed":
            say(f"{node} is told that AWS takes it back", mark="!")
        case "RoundDraining":
            say(f"round {event['round']} stops at an agreed step: {event['detail']}", mark="~")
        case "RoundFormed":
            story.round = event["round"]
            story.rounds[story.round] = {
                "number": event["round"],
                "world_size": event["world_size"],
                "reason": event["reason"],
            }
            size = event["world_size"]
            say(f"round {story.round}: {size} worker{'s' if size != 1 else ''} ({event['detail']})", mark="*")
        case "TrainingResumed":
            note_resumed(story, event)
        case "Progress":
            note_progress(story, event)
        case "WorkerFailed":
            failure = event["failure"]
            say(f"rank {failure['rank']} failed: {failure['message']}", mark="x")
        case "JobEnded":
            story.outcome = event["state"]
            say(f"the job ended: {event['state']} ({event['reason']})", mark="=")
        case _:
            pass


def note_resumed(story: Story, event: dict[str, Any]) -> None:
    """A node's first step in a round."""
    gap = event["gap"]
    if story.first_step_at is None:
        story.first_step_at = time.monotonic()
    if gap is not None:
        story.gaps.setdefault(event["round"], []).append(seconds(gap))
        say(f"training goes on at step {event['step']}, {seconds(gap):.2f} s without a step", mark=">")
    story.resumed_rounds.add(event["round"])


def note_progress(story: Story, event: dict[str, Any]) -> None:
    """How far training is."""
    story.step, story.epoch = event["step"], event["epoch"]
    metrics = event["metrics"]
    story.accuracy = metrics.get("val_top1", story.accuracy)
    parts = [f"epoch {story.epoch}", f"step {story.step}", f"{event['samples_per_second']:.0f} images/s"]
    if "loss" in metrics:
        parts.append(f"loss {metrics['loss']:.3f}")
    if story.accuracy is not None:
        parts.append(f"held-out accuracy {story.accuracy:.1f} %")
    say("  ".join(parts), mark=".")


def seconds(iso_duration: str) -> float:
    """Seconds of an ISO 8601 duration as events have it (`PT0.25S`, `PT1M2S`)."""
    return TypeAdapter(timedelta).validate_python(iso_duration).total_seconds()


def train(story: Story) -> None:
    """Follow the job to its end; reclaim an instance and scale out on the way."""
    events: queue.Queue[dict[str, Any] | None] = queue.Queue()
    follower = follow_events(events)
    try:
        while story.outcome == "unknown":
            try:
                event = events.get(timeout=PATIENCE_SECONDS)
            except queue.Empty as error:
                raise DemoError(f"nothing happened for {PATIENCE_SECONDS:.0f} s") from error
            if event is None:
                raise DemoError("the event stream ended before the job did")
            note(story, event)
            interfere(story)
    finally:
        follower.terminate()
        follower.wait()


def interfere(story: Story) -> None:
    """Reclaim an instance once training runs well; scale out once its replacement trains too."""
    if not story.instances_lost and story.epoch >= RECLAIM_AFTER_EPOCHS:
        story.instances_lost += 1
        print("\n   Now AWS takes one of the two spot instances back, with its notice:", flush=True)
        run("--local", "interrupt", JOB, "--notice", "10")
    full_again = story.round in story.resumed_rounds and story.rounds.get(story.round, {}).get("world_size") == 2
    if story.instances_lost and not story.scale_outs and story.round >= 3 and full_again:
        story.scale_outs += 1
        print("\n   The group replaced it. Now a third instance:", flush=True)
        run("--local", "scale", JOB, "3")


def audit() -> dict[str, Any]:
    """What the ledger of committed steps proves about the samples."""
    status = read_json("--local", "status", JOB, "--json")
    place = status["job"]["commit"]["place"]
    local = json.loads((FOLDER / "cloud" / "state.json").read_text())
    aws = {
        "AWS_ENDPOINT_URL": local["endpoint_url"],
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": local["region"],
    }
    arguments = [sys.executable, "-m", "elastic_aws.training.ledger", place, "--dataset-size", str(TRAINING_IMAGES)]
    done = subprocess.run(arguments, cwd=ROOT, env=environment() | aws, check=True, stdout=subprocess.PIPE)
    return dict(json.loads(done.stdout))


def report_of(story: Story, ledger: dict[str, Any]) -> dict[str, Any]:
    """What `.demo/report.json` holds. Seconds are counted from the demo's first line, set-up excluded."""
    rounds = [
        story.rounds[number] | {"seconds_without_step": round(max(story.gaps.get(number, [0.0])), 3)}
        for number in sorted(story.rounds)
    ]
    first = story.first_step_at
    return {
        "outcome": story.outcome,
        "val_accuracy": story.accuracy,
        "rounds": rounds,
        "instances_lost": story.instances_lost,
        "scale_outs": story.scale_outs,
        "samples_missed": ledger["samples_missed"],
        "samples_repeated": ledger["samples_repeated"],
        "seconds_total": round(time.monotonic() - story.started, 1),
        "seconds_to_first_step": None if first is None else round(first - story.started, 1),
    }


def summarize(report: dict[str, Any], ledger: dict[str, Any]) -> None:
    """The page that a person reads at the end."""
    print("\n" + "-" * 78)
    print(f" {JOB}: {report['outcome']}, {report['val_accuracy']:.1f} % of the held-out digits recognized")
    print(
        f" {report['seconds_total']:.0f} s in all, {report['seconds_to_first_step']:.1f} s to the first training step\n"
    )
    print("   round  workers  without a step   why")
    for row in report["rounds"]:
        gap = f"{row['seconds_without_step']:.2f} s" if row["seconds_without_step"] else "-"
        print(f"   {row['number']:>5}  {row['world_size']:>7}  {gap:>14}   {row['reason'].replace('_', ' ')}")
    print(f"\n {report['instances_lost']} instance reclaimed, {report['scale_outs']} scale-out.")
    print(f" Of {TRAINING_IMAGES} images in each of {len(ledger['epochs'])} epochs, {report['samples_missed']} missed")
    print(f" and {report['samples_repeated']} repeated (counted in the ledger of committed steps).")
    print(f" All of this again, as JSON: {FOLDER.name}/report.json")
    print("-" * 78)


def check(report: dict[str, Any]) -> None:
    """Raises: DemoError when the demo did not show what it promises."""
    if report["outcome"] != "succeeded":
        raise DemoError(f"the job {report['outcome']}")
    if report["val_accuracy"] is None or report["val_accuracy"] < LEAST_ACCURACY:
        raise DemoError(f"accuracy {report['val_accuracy']} % is under {LEAST_ACCURACY} %")
    if report["samples_missed"] or report["samples_repeated"]:
        raise DemoError(f"{report['samples_missed']} samples missed, {report['samples_repeated']} repeated")
    if not report["instances_lost"] or not report["scale_outs"]:
        raise DemoError("the job ended before an instance was reclaimed and a third one added")


def main() -> int:
    """Run the demo. Returns 0 when everything went as promised."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    story = Story(started=time.monotonic())
    print("Elastic training on an embedded cloud: the same CLI, templates, user-data and agent as on AWS.")
    try:
        run("local", "up")
        try:
            run("--local", "create-job", str(JOB_FILE))
            train(story)
            ledger = audit()
            run("--local", "delete-job", JOB, "--yes")
        finally:
            run("local", "down")
        report = report_of(story, ledger)
        (FOLDER / "report.json").write_text(json.dumps(report, indent=2) + "\n")
        check(report)
    except DemoError as error:
        print(f"\nerror: the demo failed: {error}\ntry:   less {FOLDER.name}/cloud/local-cloud.log", file=sys.stderr)
        return 1
    summarize(report, ledger)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
