"""Fit a small linear model, elastically. The command line says by step, never by the clock, what happens to it."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import torch

from elastic_aws.training import Checkpointer, ElasticSampler, start

SAMPLES = 97
GLOBAL_BATCH = 8
EPOCHS = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--ask-to-stop-at", type=int, default=0)
    asked = parser.parse_args()
    torch.manual_seed(0)
    inputs = torch.randn(SAMPLES, 5, dtype=torch.float64)
    targets = inputs @ torch.arange(1.0, 6.0, dtype=torch.float64)[:, None]
    run = start()
    model = run.wrap(torch.nn.Linear(5, 1, dtype=torch.float64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = ElasticSampler(SAMPLES, global_batch=GLOBAL_BATCH, rank=run.rank, world_size=run.world_size)
    checkpointer = Checkpointer(run, asked.place)
    position = checkpointer.restore(model, optimizer)
    print(f"from step {position.step}", flush=True)
    last_rank = run.rank == run.world_size - 1
    for epoch in range(position.epoch, EPOCHS):
        first = position.sample_in(epoch)
        for size, part in zip(sampler.batch_sizes(first=first), sampler.epoch(epoch, first=first), strict=True):
            chosen = part or [0]
            loss = torch.nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
            optimizer.zero_grad()
            (loss * (len(part) * run.world_size / size)).backward()
            optimizer.step()
            run.step_done(samples=size, epoch=epoch, indices=part, loss=loss)
            step = run.position.step
            if last_rank and step == asked.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if last_rank and step == asked.ask_to_stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
            if run.should_stop():
                checkpointer.save(model, optimizer)
                print(f"stopped at step {step}", flush=True)
                run.close()
                return
            if step % 5 == 0:
                checkpointer.save(model, optimizer)
        run.epoch_done(epoch)
        checkpointer.save(model, optimizer)
    if run.rank == 0:
        torch.save([parameter.detach() for parameter in model.parameters()], asked.weights)
    run.close()


if __name__ == "__main__":
    main()
