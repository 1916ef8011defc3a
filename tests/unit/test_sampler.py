from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_aws.training.sampler import ElasticSampler

SIZES = st.integers(min_value=1, max_value=200)
BATCHES = st.integers(min_value=1, max_value=64)
WORLDS = st.integers(min_value=1, max_value=9)


def world_of(dataset_size: int, global_batch: int, world_size: int) -> list[ElasticSampler]:
    return [
        ElasticSampler(dataset_size, global_batch=global_batch, rank=rank, world_size=world_size, seed=7)
        for rank in range(world_size)
    ]


@settings(deadline=None)  # the machine may be busy
@given(SIZES, BATCHES, st.lists(st.tuples(WORLDS, st.integers(min_value=0, max_value=9)), max_size=8), WORLDS)
def test_every_sample_comes_once_an_epoch_through_any_sequence_of_worlds(
    dataset_size: int, global_batch: int, changes: list[tuple[int, int]], last_world: int
) -> None:
    used: Counter[int] = Counter()
    cursor = 0
    for world_size, steps in [*changes, (last_world, dataset_size)]:
        samplers = world_of(dataset_size, global_batch, world_size)
        streams = [sampler.epoch(3, first=cursor) for sampler in samplers]
        for _, size in zip(range(steps), samplers[0].batch_sizes(first=cursor), strict=False):
            parts = [next(stream) for stream in streams]
            assert sum(map(len, parts)) == size
            used.update(index for part in parts for index in part)
            cursor += size
    assert used == Counter(range(dataset_size))


@settings(deadline=None)  # the machine may be busy
@given(SIZES, BATCHES, WORLDS)
def test_a_global_batch_holds_the_same_samples_in_every_world(
    dataset_size: int, global_batch: int, world_size: int
) -> None:
    alone = [set(part) for part in world_of(dataset_size, global_batch, 1)[0].epoch(0)]
    streams = [sampler.epoch(0) for sampler in world_of(dataset_size, global_batch, world_size)]
    together = [set().union(*parts) for parts in zip(*streams, strict=True)]
    assert together == alone


@settings(deadline=None)  # the machine may be busy
@given(SIZES, BATCHES, WORLDS)
def test_no_rank_gets_two_samples_more_than_another(dataset_size: int, global_batch: int, world_size: int) -> None:
    streams = [sampler.epoch(0) for sampler in world_of(dataset_size, global_batch, world_size)]
    for parts in zip(*streams, strict=True):
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_epochs_have_orders_of_their_own() -> None:
    sampler = ElasticSampler(100, global_batch=10, rank=0, world_size=1)
    assert sampler.order(0) != sampler.order(1)
    assert sampler.order(0) == sampler.order(0)


@pytest.mark.parametrize(("size", "batch", "rank", "world"), [(0, 1, 0, 1), (5, 0, 0, 1), (5, 1, 2, 2), (5, 1, 0, 0)])
def test_sizes_that_cannot_be_are_refused(size: int, batch: int, rank: int, world: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ElasticSampler(size, global_batch=batch, rank=rank, world_size=world)
