"""JobSpec: what the user asked for, in one YAML file and the flags that override it."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from elastic_aws.node_config import Timing

MAX_NAME_LENGTH = 40
"""Longest job name: CloudFormation makes role names of at most 64 characters from `elastic-aws-{job}`."""


class Capacity(StrEnum):
    """What the workers' group buys."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"


class Document(BaseModel):
    """A frozen part of the job file: unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Nodes(Document):
    """How many nodes: `min:max` with a target, written `2`, `2:8`, or as a mapping."""

    min: int = Field(ge=1, description="Training waits when fewer nodes than this are left.")
    max: int = Field(ge=1, le=1000, description="Never more nodes than this.")
    target: int = Field(ge=1, description="How many nodes to ask for at first; `min` where it is left out.")

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if isinstance(value, int):
            value = str(value)
        if isinstance(value, str):
            low, colon, high = value.partition(":")
            value = {"min": low, "max": high if colon else low}
        if isinstance(value, dict) and "target" not in value and "min" in value:
            value = {**value, "target": value["min"]}
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Nodes:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is greater than max ({self.max})")
        if not self.min <= self.target <= self.max:
            raise ValueError(f"target ({self.target}) is outside {self.min}:{self.max}")
        return self


class Venv(Document):
    """Run in a Python of the machine image, with these packages added."""

    python: str = Field(default="/opt/pytorch/bin/python", description="A Python with torch on the machine image.")
    requirements: tuple[str, ...] = Field(default=(), description="Packages to pip install, e.g. `timm==1.0.9`.")


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class JobSpec(Document):
    """One training job."""

    name: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$", max_length=MAX_NAME_LENGTH)]
    script: str = Field(min_length=1)
    arguments: tuple[str, ...] = ()
    code: str | None = None
    nodes: Nodes
    workers_per_node: Literal["auto", "gpu"] | Annotated[int, Field(ge=1, le=64)] = "auto"
    instance_types: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1, max_length=20)]
    capacity: Capacity = Capacity.SPOT
    image: str | None = None
    venv: Venv | None = None
    setup: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    environment: dict[str, str] = {}
    preload: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    checkpoints: str | None = None
    max_hours: float = Field(default=24, gt=0, le=24 * 30)
    region: str | None = None
    bucket: str | None = None
    subnets: tuple[str, ...] = ()
    machine_image: str | None = None
    volume_gb: int = Field(default=100, ge=8, le=16384)
    store_instance_type: str = "m7i.large"
    timing: Timing = Timing()

    @property
    def time_limit(self) -> timedelta:
        """How long the job may run."""
        return timedelta(hours=self.max_hours)
