"""The JSON border: one pydantic adapter a type, made once."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


def adapter(record_type: type[T]) -> TypeAdapter[T]:
    """What parses and writes values of this dataclass or model."""
    return _adapter(record_type)


@cache
def _adapter(record_type: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(record_type)
