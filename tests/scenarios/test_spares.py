"""A node without a seat: it waits, and ends with the job. Real agents and etcd, fake workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elastic_aws.errors import ExitCode
from elastic_aws.events import NodeJoined, NodeLeft
from tests.fakes.etcd_server import EtcdServer, running_etcd
from tests.scenarios.test_agents import LIMIT, Cluster, on_a_cluster
from tests.waiting import until


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


async def with_a_spare(cluster: Cluster) -> None:
    """Nodes `a` and `b` train; `spare` is a member without a seat."""
    await cluster.set_bounds(min=2, max=2, target=2)
    await cluster.join("a", "b")
    await cluster.train(1, "a", "b")
    (spare,) = await cluster.join("spare")
    await until(lambda: spare.of(NodeJoined), limit=LIMIT, what="the spare is a member")


def test_a_spare_exits_0_with_the_job_and_never_starts_workers(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await with_a_spare(cluster)
        for name in ("a", "b"):
            cluster.nodes[name].workers.finish()
        assert await cluster.end("spare") == {ExitCode.DONE}
        assert await cluster.end("a", "b") == {ExitCode.DONE}
        assert not cluster.nodes["spare"].workers.started
        assert [event for event in cluster.nodes["spare"].events if isinstance(event, NodeLeft)] == [
            NodeLeft(reason="the job succeeded")
        ]
        assert (await cluster.store.list(cluster.keys.members)).entries == ()

    on_a_cluster(etcd, scenario)


def test_a_spare_of_a_job_that_fails_says_so_with_its_exit_code(etcd: EtcdServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await with_a_spare(cluster)
        for number in (1, 2, 3):  # the cluster's timing allows two restarts
            await cluster.train(number, "a", "b")
            cluster.nodes["a"].workers.fail()
        assert await cluster.end("spare") == {ExitCode.JOB_FAILED}
        assert not cluster.nodes["spare"].workers.started

    on_a_cluster(etcd, scenario)
