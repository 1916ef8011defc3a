"""Finding and ending every process of an instance. Standard library only: the instance's init imports it."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""Numbers of prctl(2), linux/prctl.h."""

ROOT_VARIABLE = "ELASTIC_AWS_ROOT"
"""The environment variable which every process of an instance carries: its root folder."""

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Make orphaned descendants children of this process instead of the machine's process 1."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def spawn(
    argv: Sequence[str], *, environment: dict[str, str], folder: str, stdout: int, stderr: int, stdin: int | None = None
) -> int:
    """Start a program in a session of its own, which dies with its parent; answer its pid.

    Only for single-threaded callers (it forks). A program that cannot be executed exits 203, as under systemd.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        die_with_parent()
        os.dup2(os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.closerange(3, 1024)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(folder)
        os.execvpe(argv[0], list(argv), environment)  # noqa: S606 - the unit's own program, no shell
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    os._exit(203)


def parents() -> dict[int, int]:
    """The parent of every process that this user can see, by pid."""
    found = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - called in a loop while processes die; Path costs three times as much
        if entry.isdigit() and (stat := _read(f"/proc/{entry}/stat")):
            found[int(entry)] = int(stat.rpartition(b")")[2].split()[1])
    return found


def descendants(ancestor: int) -> set[int]:
    """Pids of all processes below `ancestor`, zombies included."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = [ancestor]
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found


def with_variable(variable: str, pids: Iterable[int] | None = None) -> set[int]:
    """Pids (of `pids`, or of all) that were started with exactly this `NAME=value` in their environment."""
    marker = variable.encode()
    candidates = parents() if pids is None else pids
    return {pid for pid in candidates if marker in _read(f"/proc/{pid}/environ").split(b"\0")}


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # the process is gone, or another user's
        return b""


def kill_all(find: Callable[[], set[int]], *, limit_seconds: float = 5.0) -> set[int]:
    """SIGKILL what `find` finds until it finds nothing; answer what still lives after `limit_seconds`."""
    deadline = time.monotonic() + limit_seconds
    while (left := find()) and time.monotonic() < deadline:
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.002)
    return left


def send(pid: int, number: int) -> None:
    """Send a signal; a process that is gone is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
