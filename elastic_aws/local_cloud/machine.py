"""A booted instance, seen from the daemon: its init process, its user-data, its units."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from elastic_aws.local_cloud import processes
from elastic_aws.local_cloud.machine_root import MachinePlace, prepare

INIT_PATIENCE = timedelta(seconds=5)
"""How long an init may take to kill what is left of its instance before the daemon does it."""

_PACKAGE_PARENT = Path(__file__).parents[2]
_INIT = "import sys; sys.path.append(sys.argv[1]); from elastic_aws.local_cloud.machine_init import main; main()"


class BootState(StrEnum):
    """How far an instance's user-data is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class UnitSeen:
    """What the init last reported of a unit. `code`: its last exit status, negative for a signal."""

    state: str
    pid: int
    code: int | None
    restarts: int


@dataclass(kw_only=True)
class Machine:
    """One instance's processes.

    `on_power_off` is called when the instance shuts itself down, `on_gone` once no process of it is left.
    Both come from a thread of the machine.
    """

    place: MachinePlace
    on_power_off: Callable[[], None]
    on_gone: Callable[[], None]
    boot: BootState = BootState.RUNNING
    boot_status: int | None = None
    units: dict[str, UnitSeen] = field(default_factory=dict)
    gone: threading.Event = field(default_factory=threading.Event)
    _init: subprocess.Popen[bytes] | None = None

    def start(self, *, user_data: bytes | None) -> None:
        """Make its root folder and boot it."""
        prepare(self.place, user_data=user_data)
        environment = self.place.environment()
        self._init = subprocess.Popen(
            [sys.executable, "-S", "-E", "-I", "-c", _INIT, str(_PACKAGE_PARENT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        order: dict[str, object] = {
            "root": str(self.place.root),
            "environment": environment,
            "run_folder": str(self.place.run_folder),
            "user_data": str(self.place.user_data),
        }
        self._order(order)
        threading.Thread(target=self._listen, name=f"machine {self.place.instance}", daemon=True).start()

    def shut_down(self, grace: timedelta) -> None:
        """Stop its units as at a shutdown, then kill everything; `gone` is set when that is done."""
        self._order({"grace_seconds": grace.total_seconds()})

    def kill(self) -> None:
        """Kill every process at once, as when the power fails."""
        init = self._init
        if init is not None and init.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                init.stdin.close()

    def _order(self, fields: dict[str, object]) -> None:
        init = self._init
        if init is None or init.stdin is None or init.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            init.stdin.write(json.dumps(fields).encode() + b"\n")
            init.stdin.flush()

    def _listen(self) -> None:
        init = self._init
        assert init is not None
        assert init.stdout is not None
        for line in init.stdout:
            self._heard(json.loads(line))
        try:
            init.wait(INIT_PATIENCE.total_seconds())
        except subprocess.TimeoutExpired:
            init.kill()
            init.wait()
        self._sweep()

    def _heard(self, report: dict[str, object]) -> None:
        match report:
            case {"event": "booted", "status": int(status)}:
                self.boot_status = status
                self.boot = BootState.DONE if status == 0 else BootState.FAILED
            case {"event": "unit", "name": str(name), "state": str(state), "pid": int(pid), "restarts": int(restarts)}:
                code = report.get("code")
                seen = UnitSeen(state=state, pid=pid, code=code if isinstance(code, int) else None, restarts=restarts)
                self.units[name] = seen
            case {"event": "power_off"}:
                self.on_power_off()

    def _sweep(self) -> None:
        """Last resort, for when the init itself was killed: end whatever carries the instance's mark."""
        mark = f"{processes.ROOT_VARIABLE}={self.place.root}"
        processes.kill_all(lambda: processes.with_variable(mark))
        shutil.rmtree(self.place.run_folder, ignore_errors=True)
        self.gone.set()
        self.on_gone()
