"""What a round costs the store: a few operations an agent, however many agents there are. Real agents and etcd."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator

import pytest

from elastic_aws.agent.interruption_watch import Interruption
from elastic_aws.round_record import MemberRecord, MemberState, decode
from elastic_aws.store.protocol import Store
from tests.fakes.counting_store import CountingStore
from tests.fakes.etcd_server import EtcdServer, running_etcd
from tests.scenarios.test_agents import LIMIT, Cluster

SIZES = (2, 4, 16)
# Each limit is above what was counted, for a busy machine repeats a call, and below the greatest size.
MOST_TO_START = 14
"""Counted: 10 (grant, member, two keys listed and watched, the leader's key tried, read and watched, `running`)."""
MOST_A_ROUND = 6
"""Counted: 2 (`drained`, `running`), and for the leader 2 more (the round draining, the next round)."""
MOST_WITH_A_NEW_LEADER = 8
"""Counted: 5 (besides those 2, the leader's key tried, read and watched), and for the new leader 6."""


class CountedCluster(Cluster):
    """A cluster whose connections count."""

    def connection(self) -> Store:
        return CountingStore(super().connection())

    async def settled(self, number: int, *names: str) -> dict[str, int]:
        """Wait until the store has all that these nodes have to say of this round; operations so far, by node."""
        await self.train(number, *names)
        async for _ in self.store.watch(self.keys.members, after=1):
            if await self._all_said(number, len(names)):
                break
        return {name: len(self.operations(name)) for name in names}

    async def _all_said(self, number: int, count: int) -> bool:
        entries = (await self.store.list(self.keys.members)).entries
        members = [decode(MemberRecord, entry.value) for entry in entries]
        running = [each for each in members if (each.state, each.round) == (MemberState.RUNNING, number)]
        return len(running) == len(members) == count

    def operations(self, name: str) -> list[str]:
        store = self.nodes[name].store
        assert isinstance(store, CountingStore)
        return store.operations

    def since(self, before: dict[str, int], after: dict[str, int]) -> dict[str, list[str]]:
        """The operations of each node that was there before."""
        return {name: self.operations(name)[before[name] : after[name]] for name in before if name in after}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


def on_a_counted_cluster(etcd: EtcdServer, scenario: Callable[[CountedCluster], Awaitable[None]]) -> None:
    async def whole() -> None:
        cluster = CountedCluster(etcd, f"job-{uuid.uuid4().hex[:8]}")
        try:
            async with asyncio.timeout(4 * LIMIT.total_seconds()):
                await scenario(cluster)
        finally:
            await cluster.close()

    asyncio.run(whole())


def names_of(size: int) -> list[str]:
    return [f"node-{number:02}" for number in range(size)]


def assert_at_most(limit: int, operations: dict[str, list[str]]) -> None:
    for name, done in operations.items():
        assert len(done) <= limit, f"{name}: {done}"


@pytest.mark.parametrize("size", SIZES)
def test_joining_and_a_scale_out_cost_an_agent_as_much_among_many_as_among_few(etcd: EtcdServer, size: int) -> None:
    async def scenario(cluster: CountedCluster) -> None:
        old, newcomer = names_of(size), "newcomer"
        await cluster.set_bounds(min=1, max=size + 1, target=size)
        await cluster.join(*old)
        before = await cluster.settled(1, *old)
        assert_at_most(MOST_TO_START, {name: cluster.operations(name) for name in old})
        await cluster.set_bounds(min=1, max=size + 1, target=size + 1)
        await cluster.join(newcomer)
        after = await cluster.settled(2, *old, newcomer)
        assert_at_most(MOST_A_ROUND, cluster.since(before, after))
        assert_at_most(MOST_TO_START, {newcomer: cluster.operations(newcomer)})

    on_a_counted_cluster(etcd, scenario)


@pytest.mark.parametrize("size", SIZES)
def test_the_loss_of_the_leader_costs_a_survivor_as_much_among_many_as_among_few(etcd: EtcdServer, size: int) -> None:
    async def scenario(cluster: CountedCluster) -> None:
        await cluster.set_bounds(min=1, max=size, target=size)
        await cluster.join(*names_of(size))
        before = await cluster.settled(1, *names_of(size))
        held = await cluster.store.get(cluster.keys.leader)
        assert held is not None
        leader = held.value.decode()
        notice = Interruption(source="spot", action="terminate", seconds_left=120, hooked=False)
        cluster.nodes[leader].node.interrupt(notice)
        after = await cluster.settled(2, *(name for name in names_of(size) if name != leader))
        assert_at_most(MOST_WITH_A_NEW_LEADER, cluster.since(before, after))

    on_a_counted_cluster(etcd, scenario)
