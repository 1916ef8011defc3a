"""The JSON border: one pydantic adapter a type, made once."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")

_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def adapter(record_type: type[T]) -> TypeAdapter[T]:
    """What parses and writes values of this dataclass or model."""
    if record_type not in _ADAPTERS:
        _ADAPTERS[record_type] = TypeAdapter(record_type)
    return _ADAPTERS[record_type]
