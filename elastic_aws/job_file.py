"""Reading a job file: YAML with the line of every fault, the flags that override it, and where its script is."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from elastic_aws.errors import UsageError
from elastic_aws.job import JobSpec, Nodes, ScriptPlace, Venv
from elastic_aws.node_config import ALLOWED, Timing

_PARTS: dict[str, type[BaseModel]] = {"nodes": Nodes, "venv": Venv, "timing": Timing}
_TEXTS = {"arguments", "environment", "setup"}
"""Fields below which whatever stands is text, exactly as it is written: `010`, `1e3`, `yes`, `~`."""

_IMPLICIT = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "null", "bool", "timestamp", "value", "merge")}
_TEXT_TAG, _NULL_TAG, _MERGE_TAG = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "merge"))

_SCHEMA_HINT = "elastic-aws schema   lists every field; elastic-aws init   writes a commented example"


@dataclass(frozen=True, kw_only=True)
class JobFile:
    """A checked job: its spec, and the local folder that a relative `code` or `script` starts from."""

    spec: JobSpec
    folder: Path

    @property
    def source(self) -> Path | None:
        """The folder or file to pack; None where the code is in S3 or in the image."""
        match self.spec.script_place:
            case ScriptPlace.FILE:
                return self.folder / self.spec.script
            case ScriptPlace.FOLDER:
                return self.folder / str(self.spec.code)
            case _:
                return None


def load(
    path: Path, *, overrides: Mapping[str, Any] | None = None, arguments: tuple[str, ...] | None = None
) -> JobFile:
    """Read and check a job file. Paths in it are relative to it; overrides and arguments replace what it says.

    An override of `target`, `environment` or `venv` replaces only the parts that it names.

    Raises: UsageError that names the file, the line, the field, its value and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"no job file {path}", why="it does not exist", hint="elastic-aws init") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", why=str(error)) from error
    fields, lines = _parse(text, path)
    over = {name: value for name, value in (overrides or {}).items() if value is not None}
    if arguments is not None:
        over["arguments"] = arguments
    _merge_parts(fields, over)
    spec = check({**fields, **over}, where=str(path), lines={k: v for k, v in lines.items() if k not in over})
    try:
        located = _located(spec, path.parent, path)
    except (OSError, RuntimeError) as error:  # a name too long, a folder closed to us, a link to itself
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path}: script is {spec.script!r}: it cannot be looked for", why=why) from error
    return JobFile(spec=located, folder=path.parent)


def check(fields: Mapping[str, Any], *, where: str, lines: Mapping[str, int] | None = None) -> JobSpec:
    """The spec that these fields make. Raises: UsageError."""
    try:
        return JobSpec.model_validate(fields)
    except ValidationError as error:
        faults = list(dict.fromkeys(_fault(one, lines or {}) for one in _own_faults(error.errors())))
        if len(faults) == 1:
            raise UsageError(f"{where}: {faults[0]}", hint=_SCHEMA_HINT) from error
        listed = "".join(f"\n  {fault}" for fault in faults)
        raise UsageError(f"{where} has {len(faults)} faults", why=listed, hint=_SCHEMA_HINT) from error


def _own_faults(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Each fault once: a bad item also makes its list too short, and `nodes: two` makes three bad numbers."""
    inner = {error["loc"][:1] for error in errors if len(error["loc"]) > 1}
    others = [error for error in errors if error["type"] != "too_short" or error["loc"] not in inner]
    once: dict[tuple[Any, ...], ErrorDetails] = {}
    for error in others:
        of_a_name = error["type"] in {"extra_forbidden", "missing"}
        once.setdefault((error["loc"] if of_a_name else error["loc"][:1], error["type"], repr(error["input"])), error)
    return [*once.values()]


def _merge_parts(fields: dict[str, Any], over: dict[str, Any]) -> None:
    """`--target 4` changes one number of `nodes`, `--env A=1` one variable, wherever the others come from.

    A field that is no mapping where it must be one stays as it is: it is refused with its own value.
    """
    parts: dict[str, Any] = {name: over.pop(name) for name in ("environment", "venv") if name in over}
    if (target := over.pop("target", None)) is not None:
        parts["nodes"] = {"target": target}
    for name, part in parts.items():
        whole = over.get(name, fields.get(name))
        if name == "nodes" and isinstance(whole, str | int):
            low, colon, high = str(whole).partition(":")
            whole = {"min": low, "max": high if colon else low}
        if whole is None or isinstance(whole, dict):
            over[name] = {**(whole or {}), **part}


class _Loader(yaml.SafeLoader):
    """YAML in which `2:8`, `yes` and dates are text: no field of a job is of base 60, a boolean or a date.

    A key that stands twice, or that is no text, is a fault, and so is a value that its tag does not fit.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a field's name must be a text", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands here twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError) as error:  # what PyYAML's converters raise
            problem = f"{str(node.value)[:40]!r} is no {node.tag.rpartition(':')[2]}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error


_REPLACED = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "timestamp")}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if tag not in _REPLACED]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(0|[1-9][0-9_]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?$"),
    list("-+0123456789."),
)


def _as_written(node: yaml.Node, done: dict[int, yaml.Node]) -> yaml.Node:
    """The same tree with every implicitly typed scalar as text; `<<` as a key still merges.

    Copied, because an alias may stand in another field too, where `2` is a number.
    """
    if id(node) in done:
        return done[id(node)]
    if isinstance(node, yaml.ScalarNode):
        tag = _TEXT_TAG if node.tag in _IMPLICIT else node.tag
        return yaml.ScalarNode(tag, node.value, node.start_mark, node.end_mark, node.style)
    if not isinstance(node, yaml.CollectionNode):
        return node
    copy = done[id(node)] = type(node)(node.tag, [], node.start_mark, node.end_mark)
    if isinstance(node, yaml.MappingNode):
        copy.value = [
            (key if key.tag == _MERGE_TAG else _as_written(key, done), _as_written(value, done))
            for key, value in node.value
        ]
    else:
        copy.value = [_as_written(item, done) for item in node.value]
    return copy


def _texts_as_written(node: yaml.Node) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for place, (key, value) in enumerate(node.value):
        if key.tag == _MERGE_TAG:
            _texts_as_written(value)
        elif isinstance(key, yaml.ScalarNode) and key.value in _TEXTS and value.tag != _NULL_TAG:
            node.value[place] = (key, _as_written(value, {}))


def _parse(text: str, path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise UsageError(f"{path} is empty", hint="elastic-aws init")
        _texts_as_written(node)
        fields = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{path}{place}: broken YAML", why=error.problem or str(error)) from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: broken YAML", why=" ".join(str(error).split())) from error
    except RecursionError as error:
        raise UsageError(f"{path}: broken YAML", why="lists or mappings stand too deep in each other") from error
    if not isinstance(node, yaml.MappingNode) or not isinstance(fields, dict):
        raise UsageError(f"{path} is no job file", why="it must be a mapping of fields", hint="elastic-aws init")
    return fields, {str(key.value): key.start_mark.line + 1 for key, _ in node.value}


def _fault(error: ErrorDetails, lines: Mapping[str, int]) -> str:
    """One sentence: the line, the field, its value, what is wrong, what is allowed."""
    keys = _keys(error["loc"])
    name = ".".join(str(key) for key in keys)
    line = f"line {lines[str(keys[0])]}: " if keys and str(keys[0]) in lines else ""
    if error["type"] == "extra_forbidden":
        return f"{line}unknown field {name}{_near(keys)}"
    if error["type"] == "missing":
        return f"{name} is missing; allowed: {_allowed(keys)}"
    message = _plain(error)
    if not keys:
        return message
    allowed = _allowed(keys)
    value = error["input"]
    # pydantic tells a number of seconds as what it has made of it.
    shown = f"{value.total_seconds():g}" if isinstance(value, timedelta) else repr(value)
    return f"{line}{name} is {shown}: {message}" + (f"; allowed: {allowed}" if allowed else "")


def _keys(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The place in the file: pydantic adds the tried alternatives of a union."""
    if place and place[0] == "workers_per_node":
        return place[:1]
    return tuple(key for key in place if key != "[key]")


def _plain(error: ErrorDetails) -> str:
    if error["loc"] and error["loc"][0] == "workers_per_node":
        return "not possible"
    if error["type"] == "string_pattern_mismatch":
        return "not of the right form"
    if error["type"] == "string_unicode":
        return "not UTF-8 text"
    return error["msg"].removeprefix("Value error, ")


def _model_field(keys: tuple[int | str, ...]) -> tuple[type[BaseModel], str] | None:
    if len(keys) > 1 and (part := _PARTS.get(str(keys[0]))) is not None and str(keys[1]) in part.model_fields:
        return part, str(keys[1])
    if keys and str(keys[0]) in JobSpec.model_fields:
        return JobSpec, str(keys[0])
    return None


def _allowed(keys: tuple[int | str, ...]) -> str:
    if (found := _model_field(keys)) is None:
        return ""
    extra = found[0].model_fields[found[1]].json_schema_extra
    return str(extra.get(ALLOWED, "")) if isinstance(extra, dict) else ""


def _near(keys: tuple[int | str, ...]) -> str:
    model: type[BaseModel] = _PARTS.get(str(keys[0]), JobSpec) if len(keys) > 1 else JobSpec
    names = list(model.model_fields)
    near = get_close_matches(str(keys[-1]), names, n=1)
    return f"; did you mean {near[0]}?" if near else f"; allowed: {', '.join(names)}"


def _located(spec: JobSpec, folder: Path, path: Path) -> JobSpec:
    """The spec with its script checked, and named relative to the code folder. Raises: UsageError."""
    match spec.script_place:
        case ScriptPlace.FILE:
            if not (folder / spec.script).is_file():
                raise UsageError(
                    f"{path}: script is {spec.script!r}: no such file in {folder}", hint="script: train.py"
                )
            return spec
        case ScriptPlace.FOLDER:
            return spec.model_copy(update={"script": _script_in(spec, folder, path)})
        case _:
            return spec


def _script_in(spec: JobSpec, folder: Path, path: Path) -> str:
    code = folder / str(spec.code)
    if not code.is_dir():
        raise UsageError(f"{path}: code is {spec.code!r}: no such folder in {folder}", hint="code: .")
    inside = code.resolve()
    for candidate in (code / spec.script, folder / spec.script):
        real = candidate.resolve()
        if real.is_file():
            if not real.is_relative_to(inside):
                why = f"{real} is not below {inside}, and only the code folder travels to the nodes"
                raise UsageError(f"{path}: script is {spec.script!r}: outside the code folder", why=why)
            return real.relative_to(inside).as_posix()
    raise UsageError(
        f"{path}: script is {spec.script!r}: no such file in the code folder {code}", hint="script: train.py"
    )
