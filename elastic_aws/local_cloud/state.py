"""Starting, finding and stopping the local cloud. Imports nothing of moto."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from elastic_aws.errors import ElasticAwsError, PreflightError, UsageError

HOME_VARIABLE = "ELASTIC_AWS_LOCAL_HOME"
DEFAULT_REGION = "us-west-2"
START_LIMIT = timedelta(seconds=60)
"""How long `start` waits for the daemon. It takes about 2 s on two idle cores."""

STOP_LIMIT = timedelta(seconds=20)


class LocalCloudError(ElasticAwsError):
    """The local cloud did not start or stop."""


@dataclass(frozen=True, kw_only=True)
class LocalCloudState:
    """A running local cloud.

    `block` is its network, of which the private addresses of its instances are. `home` holds its files.
    """

    endpoint_url: str
    region: str
    pid: int
    home: Path
    block: str
    account: str


def default_home() -> Path:
    """$ELASTIC_AWS_LOCAL_HOME, or elastic-aws/local below $XDG_STATE_HOME or ~/.local/state."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local/state") / "elastic-aws/local"


def read_state(home: Path | None = None) -> LocalCloudState | None:
    """The local cloud that runs, or None."""
    home = home or default_home()
    if not held(home):
        return None
    try:
        fields = json.loads((home / "state.json").read_text())
    except (OSError, ValueError):  # it is just starting or ending
        return None
    return LocalCloudState(**fields | {"home": home})


def write_state(state: LocalCloudState) -> None:
    """Called by the daemon once it is ready."""
    file = state.home / "state.json"
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(asdict(state) | {"home": str(state.home)}, indent=2))
    draft.rename(file)


def held(home: Path) -> bool:
    """Whether a daemon holds this home's lock: the kernel lets go of it when the daemon dies."""
    import fcntl

    lock = home / "lock"
    if not lock.exists():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def start(
    market: Path | None = None,
    home: Path | None = None,
    *,
    region: str = DEFAULT_REGION,
    limit: timedelta = START_LIMIT,
) -> LocalCloudState:
    """Start the local cloud and wait until it answers.

    Nothing of an earlier one survives: its instances, stacks and buckets are gone.
    Raises: PreflightError off Linux, UsageError when it runs already, LocalCloudError when it does not come up.
    """
    home = home or default_home()
    _check(home, market)
    home.mkdir(parents=True, exist_ok=True)
    log = home / "local-cloud.log"
    command = [sys.executable, "-m", "elastic_aws.local_cloud", "--home", str(home), "--region", region]
    command += ["--market", str(market.absolute())] if market is not None else []
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(),
            start_new_session=True,
            cwd="/",
        )
    deadline = time.monotonic() + limit.total_seconds()
    while time.monotonic() < deadline:
        state = read_state(home)
        if state is not None and state.pid == daemon.pid:
            return state
        if daemon.poll() is not None:
            raise LocalCloudError("the local cloud did not start", why=_tail(log), hint=f"less {log}")
        time.sleep(0.02)
    daemon.kill()
    why = f"it was not ready after {limit.total_seconds():.0f} s"
    raise LocalCloudError("the local cloud did not start", why=why, hint=f"less {log}")


def _check(home: Path, market: Path | None) -> None:
    if sys.platform != "linux":
        why = f"it runs instances as processes with Linux's means, and this is {sys.platform}"
        raise PreflightError(
            "the local cloud needs Linux", why=why, hint="use it in a Linux container or virtual machine"
        )
    try:
        import moto  # noqa: F401 - only to know whether the extra is installed
    except ImportError as error:
        hint = "pip install 'elastic-aws[local]'"
        raise PreflightError("the local cloud is not installed", why=str(error), hint=hint) from error
    if held(home):
        raise UsageError("the local cloud runs already", hint="elastic-aws local status   or   elastic-aws local down")
    if market is not None and not market.is_file():
        raise UsageError(f"no market file {market}", why="it does not exist", hint="elastic-aws local up --help")


def _environment() -> dict[str, str]:
    """The daemon's: nothing of the user's AWS settings or proxies may reach it."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("AWS_", "MOTO_"))}
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        kept.pop(name, None)
        kept.pop(name.upper(), None)
    return kept


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def stop(home: Path | None = None, *, limit: timedelta = STOP_LIMIT) -> bool:
    """Stop the local cloud with all its instances; answer whether one ran. Raises: LocalCloudError."""
    home = home or default_home()
    state = read_state(home)
    if state is None:
        return False
    try:
        ended = os.pidfd_open(state.pid)
    except ProcessLookupError:
        return True
    os.kill(state.pid, signal.SIGTERM)
    try:
        if not select.select([ended], [], [], limit.total_seconds())[0]:
            why = f"process {state.pid} still runs after {limit.total_seconds():.0f} s"
            raise LocalCloudError("the local cloud did not stop", why=why, hint=f"kill -9 {state.pid}")
    finally:
        os.close(ended)
    return True
