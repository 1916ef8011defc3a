"""The ledger of committed steps: which samples were trained on, as lines beside the checkpoints; and its audit.

`python -m elastic_aws.training.ledger CHECKPOINT --dataset-size N` walks from a committed checkpoint back to the
start and counts, epoch by epoch, which samples are missing and which came twice. Work that was
lost with a round is not in it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from elastic_aws.errors import CheckpointError


@dataclass(frozen=True, kw_only=True)
class EpochAudit:
    """One epoch: how many samples were missed, and how many times one was used more than once."""

    epoch: int
    missed: int
    repeated: int


def ledger_name(checkpoint: str) -> str:
    """Where a checkpoint's part of the ledger is, below the checkpoints' root."""
    return f"ledger/{checkpoint}.jsonl"


def to_lines(parts: Iterable[tuple[int, int, Sequence[int]]]) -> bytes:
    """(step, epoch, indices) of all ranks as JSON lines, in order of steps."""
    lines = [
        json.dumps({"step": step, "epoch": epoch, "indices": list(indices)})
        for step, epoch, indices in sorted(parts, key=lambda part: part[0])
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def audit(lines: Iterable[str], *, dataset_size: int) -> tuple[EpochAudit, ...]:
    """Compare each epoch of the ledger with the whole dataset."""
    used: dict[int, Counter[int]] = {}
    for line in lines:
        entry = json.loads(line)
        used.setdefault(entry["epoch"], Counter()).update(entry["indices"])
    return tuple(
        EpochAudit(
            epoch=epoch,
            missed=len(set(range(dataset_size)) - set(counts)),
            repeated=sum(counts.values()) - len(counts),
        )
        for epoch, counts in sorted(used.items())
    )


def committed_lines(checkpoint: str) -> list[str]:
    """The ledger from the start up to a committed checkpoint. Raises: CheckpointError when a part is missing."""
    from elastic_aws.training.storage import storage_at

    root, _, name = checkpoint.rstrip("/").rpartition("/")
    storage = storage_at(root)
    lines: list[str] = []
    while name:
        ledger, manifest = storage.read(ledger_name(name)), storage.read(f"{name}/manifest.json")
        if ledger is None or manifest is None:
            raise CheckpointError("the ledger is not whole", why=f"nothing of {name} below {root}")
        lines += ledger.decode().splitlines()
        name = json.loads(manifest)["parent"].rpartition("/")[2]
    return lines


def main() -> int:
    """Print the audit as JSON."""
    parser = argparse.ArgumentParser(prog="python -m elastic_aws.training.ledger")
    parser.add_argument("checkpoint", help="place of a committed checkpoint, as `elastic-aws status --json` has it")
    parser.add_argument("--dataset-size", type=int, required=True)
    options = parser.parse_args()
    epochs = audit(committed_lines(options.checkpoint), dataset_size=options.dataset_size)
    report = {
        "samples_missed": sum(epoch.missed for epoch in epochs),
        "samples_repeated": sum(epoch.repeated for epoch in epochs),
        "epochs": [asdict(epoch) for epoch in epochs],
    }
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
