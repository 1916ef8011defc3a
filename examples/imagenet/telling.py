"""How the demo tells each event, as one line with a mark before it."""

from __future__ import annotations

from elastic_aws.event_log import LoggedEvent
from elastic_aws.events import (
    BoundsChanged,
    Event,
    InterruptionNoticed,
    JobEnded,
    NodeJoined,
    NodeLeft,
    Progress,
    RoundDraining,
    RoundFormed,
    TrainingResumed,
    WorkerFailed,
)


def telling(logged: LoggedEvent) -> str | None:
    """The line, or None when the event is not worth one."""
    return _of_a_node(logged.node, logged.event) or _of_the_job(logged.event) or _of_training(logged.event)


def _of_a_node(node: str, event: Event) -> str | None:
    match event:
        case NodeJoined(zone=zone, instance_type=instance_type):
            return f"+ {node} joined the job ({zone or 'no zone'}, {instance_type})"
        case NodeLeft(reason=reason):
            return f"- {node} left: {reason}"
        case InterruptionNoticed():
            return f"! {node} is told that AWS takes it back"
        case _:
            return None


def _of_the_job(event: Event) -> str | None:
    match event:
        case BoundsChanged(min=least, max=most, target=target):
            return f"~ the job may now have {least} to {most} nodes and wants {target}"
        case WorkerFailed(failure=failure):
            return f"x rank {failure.rank} failed: {failure.message}"
        case JobEnded(state=state, reason=reason):
            return f"= the job ended: {state} ({reason})"
        case _:
            return None


def _of_training(event: Event) -> str | None:
    match event:
        case RoundDraining(round=number, detail=detail):
            return f"~ round {number} stops at an agreed step: {detail}"
        case RoundFormed(round=number, world_size=size, detail=detail):
            return f"* round {number}: {size} worker{'' if size == 1 else 's'} ({detail})"
        case TrainingResumed(step=step, gap=gap) if gap is not None:
            return f"> training goes on at step {step}, {gap.total_seconds():.2f} s without a step"
        case Progress() as progress:
            return f". {_progress(progress)}"
        case _:
            return None


def _progress(progress: Progress) -> str:
    parts = [f"epoch {progress.epoch}", f"step {progress.step}", f"{progress.samples_per_second:.0f} images/s"]
    if "loss" in progress.metrics:
        parts.append(f"loss {progress.metrics['loss']:.3f}")
    if "val_top1" in progress.metrics:
        parts.append(f"held-out accuracy {progress.metrics['val_top1']:.1f} %")
    return "  ".join(parts)
