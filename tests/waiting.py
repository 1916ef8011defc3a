"""Waiting for a condition with a deadline: the only way a test lets time pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")

_PAUSE = 0.02


def wait_until(condition: Callable[[], T], *, limit: timedelta, what: str = "") -> T:
    """Return the condition's first true answer. Raises: AssertionError when the limit passes before."""
    deadline = time.monotonic() + limit.total_seconds()
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit.total_seconds():.0f} s: {what or condition}")
        time.sleep(_PAUSE)


async def until(condition: Callable[[], T], *, limit: timedelta, what: str = "") -> T:
    """`wait_until` on an event loop."""
    deadline = asyncio.get_running_loop().time() + limit.total_seconds()
    while True:
        if answer := condition():
            return answer
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {limit.total_seconds():.0f} s: {what or condition}")
        await asyncio.sleep(_PAUSE)
