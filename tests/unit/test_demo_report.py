"""What the demo claims at its end comes from events and the ledger, and a claim that is not shown fails it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from elastic_aws.event_log import LoggedEvent
from elastic_aws.events import (
    BoundsChanged,
    Event,
    InterruptionNoticed,
    JobEnded,
    Progress,
    RoundFormed,
    TrainingResumed,
)
from elastic_aws.round_record import OutcomeState, RoundReason
from examples.imagenet.report import Ledger, Report, not_shown, page, report_of
from examples.imagenet.story import Story
from examples.imagenet.telling import telling

WHOLE = Ledger(samples_missed=0, samples_repeated=0, epochs=15)

FIELDS_ASKED_FOR = {
    "outcome": None,
    "val_accuracy": None,
    "rounds": ("number", "world_size", "reason", "seconds_without_step"),
    "instances_lost": None,
    "scale_outs": None,
    "samples_missed": None,
    "samples_repeated": None,
    "seconds_total": None,
    "seconds_to_first_step": None,
}


def formed(number: int, reason: RoundReason, *nodes: str) -> tuple[str, Event]:
    return nodes[0], RoundFormed(round=number, world_size=len(nodes), nodes=nodes, reason=reason, detail="")


def trained(number: int, node: str, gap: float | None = None) -> tuple[str, Event]:
    return node, TrainingResumed(round=number, step=1, gap=None if gap is None else timedelta(seconds=gap))


def progress(epoch: int, **metrics: float) -> tuple[str, Event]:
    return "a", Progress(round=1, step=1, epoch=epoch, samples=1, samples_per_second=1.0, metrics=metrics)


def noticed(node: str, source: str = "spot") -> tuple[str, Event]:
    return node, InterruptionNoticed(source=source, action="terminate", seconds_left=10.0)


FIRST = [formed(1, RoundReason.FIRST, "a", "b"), trained(1, "a"), trained(1, "b"), progress(2, val_top1=80.0)]
RECLAIM = [noticed("b"), formed(2, RoundReason.NODE_LEFT, "a"), trained(2, "a", 0.4)]
REPLACEMENT = [formed(3, RoundReason.NODES_JOINED, "a", "c"), trained(3, "a", 0.7), trained(3, "c")]
RESIZE: list[tuple[str, Event]] = [("store", BoundsChanged(min=1, max=3, target=3))]
GREATER_FORMED = [formed(4, RoundReason.NODES_JOINED, "a", "c", "d")]
GREATER_TRAINED = [trained(4, "a", 0.9), trained(4, "c", 1.0), trained(4, "d")]
END = [progress(15, val_top1=99.44444274902344)]
SUCCESS: list[tuple[str, Event]] = [("store", JobEnded(state=OutcomeState.SUCCEEDED, reason="all finished"))]

DEMO = [*FIRST, *RECLAIM, *REPLACEMENT, *RESIZE, *GREATER_FORMED, *GREATER_TRAINED, *END, *SUCCESS]


def story_of(events: list[tuple[str, Event]]) -> Story:
    story = Story()
    for node, event in events:
        story.take(LoggedEvent(at=datetime(2026, 1, 1, tzinfo=UTC), node=node, event=event))
    return story


def report(events: list[tuple[str, Event]]) -> Report:
    return report_of(story_of(events), WHOLE, seconds_total=100.04, seconds_to_first_step=9.96)


def without(*left_out: tuple[str, Event]) -> list[tuple[str, Event]]:
    return [event for event in DEMO if event not in left_out]


def test_a_demo_that_shows_everything_passes() -> None:
    assert not_shown(story_of(DEMO), WHOLE) == ()
    found = report(DEMO)
    assert (found.instances_lost, found.scale_outs, found.outcome) == (1, 1, "succeeded")
    assert [row.seconds_without_step for row in found.rounds] == [0.0, 0.4, 0.7, 1.0]
    assert (found.val_accuracy, found.seconds_total, found.seconds_to_first_step) == (99.44, 100.0, 10.0)


def test_the_report_has_exactly_the_fields_asked_for() -> None:
    found = asdict(report(DEMO))
    assert list(found) == list(FIELDS_ASKED_FOR)
    assert {tuple(row) for row in found["rounds"]} == {FIELDS_ASKED_FOR["rounds"]}


@pytest.mark.parametrize(
    ("events", "broken"),
    [
        ([], "the job has no outcome"),
        (without(*SUCCESS), "the job has no outcome"),
        ([*without(*SUCCESS), ("store", JobEnded(state=OutcomeState.FAILED, reason="boom"))], "the job failed"),
        (without(noticed("b")), "no node of a round was taken back and left it"),
        ([*FIRST, noticed("b"), *RESIZE, *SUCCESS], "no node of a round was taken back and left it"),
        (without(*RESIZE), "no greater round trained after the scale-out"),
        (without(*GREATER_FORMED, *GREATER_TRAINED), "no greater round trained after the scale-out"),
        (without(*GREATER_TRAINED), "no round of 3 workers made a step"),
        (without(*END), "it recognizes 80.0 %, not 95 %"),
        (without(*END, FIRST[-1]), "it recognizes nothing, not 95 %"),
    ],
)
def test_what_the_events_do_not_show_fails_the_demo(events: list[tuple[str, Event]], broken: str) -> None:
    assert broken in not_shown(story_of(events), WHOLE)


@pytest.mark.parametrize(
    ("ledger", "broken"),
    [
        (Ledger(samples_missed=3, samples_repeated=0, epochs=15), "3 samples were missed"),
        (Ledger(samples_missed=0, samples_repeated=2, epochs=15), "2 samples were repeated"),
        (Ledger(samples_missed=0, samples_repeated=0, epochs=14), "the ledger has 14 of 15 epochs"),
        (Ledger(samples_missed=0, samples_repeated=0, epochs=0), "the ledger has 0 of 15 epochs"),
    ],
)
def test_what_the_ledger_does_not_prove_fails_the_demo(ledger: Ledger, broken: str) -> None:
    assert not_shown(story_of(DEMO), ledger) == (broken,)


def test_a_command_alone_counts_for_nothing() -> None:
    only_asked = [*FIRST, noticed("b"), *RESIZE]
    assert (report(only_asked).instances_lost, report(only_asked).scale_outs) == (0, 0)


def test_neither_a_spare_nor_a_rebalance_recommendation_is_an_instance_lost() -> None:
    assert report([*FIRST, noticed("spare"), *RECLAIM[1:]]).instances_lost == 0
    assert report([*FIRST, noticed("b", "rebalance"), *RECLAIM[1:]]).instances_lost == 0


def test_a_replacement_is_no_scale_out() -> None:
    assert report([*FIRST, *RESIZE, *RECLAIM, *REPLACEMENT]).scale_outs == 0


def test_the_first_round_is_no_scale_out() -> None:
    assert report([*RESIZE, *FIRST]).scale_outs == 0


def test_the_summary_says_what_was_counted() -> None:
    text = page(report(DEMO), WHOLE, job="digits", file=".demo/report.json")
    for part in ("99.4 %", "10.0 s to the first", "1 instance reclaimed, 1 scale-out.", "node left", "15 epochs"):
        assert part in text


def test_every_line_of_the_story_is_short_and_begins_with_its_mark() -> None:
    lines = [telling(LoggedEvent(at=datetime.now(UTC), node=node, event=event)) for node, event in DEMO]
    told = [line for line in lines if line]
    assert len(told) == len(DEMO) - 4, "a first step without a gap is no news"
    assert all(line[1] == " " and len(line) < 100 for line in told)
