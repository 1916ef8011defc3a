"""One worker, in this process, with a fake agent at the other end of its channel."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import nn

from elastic_aws.errors import CheckpointError
from elastic_aws.training import Checkpointer, Position, Run
from elastic_aws.training.agent_link import AgentLink
from elastic_aws.worker_channel import Drained, Hello
from tests.fakes.agent_socket import FakeAgent
from tests.waiting import wait_until

SOON = timedelta(seconds=10)


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """Short: a UNIX socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ea-") as folder:
        yield Path(folder) / "agent.sock"


@pytest.fixture
def agent(socket_path: Path) -> Iterator[FakeAgent]:
    fake = FakeAgent(socket_path)
    yield fake
    fake.close()


def worker(path: Path, *, round_number: int = 4) -> Run:
    run = Run(device=torch.device("cpu"), rank=0, local_rank=0, world_size=1)
    run.link = AgentLink(str(path), round=round_number, rank=0, local_rank=0)
    return run


def training(weight: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model with this weight, and an optimizer that has momentum."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    return model, optimizer


def do_step(run: Run) -> None:
    run.step_done(samples=2, epoch=0, indices=[0, 1])


def restored(place: Path, record: object) -> tuple[Position, float]:
    """Position and weight that a worker of a later round finds."""
    with tempfile.TemporaryDirectory(prefix="ea-") as folder:
        fake = FakeAgent(Path(folder) / "agent.sock")
        fake.newest = record  # type: ignore[assignment] # a CommitRecord, or None
        run = worker(Path(folder) / "agent.sock", round_number=5)
        model, optimizer = training(0.0)
        position = Checkpointer(run, str(place)).restore(model, optimizer)
        run.close()
        fake.close()
    return position, float(next(model.parameters()).item())


def test_a_committed_checkpoint_is_what_the_next_round_starts_from(
    agent: FakeAgent, socket_path: Path, tmp_path: Path
) -> None:
    run = worker(socket_path)
    do_step(run)
    assert Checkpointer(run, str(tmp_path)).save(*training(3.0))
    run.close()
    assert agent.newest is not None
    assert (agent.newest.round, agent.newest.step) == (4, 1)
    assert restored(tmp_path, agent.newest) == (Position(step=1, epoch=0, sample=2, samples=2), 3.0)


def test_a_round_that_is_over_commits_nothing(agent: FakeAgent, socket_path: Path, tmp_path: Path) -> None:
    run = worker(socket_path)
    checkpointer = Checkpointer(run, str(tmp_path))
    do_step(run)
    assert checkpointer.save(*training(3.0))
    agent.round_is_over = True
    do_step(run)
    assert not checkpointer.save(*training(8.0))
    run.close()
    assert restored(tmp_path, agent.newest) == (Position(step=1, epoch=0, sample=2, samples=2), 3.0)


def test_a_manifest_that_was_not_committed_is_refused(agent: FakeAgent, socket_path: Path, tmp_path: Path) -> None:
    run = worker(socket_path)
    do_step(run)
    Checkpointer(run, str(tmp_path)).save(*training(3.0))
    run.close()
    assert agent.newest is not None
    with pytest.raises(CheckpointError, match="other digest"):
        restored(tmp_path, replace(agent.newest, digest="0" * 64))


def test_a_drain_order_ends_in_drained_with_the_saved_step(agent: FakeAgent, socket_path: Path, tmp_path: Path) -> None:
    run = worker(socket_path)
    do_step(run)
    assert not run.should_stop()
    agent.drain()
    wait_until(run.should_stop, limit=SOON)
    Checkpointer(run, str(tmp_path)).save(*training(1.0))
    run.close()
    heard = [agent.heard.get(timeout=10)]
    while not isinstance(heard[-1], Drained):
        heard.append(agent.heard.get(timeout=10))
    assert isinstance(heard[0], Hello)
    assert heard[-1] == Drained(step=1)


def test_a_request_to_an_agent_that_is_gone_fails_at_once(socket_path: Path) -> None:
    fake = FakeAgent(socket_path)
    run = worker(socket_path)
    fake.heard.get(timeout=10)
    fake.close()
    assert run.link is not None
    with pytest.raises(CheckpointError, match="agent is gone"):
        run.link.newest()
