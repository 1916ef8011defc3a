"""The thread that keeps the groups of all regions at their desired capacity."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from elastic_aws.local_cloud.scaling_groups import ScalingGroups


class GroupKeeper:
    """The thread that ticks the groups of all regions when something changed or a deadline has come."""

    def __init__(self, *, lock: threading.RLock, regions: Callable[[], list[ScalingGroups]]) -> None:
        self._lock = lock
        self._regions = regions
        self._changed = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="group keeper", daemon=True)

    def start(self) -> None:
        """Begin to keep the groups."""
        self._thread.start()

    def wake(self) -> None:
        """Something changed."""
        self._changed.set()

    def close(self) -> None:
        """Launch and end nothing any more."""
        self._ended = True
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._changed.wait(self._patience())
            self._changed.clear()
            if self._ended:
                return
            with self._lock:
                for region in self._regions():
                    region.tick()

    def _patience(self) -> float | None:
        with self._lock:
            deadlines = [when for region in self._regions() if (when := region.deadline()) is not None]
        finite = [when for when in deadlines if when != float("inf")]
        return max(0.0, min(finite) - time.monotonic()) if finite else None
