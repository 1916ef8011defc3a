"""Imported by the fork server before it forks anything: what makes a worker's first step quick.

Importing torch takes 2-3 s and the first optimizer another 2 s (it imports some 890 modules); a forked worker has both.
Nothing here may start a thread or touch CUDA: neither survives a fork.
"""

from __future__ import annotations

import importlib
import os
import sys

import torch
import torch.distributed
import torch.nn.parallel

CODE_VARIABLE = "ELASTIC_AWS_PRELOAD_CODE"
MODULES_VARIABLE = "ELASTIC_AWS_PRELOAD_MODULES"

FAILURES: list[str] = []
"""What the job asked to preload and could not be imported. The fork server itself would swallow it."""


def _import_for_job() -> None:
    if code := os.environ.get(CODE_VARIABLE):
        sys.path.insert(0, code)
    for name in filter(None, os.environ.get(MODULES_VARIABLE, "").split(",")):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - the border to the job's code, and the fork server must live to tell
            FAILURES.append(f"{name}: {type(error).__name__}: {error}")


torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
_import_for_job()
