"""Checkpoints that are committed: saved by all ranks together, then made the newest in one fenced step."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim import Optimizer

from elastic_aws.errors import CheckpointError
from elastic_aws.round_record import CommitRecord
from elastic_aws.training.ledger_lines import ledger_name, to_lines
from elastic_aws.training.position import Position
from elastic_aws.training.run import Run
from elastic_aws.training.storage import Storage, storage_at

CHECKPOINTS_VARIABLE = "ELASTIC_AWS_CHECKPOINTS"
DEFAULT_PLACE = "checkpoints"
NEWEST = "newest.json"
"""Names the newest checkpoint where no agent keeps that in the store."""


@contextlib.contextmanager
def _alone_on_purpose() -> Iterator[None]:
    """Without torch's warning that a world of one is a world of one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


class Checkpointer:
    """Saves and restores model, optimizer and position below `place` (a folder or `s3://...`).

    A checkpoint is a folder `step-<n>-round-<k>` of torch.distributed.checkpoint with a `manifest.json`. It counts once
    it is committed: through the agent, fenced by the round, or by `newest.json` where there is no agent.
    """

    def __init__(self, run: Run, place: str | None = None) -> None:
        self._run = run
        self._place = place or os.environ.get(CHECKPOINTS_VARIABLE) or DEFAULT_PLACE
        self._storage: Storage = storage_at(self._place)
        self._newest: CommitRecord | None = None

    def restore(self, model: nn.Module, optimizer: Optimizer) -> Position:
        """Load the newest committed checkpoint; the start of everything where there is none.

        Sets `run.position`, and returns it. Raises: CheckpointError when the checkpoint cannot be read.
        """
        self._newest = self._on_all(self._find_newest)
        if self._newest is None:
            return self._run.position
        name = self._newest.place.rsplit("/", 1)[1]
        manifest = json.loads(self._manifest(name, self._newest.digest))
        with tempfile.TemporaryDirectory() as folder:
            for file in manifest["files"]:
                self._storage.fetch(f"{name}/{file}", Path(folder) / file)
            state, optimizer_state = get_state_dict(model, optimizer)
            loaded: dict[str, Any] = {"model": state, "optimizer": optimizer_state}
            with _alone_on_purpose():
                dcp.load(loaded, storage_reader=dcp.FileSystemReader(folder), no_dist=True)
            set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
        self._run.position = Position(**manifest["position"])
        return self._run.position

    def save(self, model: nn.Module, optimizer: Optimizer) -> bool:
        """Save and commit; call it on all ranks at the same step.

        Returns whether the checkpoint is the newest now: False when this round is over and its work does not count.
        """
        position = self._run.position
        newest = self._newest
        if newest is not None and (newest.step, newest.epoch) == (position.step, position.epoch):
            return True
        number = self._run.link.round if self._run.link else 0
        name = f"step-{position.step}-round-{number}" + (f"-epoch-{position.epoch}" if not position.sample else "")
        state, optimizer_state = get_state_dict(model, optimizer)
        with tempfile.TemporaryDirectory() as folder:
            writer = dcp.FileSystemWriter(folder, single_file_per_rank=True)
            alone = self._run.control is None
            content = {"model": state, "optimizer": optimizer_state}
            with _alone_on_purpose():
                dcp.save(content, storage_writer=writer, process_group=self._run.control, no_dist=alone)
            files = sorted(path.name for path in Path(folder).iterdir())
            for file in files:
                self._storage.send(Path(folder) / file, f"{name}/{file}")
        gathered = self._gather((files, self._run.consumed))
        self._run.consumed = []
        committed = self._on_all(lambda: self._commit(name, number, gathered))
        if committed is not None:
            self._newest = committed
        return committed is not None

    def _commit(self, name: str, number: int, gathered: list[Any]) -> CommitRecord | None:
        """On rank 0, once every rank's files are there."""
        position = self._run.position
        self._storage.write(ledger_name(name), to_lines([part for _, parts in gathered for part in parts]))
        parent = self._newest.place if self._newest else ""
        files = sorted({file for names, _ in gathered for file in names})
        manifest = json.dumps({"position": asdict(position), "files": files, "parent": parent}).encode()
        self._storage.write(f"{name}/manifest.json", manifest)
        record = CommitRecord(
            round=number,
            step=position.step,
            place=f"{self._storage.root}/{name}",
            digest=hashlib.sha256(manifest).hexdigest(),
            epoch=position.epoch,
            samples=position.samples,
            parent=parent,
        )
        if self._run.link is None:
            self._storage.write(NEWEST, json.dumps(asdict(record)).encode())
            return record
        return record if self._run.link.commit(record).committed else None

    def _find_newest(self) -> CommitRecord | None:
        if self._run.link is not None:
            return self._run.link.newest()
        found = self._storage.read(NEWEST)
        return CommitRecord(**json.loads(found)) if found else None

    def _manifest(self, checkpoint: str, digest: str) -> bytes:
        content = self._needed(f"{checkpoint}/manifest.json")
        if hashlib.sha256(content).hexdigest() != digest:
            raise CheckpointError("the newest checkpoint is not the committed one", why=f"{checkpoint}: other digest")
        return content

    def _needed(self, name: str) -> bytes:
        content = self._storage.read(name)
        if content is None:
            raise CheckpointError("the newest checkpoint is not whole", why=f"{self._storage.root}/{name} is missing")
        return content

    def _gather(self, mine: object) -> list[Any]:
        if self._run.control is None:
            return [mine]
        everything: list[Any] | None = [None] * self._run.world_size if self._run.rank == 0 else None
        dist.gather_object(mine, everything, dst=0, group=self._run.control)
        return everything or []

    def _on_all(self, work: Any) -> Any:
        """Do the work on rank 0 and tell every rank its result."""
        if self._run.control is None:
            return work()
        result = [work() if self._run.rank == 0 else None]
        dist.broadcast_object_list(result, src=0, group=self._run.control)
        return result[0]
