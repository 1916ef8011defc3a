"""NodeConfig: the one document that goes from the laptop to a node, inside its user-data."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """A frozen document: unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Role(StrEnum):
    """What a node is for."""

    WORKER = "worker"
    STORE = "store"


class Artifact(Frozen):
    """An object in the job's bucket, named by its content."""

    key: str
    sha256: str


class VenvRuntime(Frozen):
    """Workers run in a Python of the machine; `python` is its path on the machine image."""

    kind: Literal["venv"] = "venv"
    python: str
    requirements: tuple[str, ...] = ()


class ContainerRuntime(Frozen):
    """Agent and workers run in a container of this image."""

    kind: Literal["container"] = "container"
    image: str


Runtime = Annotated[VenvRuntime | ContainerRuntime, Field(discriminator="kind")]


class Program(Frozen):
    """What a worker runs. `script` is relative to the bundle's top, or absolute inside the container image."""

    script: str
    arguments: tuple[str, ...] = ()


class NodeBounds(Frozen):
    """The bounds a job starts with; later ones live in the store."""

    min: int
    max: int
    target: int


class Timing(Frozen):
    """Times the agents go by."""

    lease: timedelta = timedelta(seconds=2)
    """A node that is silent for so long is lost."""
    first_round_wait: timedelta = timedelta(seconds=120)
    """How long the first round waits for `target` once `min` is met."""
    join_window: timedelta = timedelta(seconds=10)
    """How long a planned round waits for further arrivals after the last one, unless the target is met before."""
    drain_timeout: timedelta = timedelta(seconds=60)
    """How long workers may take to stop at an agreed step before they are ended."""
    stop_timeout: timedelta = timedelta(seconds=5)
    """Time between SIGTERM and SIGKILL for workers that are ended without a drain."""
    max_restarts: int = 3
    """Worker failures without a newly committed checkpoint between them that end the job."""


class NodeConfig(Frozen):
    """Everything a node needs to know before it can reach the store.

    The store node has no `bundle` and no `program`. `job_prefix` is the S3 key prefix (ending in `/`) of this run
    of the job: `status.json`, `scale.json`, `checkpoints/`. `store_endpoints` are `http(s)://host:port`.
    """

    schema_version: Literal[1] = 1
    job: str
    run: str
    role: Role
    region: str
    bucket: str
    job_prefix: str
    wheel: Artifact
    bundle: Artifact | None = None
    program: Program | None = None
    runtime: Runtime
    store_endpoints: tuple[str, ...]
    store_interface: str = ""
    workers_group: str = ""
    workers_per_node: Literal["auto", "gpu"] | int = "auto"
    bounds: NodeBounds
    setup: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    preload: tuple[str, ...] = ()
    checkpoints: str
    log_group: str
    time_limit: timedelta = timedelta(hours=24)
    timing: Timing = Timing()
