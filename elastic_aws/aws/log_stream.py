"""Writing lines to one CloudWatch log stream."""

from __future__ import annotations

import time
from collections.abc import Sequence

from elastic_aws.aws.session import AwsSession, error_code, translate
from elastic_aws.errors import AwsError

LINES_AT_ONCE = 1000
LINE_LIMIT_BYTES = 250_000
"""A little under PutLogEvents' 256 KB an event. Source: CloudWatch Logs quotas."""
BATCH_LIMIT_BYTES = 1_000_000
"""A little under PutLogEvents' 1,048,576 bytes a call, 26 for each event included. Source: CloudWatch Logs quotas."""


class LogStream:
    """One stream of a log group, made on its first line."""

    def __init__(self, session: AwsSession, *, group: str, name: str) -> None:
        self._client = session.client("logs")
        self._group = group
        self._name = name
        self._made = False

    def write(self, lines: Sequence[str]) -> None:
        """Append lines, all or, when it raises, perhaps some. Raises: AwsError and its siblings."""
        if not self._made:
            self._make()
        now = int(time.time() * 1000)
        batch: list[dict[str, object]] = []
        size = 0
        for line in lines:
            message = line.encode()[:LINE_LIMIT_BYTES].decode(errors="ignore") or " "
            length = len(message.encode()) + 26
            if batch and (size + length > BATCH_LIMIT_BYTES or len(batch) >= LINES_AT_ONCE):
                self._put(batch)
                batch, size = [], 0
            batch.append({"timestamp": now, "message": message})
            size += length
        if batch:
            self._put(batch)

    def _put(self, batch: list[dict[str, object]]) -> None:
        with translate(f"writing the log stream {self._name}"):
            self._client.put_log_events(logGroupName=self._group, logStreamName=self._name, logEvents=batch)

    def _make(self) -> None:
        try:
            with translate(f"creating the log stream {self._name}"):
                self._client.create_log_stream(logGroupName=self._group, logStreamName=self._name)
        except AwsError as error:
            if error_code(error) != "ResourceAlreadyExistsException":
                raise
        self._made = True
