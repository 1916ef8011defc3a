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
from dataclasses import asdict, dataclass

from elastic_aws.errors import CheckpointError
from elastic_aws.training.ledger_lines import ledger_name


@dataclass(frozen=True, kw_only=True)
class EpochAudit:
    """One epoch: how many samples were missed, and how many times one was used more than once."""

    epoch: int
    missed: int
    repeated: int


@dataclass(frozen=True, kw_only=True)
class Committed:
    """The ledger from the start up to a committed checkpoint, which stands in `epoch` at `sample`."""

    lines: tuple[str, ...]
    epoch: int
    sample: int


def audit(committed: Committed, *, dataset_size: int) -> tuple[EpochAudit, ...]:
    """Compare each finished epoch with the whole dataset, an unfinished one with as many samples as it claims."""
    used: dict[int, Counter[int]] = {}
    for line in committed.lines:
        entry = json.loads(line)
        used.setdefault(entry["epoch"], Counter()).update(entry["indices"])
    audits = []
    for epoch in range(max([committed.epoch - 1, *used]) + 1):
        counts = used.get(epoch, Counter())
        strangers = sum(1 for index in counts if not 0 <= index < dataset_size)
        expected = dataset_size if epoch < committed.epoch else committed.sample
        distinct = len(counts) - strangers
        repeated = sum(counts.values()) - distinct
        audits.append(EpochAudit(epoch=epoch, missed=max(0, expected - distinct), repeated=repeated))
    return tuple(audits)


def read_committed(checkpoint: str) -> Committed:
    """Walk from a committed checkpoint back to the start. Raises: CheckpointError when a part is missing."""
    from elastic_aws.training.storage import storage_at

    root, _, name = checkpoint.rstrip("/").rpartition("/")
    storage = storage_at(root)
    lines: list[str] = []
    position: dict[str, int] | None = None
    while name:
        ledger, manifest = storage.read(ledger_name(name)), storage.read(f"{name}/manifest.json")
        if ledger is None or manifest is None:
            raise CheckpointError("the ledger is not whole", why=f"nothing of {name} below {root}")
        lines += ledger.decode().splitlines()
        said = json.loads(manifest)
        position = position or said["position"]
        name = said["parent"].rpartition("/")[2]
    if position is None:
        raise CheckpointError("there is no ledger", why=f"{checkpoint!r} names no checkpoint")
    return Committed(lines=tuple(lines), epoch=position["epoch"], sample=position["sample"])


def main() -> int:
    """Print the audit as JSON."""
    parser = argparse.ArgumentParser(prog="python -m elastic_aws.training.ledger")
    parser.add_argument("checkpoint", help="place of a committed checkpoint, as `elastic-aws status --json` has it")
    parser.add_argument("--dataset-size", type=int, required=True)
    options = parser.parse_args()
    epochs = audit(read_committed(options.checkpoint), dataset_size=options.dataset_size)
    report = {
        "samples_missed": sum(epoch.missed for epoch in epochs),
        "samples_repeated": sum(epoch.repeated for epoch in epochs),
        "epochs": [asdict(epoch) for epoch in epochs],
    }
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
