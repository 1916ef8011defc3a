"""Real workers, forked from a real fork server with torch."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from elastic_aws.agent.fork_server import ForkServer
from elastic_aws.agent.group_events import GroupDrained, GroupEvent, GroupFailed, GroupFinished, Seating
from elastic_aws.agent.worker_group import Launch, WorkerGroup
from elastic_aws.round_record import Endpoint
from tests.waiting import until, wait_until

SCRIPTS = Path(__file__).parent / "scripts"
PATIENCE = timedelta(seconds=60)
AWKWARD = ("two words", "a'b\"c", "$HOME `id` $(id)", "line\nbreak", "größe 数", "", "--flag=x;y", "*")


def launch_of(script: str, logs: Path, *, arguments: tuple[str, ...] = (), workers: int = 2) -> Launch:
    return Launch(
        code=SCRIPTS,
        script=SCRIPTS / script,
        arguments=arguments,
        environment={},
        preload=(),
        job="demo",
        run="r1",
        checkpoints="",
        workers=workers,
        logs=logs,
        stop_timeout=timedelta(seconds=2),
        node="node-1",
    )


async def start(group: WorkerGroup, workers: int = 2, number: int = 1, endpoint: Endpoint | None = None) -> None:
    endpoint = endpoint or await group.open_endpoint("127.0.0.1")
    seating = Seating(
        round=number,
        first_rank=0,
        world_size=workers,
        group_rank=0,
        group_world_size=1,
        endpoint=endpoint,
        restarts=number - 1,
        max_restarts=3,
    )
    await group.start(seating)


def with_group(launch: Launch, act: Callable[[WorkerGroup], Awaitable[None]]) -> None:
    async def run() -> None:
        group = WorkerGroup(launch, ForkServer())
        await group.preload()
        try:
            await act(group)
        finally:
            await group.close()

    asyncio.run(run())


async def ending(group: WorkerGroup) -> GroupEvent:
    return await asyncio.wait_for(group.events.get(), PATIENCE.total_seconds())


def test_a_torchrun_script_runs_unchanged_in_round_after_round_with_its_arguments_intact(tmp_path: Path) -> None:
    async def act(group: WorkerGroup) -> None:
        for number in (1, 2):
            await start(group, number=number)
            assert isinstance(await ending(group), GroupFinished)

    with_group(launch_of("sum_ranks.py", tmp_path, arguments=AWKWARD), act)
    for number in (1, 2):
        for rank in (0, 1):
            said, restart = (tmp_path / f"round-{number}/rank-{rank}.log").read_text().splitlines()[-2:]
            assert json.loads(said) == {"sum": 3, "world": 2, "arguments": list(AWKWARD)}
            assert restart == f"restart {number - 1}"


def test_a_failing_worker_is_named_with_its_traceback_and_the_others_end_at_once(tmp_path: Path) -> None:
    async def act(group: WorkerGroup) -> None:
        await start(group)
        failed = await ending(group)
        assert isinstance(failed, GroupFailed)
        assert (failed.failure.rank, failed.failure.exit_code) == (1, 1)
        assert failed.failure.message == "ValueError: the data is gone"
        assert "fail_on_rank_1.py" in failed.failure.traceback
        assert any("the data is gone" in line for line in failed.failure.log_tail)

    with_group(launch_of("fail_on_rank_1.py", tmp_path), act)


def test_drained_workers_are_told_apart_from_finished_ones(tmp_path: Path) -> None:
    async def act(group: WorkerGroup) -> None:
        await start(group)
        group.drain("scale-out")
        assert await ending(group) == GroupDrained(round=1, step=7)

    with_group(launch_of("stop_when_asked.py", tmp_path), act)


def test_a_drain_is_no_finish_even_when_workers_end_before_their_last_words_are_read(tmp_path: Path) -> None:
    async def act(group: WorkerGroup) -> None:
        await start(group)
        await until(lambda: len(list(tmp_path.glob("here-*"))) == 2, limit=PATIENCE)
        workers = _written_down(tmp_path)
        group.drain("scale-out")
        wait_until(lambda: not any(map(_alive, workers)), limit=PATIENCE)  # the event loop is kept busy meanwhile
        assert await ending(group) == GroupDrained(round=1, step=7)

    with_group(launch_of("stop_when_asked.py", tmp_path, arguments=(str(tmp_path),)), act)


def test_a_new_round_may_start_the_moment_a_failure_is_told(tmp_path: Path) -> None:
    async def act(group: WorkerGroup) -> None:
        endpoints = [await group.open_endpoint("127.0.0.1") for _ in range(2)]
        for number, endpoint in enumerate(endpoints, start=1):
            await start(group, number=number, endpoint=endpoint)
            assert isinstance(await ending(group), GroupFailed)

    with_group(launch_of("fail_on_rank_1.py", tmp_path), act)


PRELOADING = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from tests.scenarios.test_worker_group import launch_of
from elastic_aws.agent.fork_server import ForkServer, PreloadError
from elastic_aws.agent.worker_group import WorkerGroup

async def main():
    folder = Path(sys.argv[1])
    group = WorkerGroup(replace(launch_of("sum_ranks.py", folder), code=folder, preload=("broken",)), ForkServer())
    try:
        await group.preload()
    except PreloadError as error:
        print(error)
    finally:
        await group.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_module_that_cannot_be_preloaded_is_named_whatever_it_raises(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('boom')")
    program = tmp_path / "agent_program.py"
    program.write_text(PRELOADING)  # a process has one fork server, so this one needs its own
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(program), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "broken: ValueError: boom" in done.stdout


LATE = """
import asyncio, psutil, sys
from dataclasses import replace
from pathlib import Path
from tests.scenarios.test_worker_group import launch_of
from tests.waiting import until
from elastic_aws.agent.fork_server import ForkServer
from elastic_aws.agent.worker_group import WorkerGroup
from datetime import timedelta

def imports_torch():
    children = psutil.Process().children()
    return any("libtorch" in region.path for child in children for region in child.memory_maps())

async def main():
    folder = Path(sys.argv[1])
    forks = ForkServer()
    await until(imports_torch, limit=timedelta(seconds=60))
    if sys.argv[2]:
        (folder / sys.argv[2]).mkdir()
    group = WorkerGroup(replace(launch_of("sum_ranks.py", folder), code=folder, preload=("late",)), forks)
    await group.preload()
    await group.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize(("installed", "starts"), [("torch-9.dist-info", 2), ("", 1)])
def test_the_fork_server_starts_anew_if_the_set_up_installed_something(
    tmp_path: Path, installed: str, starts: int
) -> None:
    (tmp_path / "late.py").touch()
    (tmp_path / "sitecustomize.py").write_text(  # Python imports it at every start
        "import pathlib, sys\n"
        "if 'forkserver' in ' '.join(sys.orig_argv):\n"
        "    with (pathlib.Path(__file__).parent / 'starts').open('a') as file: file.write('x')\n"
    )
    program = tmp_path / "agent_program.py"
    program.write_text(LATE)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    command = [sys.executable, str(program), str(tmp_path), installed]
    subprocess.run(command, env=environment, timeout=60, check=True)
    assert len((tmp_path / "starts").read_text()) == starts


def test_workers_that_ignore_sigterm_are_killed_after_the_stop_timeout(tmp_path: Path) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(
        "import pathlib, signal, threading\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path / 'up')!r}).touch()\n"
        "threading.Event().wait()\n"
    )

    async def act(group: WorkerGroup) -> None:
        await start(group, workers=1)
        await asyncio.to_thread(wait_until, (tmp_path / "up").exists, limit=PATIENCE)
        await asyncio.wait_for(group.stop("test"), PATIENCE.total_seconds())
        assert group.events.empty()

    with_group(launch_of(str(script), tmp_path, workers=1), act)


AGENT = """
import asyncio, sys
from tests.scenarios.test_worker_group import launch_of, start
from elastic_aws.agent.fork_server import ForkServer
from elastic_aws.agent.worker_group import WorkerGroup
from pathlib import Path

async def main():
    group = WorkerGroup(launch_of("{script}", Path(sys.argv[1]), workers=1), ForkServer())
    await group.preload()
    assert "torch" not in sys.modules, "the agent must stay small"
    await start(group, workers=1)
    await asyncio.Event().wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_nothing_of_a_worker_outlives_a_killed_agent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, pathlib, subprocess, threading\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"file = pathlib.Path({str(tmp_path)!r})\n"
        "(file / 'new').write_text(f'{os.getpid()} {child.pid}')\n"
        "(file / 'new').rename(file / 'pids')\n"
        "threading.Event().wait()\n"
    )
    program = tmp_path / "agent_program.py"
    program.write_text(AGENT.format(script=script))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    agent = subprocess.Popen([sys.executable, str(program), str(tmp_path / "logs")], env=environment)
    try:
        pids = tmp_path / "pids"
        wait_until(lambda: pids.exists() or agent.poll() is not None, limit=PATIENCE)
        family = psutil.Process(agent.pid).children(recursive=True)
        family += [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    finally:
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    wait_until(lambda: not any(_alive(process) for process in family), limit=timedelta(seconds=10))


def _written_down(folder: Path) -> list[psutil.Process]:
    return [psutil.Process(int(file.read_text())) for file in folder.glob("here-*")]


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
