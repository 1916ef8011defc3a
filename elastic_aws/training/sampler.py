"""Every sample exactly once an epoch, through any sequence of world sizes."""

from __future__ import annotations

from collections.abc import Iterator

import torch


class ElasticSampler:
    """Permutes first, then slices by a global cursor, so that the order of samples does not depend on the world.

    One global batch is `global_batch` samples (the epoch's last one may be smaller); each rank takes every
    `world_size`-th of it. A rank's part may be smaller than another's, or empty in the last batch: weigh the loss by
    `len(part) * world_size / len(global batch)` and average over ranks (as DDP does), and the gradient is the mean over
    the global batch.
    """

    def __init__(
        self,
        dataset_size: int,
        *,
        global_batch: int,
        rank: int,
        world_size: int,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        if dataset_size < 1 or global_batch < 1 or not 0 <= rank < world_size:
            raise ValueError(f"{dataset_size=}, {global_batch=}, {rank=}, {world_size=}: sizes are at least 1")
        self.dataset_size = dataset_size
        self.global_batch = global_batch
        self._rank = rank
        self._world_size = world_size
        self._seed = seed
        self._shuffle = shuffle

    @property
    def steps_per_epoch(self) -> int:
        """Number of global batches in an epoch; the same in every world."""
        return -(-self.dataset_size // self.global_batch)

    def order(self, epoch: int) -> list[int]:
        """The whole epoch's dataset indices in order; the same on every rank."""
        if not self._shuffle:
            return list(range(self.dataset_size))
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        return list(torch.randperm(self.dataset_size, generator=generator).tolist())

    def epoch(self, epoch: int, *, first: int = 0) -> Iterator[list[int]]:
        """This rank's part of each global batch from sample `first` of the epoch on; usable as a batch sampler."""
        order = self.order(epoch)
        for begin in range(first, self.dataset_size, self.global_batch):
            yield order[begin : begin + self.global_batch][self._rank :: self._world_size]

    def batch_sizes(self, *, first: int = 0) -> Iterator[int]:
        """Size of each global batch from sample `first` on, in step with `epoch`."""
        for begin in range(first, self.dataset_size, self.global_batch):
            yield min(self.global_batch, self.dataset_size - begin)
