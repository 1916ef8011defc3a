"""Watches the instance metadata for the end of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from elastic_aws.aws.instance_metadata import InstanceMetadata, MetadataError
from elastic_aws.event_log import Emit
from elastic_aws.events import InterruptionNoticed

INTERVAL = timedelta(seconds=0.5)
"""EC2 advises to look every 5 s; on a link-local address ten times as often costs nothing and saves the job seconds."""


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """The machine will go. `hooked`: auto scaling waits until it is told that the node has left."""

    source: str
    action: str
    seconds_left: float | None
    hooked: bool


async def watch_interruptions(
    metadata: InstanceMetadata, *, emit: Emit, notify: Callable[[Interruption], None], interval: timedelta = INTERVAL
) -> None:
    """Call `notify` once for each kind of notice. A rebalance recommendation is only reported: nothing ends yet."""
    told: set[str] = set()
    while True:
        try:
            notice = await asyncio.to_thread(_read, metadata, "rebalance" in told)
        except MetadataError:
            notice = None  # it answers again or the machine is gone
        if notice is not None and notice.source not in told:
            told.add(notice.source)
            emit(InterruptionNoticed(source=notice.source, action=notice.action, seconds_left=notice.seconds_left))
            if notice.source != "rebalance":
                notify(notice)
        await asyncio.sleep(interval.total_seconds())


def _read(metadata: InstanceMetadata, rebalance_told: bool) -> Interruption | None:
    if action := metadata.spot_action():
        left = _seconds_until(action[1])
        return Interruption(source="spot", action=action[0], seconds_left=left, hooked=False)
    if metadata.target_lifecycle_state() == "Terminated":
        return Interruption(source="auto scaling", action="terminate", seconds_left=None, hooked=True)
    if not rebalance_told and metadata.rebalance_recommended():
        return Interruption(source="rebalance", action="recommended", seconds_left=None, hooked=False)
    return None


def _seconds_until(moment: str) -> float | None:
    """By this machine's wall clock; for display only."""
    try:
        return max(0.0, (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
