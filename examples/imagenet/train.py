"""Train an image classifier, elastically: an ordinary DDP script with a handful of elastic_aws lines.

Runs under the agent of elastic-aws, under torchrun, or alone: `python train.py --data FOLDER`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from data import Images, held_out_images, training_images
from model import build
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own habit
from torch.utils.data import DataLoader

from elastic_aws.training import Checkpointer, ElasticSampler, Run, start


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train/ and val/, one folder a class")
    parser.add_argument("--arch", default="resnet50", help="a name of torchvision.models, or digits-small")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--global-batch", type=int, default=256, help="samples a step over the whole world")
    parser.add_argument("--lr", type=float, default=0.1, help="highest learning rate, for this global batch")
    parser.add_argument("--warm-up-epochs", type=float, default=5)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--side", type=int, default=224, help="width and height of the images")
    parser.add_argument("--no-flip", action="store_true", help="mirrored images are not the same class")
    parser.add_argument("--save-every", type=int, default=500, help="steps between two checkpoints")
    parser.add_argument("--loaders", type=int, default=4, help="data loading processes a worker")
    return parser.parse_args()


class Trainer:
    """One worker's model, data and optimizer."""

    def __init__(self, asked: argparse.Namespace, run: Run) -> None:
        self.asked = asked
        self.run = run
        self.data = training_images(asked.data / "train", asked.side, flip=not asked.no_flip)
        self.held_out = held_out_images(asked.data / "val", asked.side)
        network = build(asked.arch, len(self.data.classes))
        if run.device.type == "cuda":
            network = network.to(memory_format=torch.channels_last)
        self.model = run.wrap(network)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=asked.lr, momentum=asked.momentum, weight_decay=asked.weight_decay
        )
        self.sampler = ElasticSampler(
            len(self.data), global_batch=asked.global_batch, rank=run.rank, world_size=run.world_size
        )
        self.checkpointer = Checkpointer(run)

    def train(self) -> None:
        """Train from the newest checkpoint to the last epoch, or until asked to stop."""
        position = self.checkpointer.restore(self.model, self.optimizer)
        for epoch in range(position.epoch, self.asked.epochs):
            if not self.train_epoch(epoch, first=position.sample_in(epoch)):
                self.checkpointer.save(self.model, self.optimizer)
                break
            top1, top5 = self.validate()
            self.run.epoch_done(epoch, val_top1=top1, val_top5=top5)
            self.checkpointer.save(self.model, self.optimizer)
            if self.run.rank == 0:
                print(f"epoch {epoch}: top-1 {top1:.2f} %, top-5 {top5:.2f} %", flush=True)
        self.run.close()

    def train_epoch(self, epoch: int, *, first: int) -> bool:
        """Train from sample `first` of the epoch to its end; False when asked to stop before."""
        self.model.train()
        batches = zip(self.sampler.batch_sizes(first=first), self.batches(epoch, first), strict=True)
        for size, (images, labels, indices) in batches:
            self.set_learning_rate()
            loss = self.step(images, labels, share=len(indices) * self.run.world_size / size)
            self.run.step_done(samples=size, epoch=epoch, indices=indices.tolist(), loss=loss)
            if self.run.should_stop():
                return False
            if self.run.position.step % self.asked.save_every == 0:
                self.checkpointer.save(self.model, self.optimizer)
        return True

    def step(self, images: Tensor, labels: Tensor, *, share: float) -> Tensor:
        """One optimizer step. `share` makes DDP's mean over ranks the mean over the global batch."""
        images, labels = self.on_device(images), labels.to(self.run.device, non_blocking=True)
        on_gpu = self.run.device.type == "cuda"
        with torch.autocast(self.run.device.type, dtype=torch.bfloat16, enabled=on_gpu):
            loss = F.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        (loss * share).backward()
        self.optimizer.step()
        return loss.detach()

    def on_device(self, images: Tensor) -> Tensor:
        """The images where the model is, channels last on a GPU."""
        if self.run.device.type != "cuda":
            return images
        return images.to(self.run.device, non_blocking=True, memory_format=torch.channels_last)

    def batches(self, epoch: int, first: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """This rank's part of each global batch. An empty part is stood in for by one sample that counts nothing."""
        parts = list(self.sampler.epoch(epoch, first=first))
        for part, batch in zip(parts, self.loader(self.data, [part or [0] for part in parts]), strict=True):
            images, labels, indices = batch
            yield images, labels, indices if part else indices[:0]

    def loader(self, data: Images, parts: list[list[int]]) -> DataLoader[tuple[Tensor, Tensor, Tensor]]:
        """Loads the given samples, batch by batch."""
        on_gpu = self.run.device.type == "cuda"
        return DataLoader(data, batch_sampler=parts, num_workers=self.asked.loaders, pin_memory=on_gpu)

    def set_learning_rate(self) -> None:
        """Linear warm-up, then a half cosine. It depends on the step alone, not on the world."""
        per_epoch = self.sampler.steps_per_epoch
        step, total = self.run.position.step, self.asked.epochs * per_epoch
        warm_up = self.asked.warm_up_epochs * per_epoch
        if step < warm_up:
            factor = (step + 1) / warm_up
        else:
            factor = 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, total - warm_up)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.asked.lr * factor

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        """Percent of the held-out images whose class is the first guess, and among the first five."""
        self.model.eval()
        network = self.model.module if isinstance(self.model, nn.parallel.DistributedDataParallel) else self.model
        sampler = ElasticSampler(
            len(self.held_out),
            global_batch=self.asked.global_batch,
            rank=self.run.rank,
            world_size=self.run.world_size,
            shuffle=False,
        )
        counts = torch.zeros(3, device=self.run.device)
        for images, labels, _ in self.loader(self.held_out, [part for part in sampler.epoch(0) if part]):
            guesses = network(self.on_device(images)).topk(min(5, len(self.held_out.classes)), dim=1).indices
            right = guesses == labels.to(self.run.device)[:, None]
            counts += torch.stack([right[:, 0].sum(), right.sum(), torch.tensor(len(labels), device=self.run.device)])
        if self.run.world_size > 1:
            dist.all_reduce(counts)
        return (counts[0] / counts[2] * 100).item(), (counts[1] / counts[2] * 100).item()


def main() -> None:
    """Train."""
    asked = options()
    torch.manual_seed(0)
    run = start()
    Trainer(asked, run).train()


if __name__ == "__main__":
    main()
