"""What auto scaling groups depend on outside Auto Scaling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a group depends on outside Auto Scaling.

    `room` answers how many more spot instances the market gives, None for any number. `replacement_delay` answers how
    long a lost instance's place stays empty, None for ever. `wake` asks for a call of `tick` as soon as possible.
    """

    room: Callable[[], int | None]
    replacement_delay: Callable[[str], timedelta | None]
    wake: Callable[[], None]
