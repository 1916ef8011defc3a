"""Events as JSON lines, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO, get_args

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from elastic_aws.errors import ElasticAwsError
from elastic_aws.events import Event
from elastic_aws.json_codec import adapter

Emit = Callable[[Event], None]
"""Where a part of the program reports what happened."""

_TYPES: dict[str, type[Any]] = {event_type.__name__: event_type for event_type in get_args(Event)}


class MalformedEventError(ElasticAwsError):
    """A line is no event of ours."""


@dataclass(frozen=True, kw_only=True)
class LoggedEvent:
    """An event with where and when it happened. `at` is that machine's wall clock, for display only."""

    at: datetime
    node: str
    event: Event


def to_line(logged: LoggedEvent) -> str:
    """One JSON line, without the newline; durations in ISO 8601."""
    fields = adapter(type(logged.event)).dump_python(logged.event, mode="json")
    at = logged.at.isoformat(timespec="milliseconds")
    head = {"at": at, "node": logged.node, "event": type(logged.event).__name__}
    return to_json(head | fields).decode()


def from_line(line: str | bytes) -> LoggedEvent:
    """Parse a line written by `to_line`. Raises: MalformedEventError."""
    try:
        fields = from_json(line)
        event_type = _TYPES[fields.pop("event")]
        at, node = datetime.fromisoformat(fields.pop("at")), fields.pop("node")
        return LoggedEvent(at=at, node=node, event=adapter(event_type).validate_python(fields))
    except (ValidationError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise MalformedEventError("not an event line", why=repr(error)) from error


class EventLog:
    """Writes events to a text stream, one line each, flushed at once."""

    def __init__(self, stream: TextIO, *, node: str) -> None:
        self._stream = stream
        self._node = node

    def __call__(self, event: Event) -> None:
        """Write one event."""
        line = to_line(LoggedEvent(at=datetime.now(UTC), node=self._node, event=event))
        self._stream.write(line + "\n")
        self._stream.flush()
