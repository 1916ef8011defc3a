"""The agent of a worker node, from its start to its exit status."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path

from elastic_aws import __version__
from elastic_aws.agent.fork_server import ForkServer
from elastic_aws.agent.install import code_folder, install_code, run_setup
from elastic_aws.agent.interruption_watch import watch_interruptions
from elastic_aws.agent.log_shipping import LogShipper
from elastic_aws.agent.node import Node
from elastic_aws.agent.start_failure import forget
from elastic_aws.agent.worker_count import worker_count
from elastic_aws.agent.worker_group import Launch, WorkerGroup
from elastic_aws.aws.bucket import Bucket
from elastic_aws.aws.instance_metadata import Identity, InstanceMetadata
from elastic_aws.aws.lifecycle_hook import LifecycleHook
from elastic_aws.aws.session import AwsSession
from elastic_aws.errors import AwsError, ElasticAwsError, ExitCode
from elastic_aws.event_log import Emit, EventLog
from elastic_aws.events import AgentFailed, AgentStarted
from elastic_aws.node_config import NodeConfig
from elastic_aws.round_record import MemberRecord, StoreKeys
from elastic_aws.store.connect import connect

STORE_CALL_LIMIT = timedelta(seconds=2)


async def _run_node(config: NodeConfig, *, root: str, forks: ForkServer, identity: Identity, emit: Emit) -> ExitCode:
    """Install, preload, join the job and take part until it ends."""
    started = time.monotonic()
    logs = Path(f"{root}/var/log/elastic-aws")
    code = code_folder(config, root=root)
    environment = {
        "PYTHON": sys.executable,
        "AWS_REGION": config.region,
        "AWS_DEFAULT_REGION": config.region,
    } | config.environment
    launch = _launch(config, code=code, logs=logs, environment=environment, node=identity.instance_id)
    group = WorkerGroup(launch, forks)
    store = None
    try:
        bucket = Bucket(AwsSession.from_environment(config.region), config.bucket)
        await asyncio.to_thread(install_code, config, bucket=bucket, folder=code)
        log = logs / "agent.log"
        await asyncio.to_thread(run_setup, config, code=code, environment=environment, log=log, emit=emit)
        await group.preload()
        member = MemberRecord(
            node=identity.instance_id,
            address=identity.address,
            workers=worker_count(config.workers_per_node),
            endpoint=await group.open_endpoint(identity.address),
            zone=identity.zone,
            instance_type=identity.instance_type,
            incarnation=uuid.uuid4().hex[:8],
        )
        store = connect(config.store_endpoints, call_timeout=STORE_CALL_LIMIT)
        hook = LifecycleHook(region=config.region, group=config.workers_group, instance=identity.instance_id)
        node = Node(
            store=store,
            keys=StoreKeys(job=config.job),
            member=member,
            workers=group,
            timing=config.timing,
            emit=emit,
            complete_hook=lambda: _complete(hook),
            started=started,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, node.stop, f"the agent got {number.name}")
        watch = asyncio.create_task(
            watch_interruptions(InstanceMetadata.from_environment(), emit=emit, notify=node.interrupt)
        )
        forget(root)
        try:
            return await node.run()
        finally:
            watch.cancel()
    finally:
        await group.close()
        if store is not None:
            await store.close()


def _complete(hook: LifecycleHook) -> None:
    try:
        hook.complete()
    except AwsError as error:
        sys.stderr.write(f"{error}\n")  # the hook's own timeout ends the wait


def _launch(config: NodeConfig, *, code: Path, logs: Path, environment: dict[str, str], node: str) -> Launch:
    assert config.program is not None
    return Launch(
        code=code,
        script=code / config.program.script,
        arguments=config.program.arguments,
        environment=environment,
        preload=config.preload,
        job=config.job,
        run=config.run,
        checkpoints=config.checkpoints,
        workers=worker_count(config.workers_per_node),
        logs=logs,
        stop_timeout=config.timing.stop_timeout,
        node=node,
    )


def run_worker(config: NodeConfig, *, root: str, forks: ForkServer) -> ExitCode:
    """Run the agent until the job ends or the node leaves. Raises: ElasticAwsError."""
    logs = Path(f"{root}/var/log/elastic-aws")
    logs.mkdir(parents=True, exist_ok=True)
    identity = InstanceMetadata.from_environment().identity()
    with (logs / "events.jsonl").open("a") as stream:
        emit = EventLog(stream, node=identity.instance_id)
        shipper = LogShipper(config=config, root=root, node=identity.instance_id)
        shipper.start()
        try:
            emit(AgentStarted(version=__version__, address=identity.address))
            return asyncio.run(_run_node(config, root=root, forks=forks, identity=identity, emit=emit))
        except ElasticAwsError as error:
            emit(AgentFailed(why=str(error)))
            raise
        finally:
            shipper.stop()
