"""NodeConfig: the one document that goes from the laptop to a node, inside its user-data."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

ALLOWED = "x-allowed"
"""Key of a field's JSON schema that says, for people, what may stand there. Error messages quote it."""

HOOK_MARGIN_SECONDS = 30
"""The workers' lifecycle hook waits for so much longer than a drain may take."""

MAX_DRAIN_SECONDS = 7200 - HOOK_MARGIN_SECONDS
"""AWS lets a hook wait for 30 to 7200 s at a time.

Source: EC2 Auto Scaling API reference, PutLifecycleHook, HeartbeatTimeout.
"""

Duration = Annotated[timedelta, WithJsonSchema({})]
"""A time whose JSON schema its field gives: pydantic's own has no bounds and no numbers."""


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


STATUS, SCALE_REQUEST, SPEC = "status.json", "scale.json", "spec.json"
"""Below the job's prefix: what the controller says, what it is asked for, and the job file as it was checked."""

START_FAILURES = "failures/"
"""Below the job's prefix, as `<role>/<instance>`: why a node cannot start, where trying again would not help."""


class Program(Frozen):
    """What a worker runs. `script` is relative to the bundle's top, or absolute inside the container image."""

    script: str
    arguments: tuple[str, ...] = ()


class NodeBounds(Frozen):
    """The bounds a job starts with; later ones live in the store."""

    min: int
    max: int
    target: int


def _seconds(description: str, default: float, low: float, high: float) -> Any:
    """A duration: written as a number of seconds in a job file, as ISO 8601 on its way to a node."""
    bounds: dict[str, Any] = {"type": "number", "minimum": low, "maximum": high}
    return Field(
        default=timedelta(seconds=default),
        description=f"{description} In seconds, from {low:g} to {high:g}.",
        ge=timedelta(seconds=low),
        le=timedelta(seconds=high),
        json_schema_extra={
            ALLOWED: f"a number of seconds from {low:g} to {high:g}",
            "default": default,
            "anyOf": [bounds, {"type": "string", "format": "duration"}],
        },
    )


class Timing(Frozen):
    """Times the agents go by."""

    lease: Duration = _seconds(
        "A node that is silent for so long is lost. Under a second, a busy machine is taken for a lost one.", 2, 1, 60
    )
    first_round_wait: Duration = _seconds(
        "How long the first round waits for `target` once `min` is met.", 120, 0, 3600
    )
    join_window: Duration = _seconds(
        "How long a planned round waits for further arrivals after the last one, unless the target is met before.",
        10,
        0,
        600,
    )
    drain_timeout: Duration = _seconds(
        "How long workers may take to stop at an agreed step before they are ended.", 60, 0.1, MAX_DRAIN_SECONDS
    )
    stop_timeout: Duration = _seconds(
        "Time between SIGTERM and SIGKILL for workers that are ended without a drain.", 5, 0, 300
    )
    max_restarts: int = Field(
        default=3,
        description="Worker failures without a newly committed checkpoint between them that end the job; 0 to 1000.",
        ge=0,
        le=1000,
        json_schema_extra={ALLOWED: "a number from 0 to 1000"},
    )


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
