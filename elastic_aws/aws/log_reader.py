"""Reading a job's log streams."""

from __future__ import annotations

from elastic_aws.aws.session import AwsSession, translate
from elastic_aws.errors import NotFoundError


class LogReader:
    """Reads the streams of one log group, each from where it stopped before."""

    def __init__(self, session: AwsSession, group: str) -> None:
        self._client = session.client("logs")
        self._group = group
        self._tokens: dict[str, str] = {}

    def streams(self) -> tuple[str, ...]:
        """Names of all streams so far; none while the group does not exist."""
        names: list[str] = []
        try:
            with translate(f"listing the logs of {self._group}"):
                for page in self._client.get_paginator("describe_log_streams").paginate(logGroupName=self._group):
                    names += [stream["logStreamName"] for stream in page["logStreams"]]
        except NotFoundError:
            return ()
        return tuple(names)

    def new_lines(self, stream: str) -> list[tuple[int, str]]:
        """(milliseconds since 1970, line) of everything that came since the call before."""
        lines: list[tuple[int, str]] = []
        while True:
            token = self._tokens.get(stream)
            more = {"nextToken": token} if token else {}
            with translate(f"reading the log stream {stream}"):
                answer = self._client.get_log_events(
                    logGroupName=self._group, logStreamName=stream, startFromHead=True, **more
                )
            lines += [(event["timestamp"], event["message"]) for event in answer["events"]]
            self._tokens[stream] = answer["nextForwardToken"]
            if not answer["events"] or answer["nextForwardToken"] == token:
                return lines
