"""What `.demo/report.json` holds, what of it was promised, and the page that a person reads."""

from __future__ import annotations

from dataclasses import dataclass

from elastic_aws.round_record import OutcomeState
from examples.imagenet.story import Story

TRAINING_IMAGES = 1437
"""Size of the training split that `prepare_digits.py` writes, 80 % of scikit-learn's 1,797 digits."""
LEAST_ACCURACY = 95.0
"""Percent of the held-out digits that the trained model must recognize."""
LARGEST_WORLD = 3
"""Workers after the scale-out."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What the ledger of committed steps proves: samples missed and repeated over so many whole epochs."""

    samples_missed: int
    samples_repeated: int
    epochs: int


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """One round, and the longest time that one of its nodes was without a step before it."""

    number: int
    world_size: int
    reason: str
    seconds_without_step: float


@dataclass(frozen=True, kw_only=True)
class Report:
    """The fields of `report.json`. Seconds are counted from the demo's first line, set-up excluded."""

    outcome: str
    val_accuracy: float | None
    rounds: tuple[RoundRow, ...]
    instances_lost: int
    scale_outs: int
    samples_missed: int
    samples_repeated: int
    seconds_total: float
    seconds_to_first_step: float | None


def report_of(story: Story, ledger: Ledger, *, seconds_total: float, seconds_to_first_step: float | None) -> Report:
    """The report of a demo that came to its end."""
    rows = [
        RoundRow(
            number=number,
            world_size=formed.world_size,
            reason=str(formed.reason),
            seconds_without_step=round(max(story.gaps_seconds.get(number, []), default=0.0), 3),
        )
        for number, formed in sorted(story.rounds.items())
    ]
    return Report(
        outcome=str(story.outcome or "unknown"),
        val_accuracy=None if story.accuracy is None else round(story.accuracy, 2),
        rounds=tuple(rows),
        instances_lost=len(story.lost()),
        scale_outs=len(story.grown()),
        samples_missed=ledger.samples_missed,
        samples_repeated=ledger.samples_repeated,
        seconds_total=round(seconds_total, 1),
        seconds_to_first_step=None if seconds_to_first_step is None else round(seconds_to_first_step, 1),
    )


def not_shown(story: Story, ledger: Ledger) -> tuple[str, ...]:
    """What the demo promises and did not show; empty when all is well."""
    trained = {story.rounds[number].world_size for number in story.gaps_seconds if number in story.rounds}
    recognized = "nothing" if story.accuracy is None else f"{story.accuracy:.1f} %"
    whole = ledger.epochs >= max(1, story.epoch)
    promises = {
        f"the job {story.outcome or 'has no outcome'}": story.outcome is OutcomeState.SUCCEEDED,
        f"it recognizes {recognized}, not {LEAST_ACCURACY:.0f} %": (story.accuracy or 0.0) >= LEAST_ACCURACY,
        "no node of a round was taken back and left it": bool(story.lost()),
        "no greater round trained after the scale-out": bool(story.grown()),
        f"no round of {LARGEST_WORLD} workers made a step": LARGEST_WORLD in trained,
        f"the ledger has {ledger.epochs} of {story.epoch} epochs": whole,
        f"{ledger.samples_missed} samples were missed": ledger.samples_missed == 0,
        f"{ledger.samples_repeated} samples were repeated": ledger.samples_repeated == 0,
    }
    return tuple(broken for broken, kept in promises.items() if not kept)


def page(report: Report, ledger: Ledger, *, job: str, file: str) -> str:
    """The summary at the demo's end."""
    first = "no" if report.seconds_to_first_step is None else f"{report.seconds_to_first_step:.1f}"
    lines = [
        f"{job}: {report.outcome}, {report.val_accuracy or 0:.1f} % of the held-out digits recognized",
        f"{report.seconds_total:.0f} s in all, {first} s to the first training step",
        "",
        "  round  workers  without a step   why",
    ]
    for row in report.rounds:
        gap = f"{row.seconds_without_step:.2f} s" if row.seconds_without_step else "-"
        lines.append(f"  {row.number:>5}  {row.world_size:>7}  {gap:>14}   {row.reason.replace('_', ' ')}")
    lines += [
        "",
        f"{_counted(report.instances_lost, 'instance')} reclaimed, {_counted(report.scale_outs, 'scale-out')}.",
        f"Of {TRAINING_IMAGES} images in each of {ledger.epochs} epochs, {report.samples_missed} missed",
        f"and {report.samples_repeated} repeated (counted in the ledger of committed steps).",
        f"All of this again, as JSON: {file}",
    ]
    rule = "-" * 78
    return "\n".join(["", rule, *(f" {line}".rstrip() for line in lines), rule])


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
