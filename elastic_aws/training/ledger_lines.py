"""How the ledger is written: one JSON line for every step and rank, one file for every checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence


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
