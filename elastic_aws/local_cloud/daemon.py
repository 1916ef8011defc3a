"""The local cloud's one process besides its instances: puts its parts together, serves, and ends them."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import tempfile
import threading
from datetime import timedelta
from pathlib import Path

from elastic_aws.errors import UsageError
from elastic_aws.local_cloud.host import Folders, Host
from elastic_aws.local_cloud.loopback_network import LoopbackNetwork
from elastic_aws.local_cloud.loopback_only import allow_loopback_only
from elastic_aws.local_cloud.machine_root import METADATA_PORT
from elastic_aws.local_cloud.market import Scheduled, parse_script
from elastic_aws.local_cloud.metadata_server import MetadataServer
from elastic_aws.local_cloud.refusing_proxy import RefusingProxy
from elastic_aws.local_cloud.state import LocalCloudError, LocalCloudState, write_state

MOTO_SETTINGS = {
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # we register our own images
    "MOTO_DISABLE_GLOBAL_CORS": "true",  # no browser talks to it
    "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",  # roles attach AWS's own policies
    "MOTO_ALLOW_NONEXISTENT_REGION": "false",
    "AWS_EC2_METADATA_DISABLED": "true",  # boto3 inside moto must never look for an instance's credentials
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""moto reads its settings from the environment when it is imported."""

RUN_LINK = "run"
"""In the home folder: a link to the folder of the daemon's sockets, whose path must be short."""

_log = logging.getLogger("local_cloud")


def run(*, home: Path, region: str, market: Path | None) -> None:
    """Serve until SIGTERM or SIGINT. Raises: UsageError for a second cloud in the same home, or a bad market file."""
    script = parse_script(market.read_text()) if market is not None else ()
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError("the local cloud runs already", why=f"another one has {home}") from error
        for stale in ("state.json", "market.jsonl"):
            (home / stale).unlink(missing_ok=True)
        shutil.rmtree(home / "instances", ignore_errors=True)
        _sweep_run_folder(home / RUN_LINK)
        os.environ.update(MOTO_SETTINGS)
        allow_loopback_only(_log.error)
        ended = threading.Event()
        failed: list[str] = []
        _end_on_bug(ended, failed)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        _serve(home, region, script, ended)
        (home / "state.json").unlink(missing_ok=True)
        if failed:
            raise LocalCloudError("the local cloud stopped because of a fault of its own", why=failed[0])


def _sweep_run_folder(link: Path) -> None:
    """Remove the folder that this home's daemon had for sockets: a killed one could not."""
    if link.is_symlink():
        shutil.rmtree(link.readlink(), ignore_errors=True)
        link.unlink()


def _end_on_bug(ended: threading.Event, failed: list[str]) -> None:
    """A thread that dies of a bug ends the daemon, loudly: a cloud that only seems to work helps nobody."""

    def report(bug: threading.ExceptHookArgs) -> None:
        name = bug.thread.name if bug.thread else "a thread"
        _log.critical("%s died", name, exc_info=bug.exc_value)
        failed.append(f"{name}: {bug.exc_value!r}")
        ended.set()

    threading.excepthook = report


def _serve(home: Path, region: str, script: tuple[Scheduled, ...], ended: threading.Event) -> None:
    # Imported here: moto reads MOTO_SETTINGS when it is imported.
    from elastic_aws.local_cloud.control import Control
    from elastic_aws.local_cloud.gateway import Gateway, make_gateway_server
    from elastic_aws.local_cloud.services import ACCOUNT, Services
    from elastic_aws.local_cloud.spot_market import SpotMarket

    # mkdtemp makes it private; $TMPDIR may be too long for the paths of sockets.
    run_folder = Path(tempfile.mkdtemp(prefix="ea-", dir="/tmp"))
    (home / RUN_LINK).symlink_to(run_folder)
    network = LoopbackNetwork()
    metadata = MetadataServer(port=METADATA_PORT)
    proxy = RefusingProxy(_log.error)
    host = Host(folders=Folders(home=home, run=run_folder), network=network, metadata=metadata, proxy_url=proxy.url)
    services = Services(host=host)
    market = SpotMarket(fleet=services, journal=home / "market.jsonl", script=script)
    services.install(market)
    control = Control(host=host, market=market, instances=services.instances)
    server = make_gateway_server(Gateway(lock=services.lock, control=control))
    host.endpoint_url = f"http://127.0.0.1:{server.server_port}"
    services.keeper.start()
    threading.Thread(target=server.serve_forever, name="gateway", daemon=True).start()
    block = str(network.block)
    write_state(
        LocalCloudState(
            endpoint_url=host.endpoint_url, region=region, pid=os.getpid(), home=home, block=block, account=ACCOUNT
        )
    )
    _log.info("ready: %s in %s", host.endpoint_url, block)
    while not ended.wait(timedelta(hours=1).total_seconds()):
        pass
    _log.info("stopping")
    market.close()
    services.keeper.close()
    server.shutdown()
    host.close()
    metadata.close()
    proxy.close()
    network.close()
    _sweep_run_folder(home / RUN_LINK)
