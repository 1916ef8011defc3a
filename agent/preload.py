"""Imported by the fork server before it forks anything: what makes a worker's first step quick.

Importing torch takes 2-3 s and the first optimizer another 2 s (it imports some 890 modules); a forked worker has both.
It begins as soon as the agent does, beside the job's set-up commands, and waits for those before it imports anything of
the job. Nothing here may start a thread or touch CUDA: neither survives a fork.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

KNOWN_ORDER_VARIABLE = "ELASTIC_AWS_PRELOAD_KNOWN_ORDER"

FAILURES: list[str] = []
"""What the job asked to preload and could not be imported. The fork server itself would swallow it."""


def _installed() -> set[str]:
    """The distributions on the path, with their versions, by the names of their metadata folders."""
    folders = [Path(folder) for folder in sys.path if Path(folder).is_dir()]
    return {path.name for folder in folders for path in folder.iterdir() if path.suffix in {".dist-info", ".egg-info"}}


def _import_torch() -> None:
    import torch
    import torch.distributed
    import torch.nn.parallel

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def _wait_for_order(before: set[str]) -> str:
    """The order, once the node is set up. Starts this program anew if the set-up installed anything meanwhile."""
    from elastic_aws.agent.fork_server import ORDER_VARIABLE

    with Path(os.environ[ORDER_VARIABLE]).open() as fifo:
        order = fifo.readline()
    if not order:
        os._exit(1)  # the agent is gone
    if _installed() != before:
        os.environ[KNOWN_ORDER_VARIABLE] = order
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - this very program, with its descriptors
    return order


def _import_for_job(order: str) -> None:
    wanted = json.loads(order)
    sys.path.insert(0, wanted["code"])
    importlib.invalidate_caches()
    for name in wanted["modules"]:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - the border to the job's code, and the fork server must live to tell
            FAILURES.append(f"{name}: {type(error).__name__}: {error}")


_before = _installed()
_import_torch()
_import_for_job(os.environ.pop(KNOWN_ORDER_VARIABLE, "") or _wait_for_order(_before))
