"""What the demo has seen, from the job's events alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from elastic_aws.event_log import LoggedEvent
from elastic_aws.events import (
    BoundsChanged,
    InterruptionNoticed,
    JobEnded,
    Progress,
    RoundFormed,
    TrainingResumed,
)
from elastic_aws.round_record import OutcomeState


@dataclass(frozen=True, kw_only=True)
class Resize:
    """The job's bounds were changed while `after_round` was the newest round."""

    target: int
    after_round: int


@dataclass(kw_only=True)
class Story:
    """Facts, each from an event. `gaps_seconds` has the rounds that made steps, with each survivor's time without."""

    rounds: dict[int, RoundFormed] = field(default_factory=dict)
    gaps_seconds: dict[int, list[float]] = field(default_factory=dict)
    taken_back: set[str] = field(default_factory=set)
    resizes: list[Resize] = field(default_factory=list)
    epoch: int = 0
    accuracy: float | None = None
    outcome: OutcomeState | None = None

    def take(self, logged: LoggedEvent) -> None:
        """Take one event."""
        match logged.event:
            case RoundFormed() as formed:
                self.rounds[formed.round] = formed
            case TrainingResumed(round=number, gap=gap):
                gaps = self.gaps_seconds.setdefault(number, [])
                gaps += [] if gap is None else [gap.total_seconds()]
            case InterruptionNoticed(source=source) if source != "rebalance":  # that one only recommends
                self.taken_back.add(logged.node)
            case BoundsChanged(target=target):
                self.resizes.append(Resize(target=target, after_round=self.newest_round))
            case Progress(epoch=epoch, metrics=metrics):
                self.epoch, self.accuracy = epoch, metrics.get("val_top1", self.accuracy)
            case JobEnded(state=state):
                self.outcome = state
            case _:
                pass

    @property
    def newest_round(self) -> int:
        """Its number; 0 before the first."""
        return max(self.rounds, default=0)

    def world_size(self) -> int:
        """Of the newest round, once it has made a step; 0 before."""
        return self.rounds[self.newest_round].world_size if self.newest_round in self.gaps_seconds else 0

    def lost(self) -> set[str]:
        """Nodes that had a seat, were told that AWS takes them back, and have no seat any more."""
        seated = {node for formed in self.rounds.values() for node in formed.nodes}
        now = self.rounds[self.newest_round].nodes if self.rounds else ()
        return self.taken_back & seated - set(now)

    def grown(self) -> list[RoundFormed]:
        """For each resize that shows: the first round after it that is greater than all before, and made steps."""
        found: dict[int, RoundFormed] = {}
        for resize in self.resizes:
            before = [formed.world_size for number, formed in self.rounds.items() if number <= resize.after_round]
            for number, formed in sorted(self.rounds.items()):
                if before and formed.world_size > max(before) and number in self.gaps_seconds:
                    found[number] = formed
                    break
        return list(found.values())
