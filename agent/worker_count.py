"""How many workers a node runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from elastic_aws.errors import PreflightError

_NVIDIA = Path("/proc/driver/nvidia/gpus")
"""One folder a GPU, made by NVIDIA's driver. Counting there starts no CUDA in the agent."""


def gpu_count() -> int:
    """GPUs of this machine."""
    return len(list(_NVIDIA.iterdir())) if _NVIDIA.is_dir() else 0


def worker_count(asked: Literal["auto", "gpu"] | int) -> int:
    """`gpu`: one a GPU; `auto`: the same, or one where there is none; a number is itself.

    Raises: PreflightError for `gpu` on a machine without one.
    """
    if isinstance(asked, int):
        return asked
    gpus = gpu_count()
    if asked == "gpu" and not gpus:
        raise PreflightError(
            "this machine has no GPU", why="the job asks for one worker a GPU", hint="workers_per_node: auto"
        )
    return max(1, gpus)
