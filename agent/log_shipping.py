"""Ships this node's logs to CloudWatch. It may lag or fail; it never holds up training."""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from pathlib import Path

from elastic_aws.aws.log_stream import LogStream
from elastic_aws.aws.session import AwsSession
from elastic_aws.errors import ElasticAwsError
from elastic_aws.node_config import NodeConfig

INTERVAL = timedelta(seconds=0.5)
RETRY_INTERVAL = timedelta(seconds=5)
READ_LIMIT_BYTES = 1 << 20
"""Of one file at once, so that one talkative worker does not keep the others waiting."""
END_LIMIT = timedelta(seconds=10)
"""How long `stop` waits for the last lines."""


class LogShipper:
    """A thread that follows every log file of the node. `node` is the first part of its streams' names."""

    def __init__(self, *, config: NodeConfig, root: str, node: str) -> None:
        self._folder = Path(f"{root}/var/log/elastic-aws")
        self._config = config
        self._node = node
        self._offsets: dict[Path, int] = {}
        self._streams: dict[Path, LogStream] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log shipper", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Ship what is left, within a limit."""
        self._over.set()
        self._thread.join(END_LIMIT.total_seconds())

    def _run(self) -> None:
        said = False
        session: AwsSession | None = None
        while True:
            last = self._over.is_set()
            try:
                session = session or AwsSession.from_environment(self._config.region)
                self._ship(session)
                said = False
            except (ElasticAwsError, OSError) as error:
                if not said:
                    sys.stderr.write(f"logs are not shipped: {error}\n")
                    said = True
            if last:
                return
            self._over.wait((RETRY_INTERVAL if said else INTERVAL).total_seconds())

    def _ship(self, session: AwsSession) -> None:
        files = [*self._folder.glob("events.jsonl"), *self._folder.glob("agent.log")]
        for path in files + sorted(self._folder.glob("round-*/rank-*.log")):
            while self._ship_some(session, path):
                pass

    def _ship_some(self, session: AwsSession, path: Path) -> bool:
        """Ship up to `READ_LIMIT_BYTES` of whole lines; answer whether there is more."""
        offset = self._offsets.get(path, 0)
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(READ_LIMIT_BYTES)
        whole = content.rfind(b"\n") + 1
        if not whole and len(content) < READ_LIMIT_BYTES and not self._over.is_set():
            return False
        taken = content[:whole] or content
        if not taken:
            return False
        if path not in self._streams:
            name = f"{self._node}/{path.relative_to(self._folder).with_suffix('')}"
            self._streams[path] = LogStream(session, group=self._config.log_group, name=name)
        self._streams[path].write(taken.decode(errors="replace").splitlines())
        self._offsets[path] = offset + len(taken)
        return len(content) == READ_LIMIT_BYTES
