"""Turns what workers report of their steps into events and the job's progress record."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from elastic_aws.errors import StoreError
from elastic_aws.event_log import Emit
from elastic_aws.events import Progress, TrainingResumed
from elastic_aws.round_record import ProgressRecord, RoundRecord, StoreKeys, encode
from elastic_aws.store.protocol import Put, Store
from elastic_aws.worker_channel import StepDone

INTERVAL = timedelta(seconds=2)
"""Between two progress reports of rank 0; what the script marks as important is not held back."""
LEAST_ELAPSED = timedelta(seconds=0.5)
"""A rate over less time than this is noise."""


class StepReports:
    """The step reports of this node's workers, round after round."""

    def __init__(self, *, store: Store, keys: StoreKeys, emit: Emit) -> None:
        self.newest = 0
        self._store = store
        self._keys = keys
        self._emit = emit
        self._round = 0
        self._resumed = False
        self._last_step_at: float | None = None
        self._said_at = 0.0
        self._said_samples: int | None = None
        self._rate = 0.0
        self._write: asyncio.Task[None] | None = None

    def begin(self, record: RoundRecord) -> None:
        """A round's workers were started."""
        self._round, self._resumed, self._said_samples = record.number, False, None
        self._said_at = time.monotonic()

    def take(self, number: int, rank: int, done: StepDone) -> None:
        """Take one report."""
        now = time.monotonic()
        self.newest = max(self.newest, done.step)
        if not self._resumed:
            self._resumed = True
            gap = None if self._last_step_at is None else timedelta(seconds=now - self._last_step_at)
            self._emit(TrainingResumed(round=number, step=done.step, gap=gap))
        self._last_step_at = now
        if rank == 0:
            self._report(number, done, now)

    def _report(self, number: int, done: StepDone, now: float) -> None:
        if self._said_samples is None:
            self._said_samples, self._said_at = done.samples, now
        elapsed = now - self._said_at
        if elapsed < INTERVAL.total_seconds() and not done.important:
            return
        if elapsed >= LEAST_ELAPSED.total_seconds():
            self._rate = (done.samples - self._said_samples) / elapsed
            self._said_samples, self._said_at = done.samples, now
        rate = self._rate
        self._emit(
            Progress(
                round=number,
                step=done.step,
                epoch=done.epoch,
                samples=done.samples,
                samples_per_second=rate,
                metrics=done.metrics,
            )
        )
        record = ProgressRecord(
            round=number, step=done.step, epoch=done.epoch, samples_per_second=rate, metrics=done.metrics
        )
        if self._write is None or self._write.done():
            self._write = asyncio.get_running_loop().create_task(self._put(record))

    async def _put(self, record: ProgressRecord) -> None:
        try:
            await self._store.transact([], [Put(key=self._keys.progress, value=encode(record))])
        except StoreError:
            return  # for people only: the next report tells more
