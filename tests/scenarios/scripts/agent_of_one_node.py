"""A real node of a job without a cloud: real agent, fork server and workers; code and data lie on this machine.

`python -m tests.scenarios.scripts.agent_of_one_node STORE JOB NAME FOLDER SCRIPT ARGUMENTS...`; its logs and the
job's checkpoints go below FOLDER.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import timedelta
from pathlib import Path

from elastic_aws.agent.fork_server import ForkServer
from elastic_aws.agent.node import Node
from elastic_aws.agent.worker_group import Launch, WorkerGroup
from elastic_aws.errors import ExitCode
from elastic_aws.event_log import EventLog
from elastic_aws.node_config import Timing
from elastic_aws.round_record import MemberRecord, StoreKeys
from elastic_aws.store.connect import connect

HOST = "127.0.0.1"
PRELOAD = ("torchvision", "torchvision.transforms.v2", "elastic_aws.training")


def launch_of(job: str, name: str, folder: Path, script: Path, arguments: tuple[str, ...]) -> Launch:
    return Launch(
        code=script.parent,
        script=script,
        arguments=arguments,
        environment={"OMP_NUM_THREADS": "1"},  # the nodes share one machine
        preload=PRELOAD,
        job=job,
        run="r1",
        checkpoints=str(folder / "checkpoints"),
        workers=1,
        logs=folder / name,
        stop_timeout=timedelta(seconds=5),
        node=name,
    )


async def take_part(endpoint: str, launch: Launch) -> ExitCode:
    group = WorkerGroup(launch, ForkServer())
    store = connect([endpoint], call_timeout=timedelta(seconds=2))
    launch.logs.mkdir(parents=True)
    with (launch.logs / "events.jsonl").open("a") as stream:
        try:
            await group.preload()
            address = await group.open_endpoint(HOST)
            member = MemberRecord(
                node=launch.node, address=HOST, workers=1, endpoint=address, incarnation=f"only life of {launch.node}"
            )
            node = Node(
                store=store,
                keys=StoreKeys(job=launch.job),
                member=member,
                workers=group,
                timing=Timing(),
                emit=EventLog(stream, node=launch.node),
            )
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop, "the agent got SIGTERM")
            return await node.run()
        finally:
            await group.close()
            await store.close()


if __name__ == "__main__":
    at, job_name, node_name, below, program, *rest = sys.argv[1:]
    sys.exit(asyncio.run(take_part(at, launch_of(job_name, node_name, Path(below), Path(program), tuple(rest)))))
