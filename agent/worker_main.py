"""What a forked worker does before and after the user's script."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.process import parent_process
from pathlib import Path

from elastic_aws.agent.orphan_guard import guard_group


@dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """One worker: its script with arguments, its environment's additions, where it writes. Paths are absolute."""

    code: str
    script: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: str
    error: str


def run(plan: WorkerPlan) -> None:
    """Run the script as `python script arguments...` would."""
    parent = parent_process()
    assert parent is not None
    assert isinstance(parent.sentinel, int)
    guard_group(parent.sentinel)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _redirect(plan.log)
    os.environ.update(plan.environment)
    os.chdir(plan.code)
    _limit_threads()
    sys.argv = [plan.script, *plan.arguments]
    sys.path.insert(0, str(Path(plan.script).parent))
    try:
        runpy.run_path(plan.script, run_name="__main__")
    except Exception as error:  # noqa: BLE001 - the border between our code and the user's script
        _report(plan.error, error)
        _exit(1)
    except SystemExit as end:
        _exit(_status(end.code))
    _exit(0)


def _status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _exit(status: int) -> None:
    """Flush and leave, without waiting for threads that a broken collective may hold forever."""
    if status:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(0)


def _redirect(log: str) -> None:
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - the process's own stream
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 - the process's own stream


def _limit_threads() -> None:
    """Torch was imported before the variable was set, so it has to be told."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit():
        import torch

        torch.set_num_threads(max(1, int(threads)))


def _report(file: str, error: Exception) -> None:
    text = traceback.format_exc()
    sys.stderr.write(text)
    message = "".join(traceback.format_exception_only(error)).strip()
    peer_lost = any(sign in message for sign in _PEER_SIGNS)
    report = {"message": message, "traceback": text, "peer_lost": peer_lost}
    Path(file).write_text(json.dumps(report))


_PEER_SIGNS = (
    "DistNetworkError",
    "DistBackendError",
    "DistStoreError",
    "Connection closed by peer",
    "Connection reset by peer",
    "gloo/transport",
)
"""In torch's errors of a collective whose other side is gone: most often an echo of another worker's end."""
