"""A worker's part in a round: its process group, its step boundary, its reports."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from elastic_aws.training.agent_link import AgentLink
from elastic_aws.training.position import Position
from elastic_aws.worker_channel import StepDone

REPORT_INTERVAL = timedelta(seconds=0.25)
"""Between two step reports to the agent."""


class Run:
    """This worker in the world of its round. Made by `start`; ended by `close`.

    `rank`, `world_size` and `local_rank` are this round's; `device` is where the model and the data belong;
    `position` is how far the whole job is.
    """

    def __init__(self, *, device: torch.device, rank: int, local_rank: int, world_size: int) -> None:
        self.device = device
        self.rank = rank
        self.local_rank = local_rank
        self.world_size = world_size
        self.position = Position()
        self.link = AgentLink.from_environment(rank=rank, local_rank=local_rank)
        self.control: dist.ProcessGroup | None = None
        self.consumed: list[tuple[int, int, list[int]]] = []
        self._flag = torch.zeros(1, dtype=torch.int32)
        self._agreement: dist.Work | None = None
        self._stop = threading.Event()
        self._stopped = False
        self._reported_at = 0.0
        self._metrics: dict[str, float] = {}
        if world_size > 1:
            self.control = dist.new_group(backend="gloo")
        if self.link is None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: self._stop.set())

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model on this worker's device, with gradients averaged over the world."""
        model = model.to(self.device)
        if self.world_size == 1:
            return model
        ids = [self.device.index] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=ids)

    def step_done(
        self, *, samples: int, epoch: int, indices: list[int] | None = None, **metrics: float | torch.Tensor
    ) -> None:
        """One step of the whole world is done, over `samples` samples in all.

        `indices` are the dataset indices that this rank trained on: they go into the ledger of the next checkpoint.
        `metrics` are shown by `elastic-aws status`; tensors are read only when a report is due.
        """
        before = self.position
        done_in_epoch = before.sample_in(epoch) + samples
        self.position = Position(
            step=before.step + 1, epoch=epoch, sample=done_in_epoch, samples=before.samples + samples
        )
        if indices is not None:
            self.consumed.append((self.position.step, epoch, indices))
        if time.monotonic() - self._reported_at >= REPORT_INTERVAL.total_seconds():
            self._report(metrics, important=False)

    def epoch_done(self, epoch: int, **metrics: float | torch.Tensor) -> None:
        """An epoch is over, validation included; its metrics are shown at once."""
        now = self.position
        self.position = Position(step=now.step, epoch=epoch + 1, sample=0, samples=now.samples)
        self._report(metrics, important=True)

    def _report(self, metrics: dict[str, Any], *, important: bool) -> None:
        self._reported_at = time.monotonic()
        self._metrics |= {name: float(value) for name, value in metrics.items()}
        if self.link is not None:
            now = self.position
            self.link.step(
                StepDone(
                    step=now.step,
                    samples=now.samples,
                    epoch=now.epoch,
                    metrics=self._metrics,
                    important=important,
                )
            )

    def should_stop(self) -> bool:
        """Whether to stop now: the same answer on every rank at the same step.

        Call it once a step, on every rank. Each call reads what all ranks said at the call before, and waits for
        nobody.
        """
        asked = self._stop.is_set() or (self.link is not None and self.link.drain_asked.is_set())
        if self.control is None:
            self._stopped = asked
            return asked
        if self._agreement is not None:
            self._agreement.wait()
            if self._flag.item():
                self._stopped = True
                self._agreement = None
                return True
        self._flag.fill_(int(asked))
        self._agreement = dist.all_reduce(self._flag, op=dist.ReduceOp.MAX, group=self.control, async_op=True)
        return False

    def close(self) -> None:
        """End this worker's part. After a stop that was asked for, tell the agent that state is saved."""
        if self._agreement is not None:
            self._agreement.wait()
        if self.link is not None:
            self._report({}, important=False)
            if self._stopped:
                self.link.drained(self.position.step)
        if dist.is_initialized():
            dist.barrier(self.control)
            dist.destroy_process_group()
        if self.link is not None:
            self.link.close()


def start() -> Run:
    """Join the round: by torchrun's environment variables, or alone where there are none."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if "RANK" not in os.environ:
        return Run(device=device, rank=0, local_rank=0, world_size=1)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    return Run(device=device, rank=dist.get_rank(), local_rank=local_rank, world_size=dist.get_world_size())
