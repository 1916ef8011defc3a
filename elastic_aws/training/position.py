"""Where training stands: what a checkpoint says beside the tensors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Position:
    """Progress of the whole job. `step` and `samples` count from its start, `sample` is the place in the epoch."""

    step: int = 0
    epoch: int = 0
    sample: int = 0
    samples: int = 0

    def sample_in(self, epoch: int) -> int:
        """Number of samples of this epoch that are done already."""
        return self.sample if epoch == self.epoch else 0
