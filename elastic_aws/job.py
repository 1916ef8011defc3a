"""JobSpec: what the user asked for, in one YAML file and the flags that override it."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from elastic_aws.instance_types import instance_type, why_unknown
from elastic_aws.node_config import ALLOWED, Program, Timing

MAX_NAME_LENGTH = 40
"""Longest job name: CloudFormation makes role names of at most 64 characters from `elastic-aws-{job}`."""

IMAGE_SCHEME = "image://"
S3_SCHEME = "s3://"


class Capacity(StrEnum):
    """What the workers' group buys."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"


class ScriptPlace(StrEnum):
    """Where the script comes from: the four forms."""

    FILE = "file"
    FOLDER = "folder"
    S3 = "s3"
    IMAGE = "image"


def _field(description: str, allowed: str, **rules: Any) -> Any:
    return Field(description=description, json_schema_extra={ALLOWED: allowed}, **rules)


class Document(BaseModel):
    """A frozen part of the job file: unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Nodes(Document):
    """How many nodes: `min:max` with a target, written `2`, `2:8`, or as a mapping."""

    min: int = _field("Training waits when fewer nodes than this are left.", "a number from 1 on", ge=1)
    max: int = _field("Never more nodes than this.", "a number from 1 to 1000", ge=1, le=1000)
    target: int = _field(
        "How many nodes to ask for at first; `min` where it is left out.", "a number from min to max", ge=1
    )

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str):
            low, colon, high = value.partition(":")
            value = {"min": low, "max": high if colon else low}
        if isinstance(value, dict) and "target" not in value and "min" in value:
            value = {**value, "target": value["min"]}
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The mapping, or what `_parse` makes one of."""
        mapping = handler(core)
        handler.resolve_ref_schema(mapping)["required"] = ["min", "max"]
        return {"anyOf": [mapping, {"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"^\d+(:\d+)?$"}]}

    @model_validator(mode="after")
    def _ordered(self) -> Nodes:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is greater than max ({self.max})")
        if not self.min <= self.target <= self.max:
            raise ValueError(f"target ({self.target}) is outside {self.min}:{self.max}")
        return self


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    """A number that stands for an argument or a variable is text. From a job file it comes as text already."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _passable(value: str) -> str:
    if "\0" in value:
        raise ValueError("a NUL character cannot be passed to a program")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError("not UTF-8 text") from error
    return value


def _names_a_file(place: str) -> str:
    """Refuses `s3://bucket/` and `image://`, which name no file."""
    if place.startswith(S3_SCHEME):
        bucket, _, key = place.removeprefix(S3_SCHEME).partition("/")
        if not bucket or not key or key.endswith("/"):
            raise ValueError("it names no object: a bucket and a key are needed, as in s3://bucket/key")
    if place.startswith(IMAGE_SCHEME) and (place.endswith("/") or place == IMAGE_SCHEME):
        raise ValueError("it names no file: a path is needed, as in image:///work/train.py")
    return place


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{name!r} is no name of an environment variable")
    return name


def _known_type(name: str) -> str:
    if instance_type(name) is None:
        raise ValueError(why_unknown(name))
    return name


_ONE_OR_MORE = BeforeValidator(_as_tuple, json_schema_input_type=str | tuple[str, ...])
"""A list in which a single text stands for itself."""

_SCALAR = str | int | float | bool | None
Text = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=_SCALAR), AfterValidator(_passable)]
"""What reaches a program unchanged. In a job file, whatever stands there is text: `010`, `yes`, `~`."""

Word = Annotated[str, Field(min_length=1), AfterValidator(_passable)]
"""A text that names something, so it is not empty."""

Image = Annotated[str, Field(min_length=1, pattern=r"^[^\s-]\S*$"), AfterValidator(_passable)]
"""A container image's name: it reaches the command line of docker, so it may not look like an option of it."""

Place = Annotated[Word, AfterValidator(_names_a_file)]
"""A path, or an address with a scheme."""


class Venv(Document):
    """Run in a Python of the machine image, with these packages added."""

    python: Word = _field(
        "A Python with torch on the machine image.", "an absolute path", default="/opt/pytorch/bin/python", pattern="^/"
    )
    requirements: Annotated[tuple[Word, ...], _ONE_OR_MORE] = _field(
        "Packages to pip install, e.g. `timm==1.0.9`.", "a list of pip requirements", default=()
    )


class JobSpec(Document):
    """One training job."""

    name: str = _field(
        "The job's name; its stack is `elastic-aws-{name}`.",
        f"lower-case letters, digits and dashes, beginning with a letter, at most {MAX_NAME_LENGTH} characters",
        pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$",
        max_length=MAX_NAME_LENGTH,
    )
    script: Place = _field(
        "The training script.",
        "a path (in `code` where that is given), s3://bucket/train.py, or image:///path/in/the/image.py",
    )
    arguments: tuple[Text, ...] = _field("The script's arguments.", "a list of texts", default=())
    code: Place | None = _field(
        "What to pack and send to the nodes; the script alone where it is left out.",
        "a folder, or s3://bucket/code.tar.gz (or .zip)",
        default=None,
    )
    nodes: Nodes = _field(
        "How many nodes, as `min:max`.", "2, 2:8 or {min: 2, max: 8, target: 4}, with min <= target <= max"
    )
    workers_per_node: Literal["auto", "gpu"] | Annotated[int, Field(ge=1, le=64)] = _field(
        "Training processes on each node.",
        "auto (one a GPU, one on a CPU type), gpu, or a number from 1 to 64",
        default="auto",
    )
    instance_types: Annotated[tuple[Annotated[str, AfterValidator(_known_type)], ...], _ONE_OR_MORE] = _field(
        "What the workers run on: the group buys whichever is available.",
        "one or up to 20 EC2 instance types of elastic-aws's table, e.g. g5.xlarge",
        min_length=1,
        max_length=20,
    )
    capacity: Capacity = _field("How the workers are bought.", "spot or on-demand", default=Capacity.SPOT)
    image: Image | None = _field(
        "Container image to run in, instead of `venv`.",
        "an image reference, e.g. pytorch/pytorch:2.9",
        default=None,
    )
    venv: Venv | None = _field(
        "Python on the machine image to run in.", "{python: /path, requirements: [...]}", default=None
    )
    setup: Annotated[tuple[Text, ...], _ONE_OR_MORE] = _field(
        "Shell commands run once on each node before training.", "a list of commands", default=()
    )
    environment: dict[Annotated[str, AfterValidator(_variable)], Text] = _field(
        "Environment variables of the workers.", "a mapping of names to texts", default={}
    )
    preload: Annotated[tuple[Word, ...], _ONE_OR_MORE] = _field(
        "Modules imported once before workers are started; they must start no thread and use no GPU.",
        "a list of module names",
        default=(),
    )
    checkpoints: str | None = _field(
        "Where checkpoints go; in the job's own bucket where it is left out.",
        "s3://bucket/prefix or an absolute folder",
        default=None,
        pattern="^(s3://[^/]|/)",
    )
    max_hours: float = _field("The job ends after so many hours.", "a number up to 720", default=24, gt=0, le=24 * 30)
    region: str | None = _field(
        "AWS region; --region wins.",
        "a region's name, e.g. us-west-2",
        default=None,
        pattern=r"^[a-z]{2}(-[a-z]+)+-\d$",
    )
    bucket: str | None = _field(
        "S3 bucket for code, state and checkpoints; `elastic-aws-{account}-{region}` where it is left out.",
        "a bucket's name",
        default=None,
        pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
    )
    subnets: Annotated[tuple[Word, ...], _ONE_OR_MORE] = _field(
        "Subnets of one VPC; the default VPC's where it is left out.", "a list of subnet ids", default=()
    )
    machine_image: str | None = _field(
        "Machine image of the workers; AWS's own for GPU or CPU where it is left out.",
        "an AMI id, or the path of an SSM parameter that holds one",
        default=None,
        pattern=r"^(ami-[0-9a-f]+|/.+)$",
    )
    volume_gb: int = _field("Each worker's disk.", "a number of GB from 8 to 16384", default=100, ge=8, le=16384)
    store_instance_type: Annotated[str, AfterValidator(_known_type)] = _field(
        "What the store runs on.", "an EC2 instance type", default="m7i.large"
    )
    timing: Timing = Field(
        description="Times the agents go by, in seconds.",
        default=Timing(),
        json_schema_extra={ALLOWED: f"a mapping of {', '.join(Timing.model_fields)}", "default": {}},
    )

    @model_validator(mode="after")
    def _fits(self) -> JobSpec:
        if self.image is not None and self.venv is not None:
            raise ValueError("image and venv exclude each other: workers run in one of them")
        if self.script_place is ScriptPlace.IMAGE and self.image is None:
            raise ValueError(f"script {self.script!r} is inside a container image, but no image is given")
        if self.script.startswith((IMAGE_SCHEME, S3_SCHEME)) and self.code is not None:
            raise ValueError(f"script {self.script!r} is not in the code folder: leave code out, or name a path in it")
        if self.workers_per_node == "gpu":
            known = [instance_type(name) for name in self.instance_types]
            without = [each.name for each in known if each is not None and not each.gpus]
            if without:
                raise ValueError(
                    f"workers_per_node is gpu, but {', '.join(without)} has no GPU: "
                    "choose types with GPUs, or workers_per_node: auto or a number"
                )
        return self

    @property
    def time_limit(self) -> timedelta:
        """How long the job may run."""
        return timedelta(hours=self.max_hours)

    @property
    def script_place(self) -> ScriptPlace:
        """Which of the four forms the script has."""
        if self.script.startswith(IMAGE_SCHEME):
            return ScriptPlace.IMAGE
        if self.script.startswith(S3_SCHEME) or (self.code or "").startswith(S3_SCHEME):
            return ScriptPlace.S3
        return ScriptPlace.FILE if self.code is None else ScriptPlace.FOLDER

    @property
    def program(self) -> Program:
        """What a worker runs: relative to the bundle's top, or absolute inside the container image."""
        if self.script_place is ScriptPlace.IMAGE:
            script = "/" + self.script.removeprefix(IMAGE_SCHEME).lstrip("/")
        elif self.code is None:
            script = self.script.rpartition("/")[2]
        else:
            script = self.script
        return Program(script=script, arguments=self.arguments)
