"""Several agents on one event loop with a real etcd; only their worker processes are fakes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta

import pytest

from elastic_aws.agent.interruption_watch import Interruption
from elastic_aws.agent.node import Node
from elastic_aws.errors import ExitCode
from elastic_aws.events import (
    CheckpointCommitted,
    CommitRefused,
    Event,
    NodeJoined,
    NodeLeft,
    RoundDraining,
    RoundFormed,
    StoreFound,
    StoreLost,
    WaitingForNodes,
    WorkerFailed,
    WorkersDrained,
    WorkersStarted,
)
from elastic_aws.node_config import Timing
from elastic_aws.round_record import (
    Bounds,
    CommitRecord,
    MemberRecord,
    OutcomeRecord,
    OutcomeState,
    RoundReason,
    StoreKeys,
    decode,
    encode,
)
from elastic_aws.store.connect import connect
from elastic_aws.store.protocol import Put, Store
from tests.fakes.etcd_server import EtcdServer, running_etcd
from tests.fakes.fake_workers import FakeWorkers
from tests.waiting import until

LIMIT = timedelta(seconds=15)
CALL_LIMIT = timedelta(seconds=1)
TIMING = Timing(
    lease=timedelta(seconds=2),
    first_round_wait=timedelta(seconds=60),
    join_window=timedelta(seconds=60),
    max_restarts=2,
)


class OneNode:
    """A node of the job with fake workers, on its own connection to the store."""

    def __init__(self, name: str, store: Store, keys: StoreKeys, *, number: int) -> None:
        self.name = name
        self.store = store
        self.workers = FakeWorkers(name)
        self._keys = keys
        self.events: list[Event] = []
        self.hook_completed = False
        self._number = number
        self.task: asyncio.Task[ExitCode]

    async def start(self) -> None:
        address = "127.0.0.1"
        endpoint = await self.workers.open_endpoint(address)
        member = MemberRecord(
            node=self.name, address=address, workers=1, endpoint=endpoint, incarnation=f"life {self._number}"
        )
        self.node = Node(
            store=self.store,
            keys=self._keys,
            member=member,
            workers=self.workers,
            timing=TIMING,
            emit=self.events.append,
            complete_hook=self._complete,
        )
        self.task = asyncio.create_task(self.node.run())

    def _complete(self) -> None:
        self.hook_completed = True

    def of(self, event_type: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, event_type)]


class Cluster:
    """A job's nodes and its store."""

    def __init__(self, etcd: EtcdServer, job: str) -> None:
        self.etcd = etcd
        self.keys = StoreKeys(job=job)
        self.store = self.connection()
        self.nodes: dict[str, OneNode] = {}

    def connection(self) -> Store:
        return connect([self.etcd.endpoint], call_timeout=CALL_LIMIT)

    async def set_bounds(self, *, min: int, max: int, target: int) -> None:  # noqa: A002 - the fields' words
        bounds = Bounds(min=min, max=max, target=target)
        await self.store.transact([], [Put(key=self.keys.bounds, value=encode(bounds))])

    async def join(self, *names: str) -> list[OneNode]:
        for name in names:
            node = OneNode(name, self.connection(), self.keys, number=len(self.nodes))
            self.nodes[name] = node
            await node.start()
        return [self.nodes[name] for name in names]

    async def train(self, number: int, *names: str) -> None:
        """Wait until exactly these nodes train in this round."""

        def there() -> bool:
            training = {name for name, node in self.nodes.items() if node.workers.alive}
            return training == set(names) and all(self.nodes[name].workers.round == number for name in names)

        await until(there, limit=LIMIT, what=f"round {number} of {names}")
        sizes = {self.nodes[name].workers.started[-1].world_size for name in names}
        ranks = {self.nodes[name].workers.started[-1].first_rank for name in names}
        assert (sizes, ranks) == ({len(names)}, set(range(len(names))))

    def of(self, event_type: type[Event]) -> list[Event]:
        return [event for node in self.nodes.values() for event in node.of(event_type)]

    def reasons(self) -> list[RoundReason]:
        formed = [event for event in self.of(RoundFormed) if isinstance(event, RoundFormed)]
        return [event.reason for event in sorted(formed, key=lambda event: event.round)]

    async def end(self, *names: str) -> set[ExitCode]:
        tasks = [self.nodes[name].task for name in names or self.nodes]
        async with asyncio.timeout(LIMIT.total_seconds()):
            return set(await asyncio.gather(*tasks))

    async def close(self) -> None:
        for node in self.nodes.values():
            node.task.cancel()
        await asyncio.gather(*(node.task for node in self.nodes.values()), return_exceptions=True)
        for node in self.nodes.values():
            await node.store.close()
        await self.store.close()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


def on_a_cluster(etcd: EtcdServer, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    job = f"job-{uuid.uuid4().hex[:8]}"  # every test has its own job in the one etcd

    async def whole() -> None:
        cluster = Cluster(etcd, job)
        try:
            await scenario(cluster)
        finally:
            await cluster.close()

    asyncio.run(whole())


def test_two_nodes_form_a_round_finish_and_the_job_succeeds(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=2, max=2, target=2)
        await cluster.join("a", "b")
        await cluster.train(1, "a", "b")
        for node in cluster.nodes.values():
            node.workers.finish()
        assert await cluster.end() == {ExitCode.DONE}
        outcome = await cluster.store.get(cluster.keys.outcome)
        assert outcome is not None
        assert decode(OutcomeRecord, outcome.value).state is OutcomeState.SUCCEEDED
        assert (await cluster.store.list(cluster.keys.members)).entries == ()
        assert len(cluster.of(NodeJoined)) == len(cluster.of(NodeLeft)) == len(cluster.of(WorkersStarted)) == 2

    on_a_cluster(etcd, scenario)


def test_scale_out_drains_and_continues_with_the_newcomer_at_once(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=1, max=3, target=2)
        await cluster.join("a", "b")
        await cluster.train(1, "a", "b")
        await cluster.set_bounds(min=1, max=3, target=3)
        await cluster.join("c")
        await cluster.train(2, "a", "b", "c")
        assert cluster.reasons() == [RoundReason.FIRST, RoundReason.NODES_JOINED]
        assert len(cluster.of(RoundDraining)) == 1
        assert len(cluster.of(WorkersDrained)) == 2

    on_a_cluster(etcd, scenario)


def test_an_interrupted_node_drains_leaves_and_lets_its_machine_go(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=1, max=3, target=3)
        _, leaver, _ = await cluster.join("a", "b", "c")
        await cluster.train(1, "a", "b", "c")
        began = asyncio.get_running_loop().time()
        leaver.node.interrupt(Interruption(source="auto scaling", action="terminate", seconds_left=None, hooked=True))
        await cluster.train(2, "a", "c")
        assert asyncio.get_running_loop().time() - began < 2.0
        assert await cluster.end("b") == {ExitCode.DONE}
        assert leaver.hook_completed
        assert cluster.reasons()[-1] is RoundReason.NODE_LEFT
        assert all(node.workers.drains for node in cluster.nodes.values())

    on_a_cluster(etcd, scenario)


def test_a_node_whose_drain_takes_longer_than_its_notice_leaves_before_its_machine_goes(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=1, max=2, target=2)
        leaver, _ = await cluster.join("a", "b")
        await cluster.train(1, "a", "b")
        for node in cluster.nodes.values():
            node.workers.deaf = True  # TIMING's own patience is longer than this test's
        leaver.node.interrupt(Interruption(source="spot", action="terminate", seconds_left=3, hooked=False))
        assert await cluster.end("a") == {ExitCode.DONE}

    on_a_cluster(etcd, scenario)


def test_the_leader_itself_can_be_interrupted(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=1, max=2, target=2)
        await cluster.join("a", "b")
        await cluster.train(1, "a", "b")
        leader = await cluster.store.get(cluster.keys.leader)
        assert leader is not None
        name = leader.value.decode()
        (other,) = cluster.nodes.keys() - {name}
        cluster.nodes[name].node.interrupt(
            Interruption(source="spot", action="terminate", seconds_left=120, hooked=False)
        )
        await cluster.train(2, other)
        assert await cluster.end(name) == {ExitCode.DONE}
        cluster.nodes[other].workers.finish()
        assert await cluster.end(other) == {ExitCode.DONE}

    on_a_cluster(etcd, scenario)


def test_a_node_that_vanishes_is_replaced_by_a_smaller_round_without_a_drain(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=1, max=3, target=3)
        await cluster.join("a", "b", "c")
        await cluster.train(1, "a", "b", "c")
        lost = cluster.nodes.pop("b")
        await lost.store.close()  # its lease runs out: the others learn of it from the store alone
        await cluster.train(2, "a", "c")
        assert cluster.reasons()[-1] is RoundReason.NODE_LOST or lost.of(RoundFormed)
        assert not cluster.of(RoundDraining)
        lost.task.cancel()
        await asyncio.gather(lost.task, return_exceptions=True)

    on_a_cluster(etcd, scenario)


def test_below_the_minimum_the_job_waits_and_goes_on_with_the_next_node(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=2, max=2, target=2)
        await cluster.join("a", "b")
        await cluster.train(1, "a", "b")
        cluster.nodes["b"].node.stop("the agent got SIGTERM")
        assert await cluster.end("b") == {ExitCode.DONE}
        await until(lambda: not cluster.nodes["a"].workers.alive, limit=LIMIT)
        await until(lambda: cluster.of(WaitingForNodes), limit=LIMIT, what="said that it waits")
        await cluster.join("c")
        await cluster.train(3, "a", "c")
        assert cluster.reasons()[-1] is RoundReason.ENOUGH_NODES_AGAIN

    on_a_cluster(etcd, scenario)


def test_a_worker_failure_starts_everyone_again_and_a_crash_loop_ends_the_job_with_its_cause(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=2, max=2, target=2)
        await cluster.join("a", "b")
        for number in (1, 2, 3):
            await cluster.train(number, "a", "b")
            assert cluster.nodes["a"].workers.started[-1].restarts == number - 1
            cluster.nodes["a"].workers.fail(exit_code=42)
        assert await cluster.end() == {ExitCode.JOB_FAILED}
        entry = await cluster.store.get(cluster.keys.outcome)
        assert entry is not None
        outcome = decode(OutcomeRecord, entry.value)
        assert (outcome.state, outcome.exit_code) == (OutcomeState.FAILED, 42)
        assert outcome.failure is not None
        assert outcome.failure.node == "a"
        assert len(cluster.of(WorkerFailed)) == 3

    on_a_cluster(etcd, scenario)


def test_a_commit_of_a_round_that_is_over_is_refused(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=1, max=2, target=1)
        (first,) = await cluster.join("a")
        await cluster.train(1, "a")
        assert await first.workers.commit(5) == (True, "")
        await cluster.set_bounds(min=1, max=2, target=2)
        await cluster.join("b")
        await cluster.train(2, "a", "b")
        committed, why = await first.workers.commit(9, of_round=1)
        assert not committed
        assert "round 1 is over" in why
        assert not (await first.workers.commit(4))[0]
        assert (await first.workers.commit(6))[0]
        entry = await cluster.store.get(cluster.keys.commit)
        assert entry is not None
        assert decode(CommitRecord, entry.value).step == 6
        assert (len(cluster.of(CheckpointCommitted)), len(cluster.of(CommitRefused))) == (2, 2)

    on_a_cluster(etcd, scenario)


def test_training_goes_on_while_the_store_is_away(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.set_bounds(min=2, max=2, target=2)
        await cluster.join("a", "b")
        await cluster.train(1, "a", "b")
        etcd.stop()
        await until(lambda: len(cluster.of(StoreLost)) == 2, limit=LIMIT, what="both miss the store")
        await asyncio.to_thread(etcd.start)
        await until(lambda: len(cluster.of(StoreFound)) == 2, limit=LIMIT, what="both found it again")
        await cluster.train(1, "a", "b")
        for node in cluster.nodes.values():
            node.workers.finish()
        assert await cluster.end() == {ExitCode.DONE}
        assert cluster.reasons() == [RoundReason.FIRST]

    on_a_cluster(etcd, scenario)
