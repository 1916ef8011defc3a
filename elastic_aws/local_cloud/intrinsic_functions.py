"""CloudFormation's intrinsic functions, and what a piece of a template refers to. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NO_VALUE = object()
"""What `AWS::NoValue` evaluates to; the property that holds it vanishes."""

_PLACEHOLDER = re.compile(r"\$\{(!?)([^{}]*)\}")
_DYNAMIC = re.compile(r"\{\{resolve:(ssm|ssm-secure|secretsmanager):([^}]+)\}\}")


class TemplateError(Exception):
    """The template cannot mean anything. The message is CloudFormation's where that is known."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What names in a template stand for.

    `reference` answers `Ref`, `attribute` answers `Fn::GetAtt`; both raise TemplateError for what does not exist.
    """

    reference: Callable[[str], Any]
    attribute: Callable[[str, str], Any]
    condition: Callable[[str], bool]
    mappings: Mapping[str, Any]
    zones: Callable[[str], list[str]]
    parameter: Callable[[str], str]
    exported: Callable[[str], Any]


def evaluate(value: Any, scope: Scope) -> Any:
    """The value with every function in it replaced by its result. Raises: TemplateError."""
    if isinstance(value, dict):
        if len(value) == 1:
            name, argument = next(iter(value.items()))
            if name in {"Ref", "Condition"} or name.startswith("Fn::"):
                return _call(name, argument, scope)
        members = {key: evaluate(member, scope) for key, member in value.items()}
        return {key: member for key, member in members.items() if member is not NO_VALUE}
    if isinstance(value, list):
        return [member for member in (evaluate(member, scope) for member in value) if member is not NO_VALUE]
    if isinstance(value, str):
        return _DYNAMIC.sub(lambda match: _dynamic(match, scope), value)
    return value


def _dynamic(match: re.Match[str], scope: Scope) -> str:
    service, name = match.groups()
    if service != "ssm":
        raise TemplateError(f"the local cloud cannot resolve {match.group()}: only ssm")
    return scope.parameter(re.sub(r":\d+$", "", name))


def _call(name: str, argument: Any, scope: Scope) -> Any:
    match name:
        case "Ref":
            return scope.reference(argument)
        case "Condition":
            return scope.condition(argument)
        case "Fn::GetAtt":
            resource, _, attribute = (
                argument.partition(".") if isinstance(argument, str) else (argument[0], "", argument[1])
            )
            return scope.attribute(resource, evaluate(attribute, scope))
        case "Fn::If":
            return evaluate(argument[1] if scope.condition(argument[0]) else argument[2], scope)
        case "Fn::Sub":
            return _substitute(argument, scope)
    function = _FUNCTIONS.get(name)
    if function is None:
        raise TemplateError(f"Template format error: Unrecognized function {name}")
    return function(evaluate(argument, scope), scope)


def _substitute(argument: Any, scope: Scope) -> str:
    text, given = argument if isinstance(argument, list) else (argument, {})
    own = {key: evaluate(value, scope) for key, value in given.items()}

    def replace(match: re.Match[str]) -> str:
        literal, name = match.groups()
        if literal:
            return f"${{{name}}}"
        if name in own:
            return str(own[name])
        resource, dot, attribute = name.partition(".")
        return str(scope.attribute(resource, attribute) if dot else scope.reference(name))

    return str(evaluate(_PLACEHOLDER.sub(replace, text), scope))


def _find_in_map(argument: list[Any], scope: Scope) -> Any:
    found: Any = scope.mappings
    for key in argument[:3]:
        if not isinstance(found, Mapping) or key not in found:
            raise TemplateError(f"Template error: Unable to get mapping for {'::'.join(map(str, argument[:3]))}")
        found = found[key]
    return found


def _select(argument: list[Any], _: Scope) -> Any:
    index, values = int(argument[0]), argument[1]
    if not 0 <= index < len(values):
        raise TemplateError(f"Template error: Fn::Select cannot select nonexistent value at index {index}")
    return values[index]


_FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Fn::And": lambda values, _: all(values),
    "Fn::Base64": lambda text, _: base64.b64encode(str(text).encode()).decode(),
    "Fn::Equals": lambda values, _: _text(values[0]) == _text(values[1]),
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAZs": lambda region, scope: scope.zones(region or ""),
    "Fn::ImportValue": lambda name, scope: scope.exported(name),
    "Fn::Join": lambda values, _: values[0].join(_text(part) for part in values[1]),
    "Fn::Length": lambda values, _: len(values),
    "Fn::Not": lambda values, _: not values[0],
    "Fn::Or": lambda values, _: any(values),
    "Fn::Select": _select,
    "Fn::Split": lambda values, _: values[1].split(values[0]),
    "Fn::ToJsonString": lambda value, _: json.dumps(value, separators=(",", ":")),
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def references(value: Any) -> Iterator[str]:
    """Names that a piece of a template refers to: of parameters, resources and pseudo parameters."""
    if isinstance(value, list):
        for member in value:
            yield from references(member)
    elif isinstance(value, dict):
        for name, argument in value.items():
            if name == "Ref":
                yield argument
            elif name == "Fn::GetAtt":
                yield argument.partition(".")[0] if isinstance(argument, str) else argument[0]
            elif name == "Fn::Sub":
                yield from _sub_references(argument)
            else:
                yield from references(argument)


def _sub_references(argument: Any) -> Iterator[str]:
    text, given = argument if isinstance(argument, list) else (argument, {})
    for literal, name in _PLACEHOLDER.findall(text):
        if not literal and name not in given:
            yield name.partition(".")[0]
    yield from references(list(given.values()))
