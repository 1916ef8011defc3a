"""A worker never outlives its agent, nothing that a worker started outlives the worker, and both yield to the agent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path

NICENESS = 10
"""Of workers: however many data loaders a script starts, the agent renews its lease in time."""

_TRY_AGAIN_SECONDS = 0.1


def guard_group(agent_gone: int) -> None:
    """Make this process the leader of a process group that is killed when this process or the agent ends.

    `agent_gone` is a file descriptor that becomes readable when the agent dies. A process of its own watches, because
    a thread would not run while the worker is stuck in foreign code.
    """
    os.setsid()
    os.nice(NICENESS)
    worker = os.getpid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    if os.fork():
        os._exit(0)
    try:
        _watch(worker, agent_gone)
    finally:
        os._exit(0)


def _watch(worker: int, agent_gone: int) -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    try:
        ended = os.pidfd_open(worker)
    except ProcessLookupError:
        ended = -1
    if ended >= 0:
        while not select.select([ended, agent_gone], [], [], None if _yields(worker) else _TRY_AGAIN_SECONDS)[0]:
            pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker, signal.SIGKILL)


def _yields(worker: int) -> bool:
    """Lower the worker's whole session: where the kernel groups sessions, a nice value counts only within its own.

    False when the kernel wants it tried again: it takes one such change in a tenth of a second.
    """
    try:
        Path(f"/proc/{worker}/autogroup").write_text(str(NICENESS))
    except BlockingIOError:
        return False
    except OSError:
        return True  # it does not group sessions, or the worker is gone
    return True
