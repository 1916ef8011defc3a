"""Trains on and on, saving every few steps; fails once when the file `crash` appears, finishes when `finish` does."""

import sys
import threading
from pathlib import Path

import torch

from elastic_aws.training import Checkpointer, start

signals = Path(sys.argv[1])
run = start()
model = run.wrap(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
checkpointer = Checkpointer(run)
checkpointer.restore(model, optimizer)
print("from step", run.position.step, flush=True)
while True:
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    threading.Event().wait(0.02)  # what stands for a step's work
    run.step_done(samples=2, epoch=0, loss=0.0)
    if run.should_stop():
        checkpointer.save(model, optimizer)
        run.close()
        break
    if run.position.step % 20 == 0:
        if run.rank == 0 and (signals / "crash").exists():
            (signals / "crash").unlink()
            raise ValueError("asked to crash")
        done = torch.tensor([int((signals / "finish").exists())])
        if run.world_size > 1:
            torch.distributed.broadcast(done, 0, group=run.control)
        checkpointer.save(model, optimizer)
        if done.item():
            run.close()
            break
