"""How long things have been so, by the leader's own clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import timedelta

from elastic_aws.rendezvous.next_round import Seen
from elastic_aws.round_record import MemberState, RoundPhase


class Ages:
    """Remembers when the leader first saw what its decisions wait for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[str, tuple[Hashable, float]] = {}

    def added_to(self, seen: Seen) -> Seen:
        """The same, with its ages filled in."""
        now = seen.round
        enough = len(seen.usable) >= seen.bounds.min
        newest = max((member.created for member in seen.usable), default=0)
        draining = now.number if now and now.phase is RoundPhase.DRAINING else None
        failed = any(
            m.record.state is MemberState.FAILED and now and m.record.round == now.number for m in seen.members
        )
        return replace(
            seen,
            enough_for=self._age("enough", enough),
            arrived_for=self._age("arrived", newest),
            draining_for=self._age("draining", draining),
            failed_for=self._age("failed", (now.number if now else 0, failed)),
        )

    def _age(self, name: str, value: Hashable) -> timedelta:
        """How long it has had this value."""
        known = self._since.get(name)
        if known is None or known[0] != value:
            known = self._since[name] = (value, self._clock())
        return timedelta(seconds=self._clock() - known[1])
