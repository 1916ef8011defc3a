"""What the names in a stack's template stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from elastic_aws.local_cloud.intrinsic_functions import NO_VALUE, Scope, TemplateError, evaluate
from elastic_aws.local_cloud.stack_resources import Made, Place
from elastic_aws.local_cloud.template import Template


def stack_scope(
    place: Place,
    template: Template,
    parameters: Mapping[str, str],
    made: Mapping[str, Made],
    parameter_store: Callable[[str], str],
) -> Scope:
    """The scope in which a stack's template is evaluated; `made` is looked at when a name is asked for."""
    pseudo: dict[str, Any] = {
        "AWS::AccountId": place.account,
        "AWS::NoValue": NO_VALUE,
        "AWS::NotificationARNs": [],
        "AWS::Partition": "aws",
        "AWS::Region": place.region,
        "AWS::StackId": place.stack_id,
        "AWS::StackName": place.stack,
        "AWS::URLSuffix": "amazonaws.com",
    }
    typed = {name: _typed(template.parameters[name], text, parameter_store) for name, text in parameters.items()}

    def reference(name: str) -> Any:
        for known in (pseudo, typed):
            if name in known:
                return known[name]
        if name in made:
            return made[name].physical_id
        raise TemplateError(f"Template format error: Unresolved resource dependencies [{name}]")

    def attribute(name: str, wanted: str) -> Any:
        if name not in made:
            raise TemplateError(f"Template error: instance of Fn::GetAtt references undefined resource {name}")
        return made[name].attribute(wanted)

    def condition(name: str) -> bool:
        if name not in template.conditions:
            raise TemplateError(f"Template format error: Unresolved condition {name}")
        return bool(evaluate(template.conditions[name], scope))

    scope = Scope(
        reference=reference,
        attribute=attribute,
        condition=condition,
        mappings=template.mappings,
        zones=lambda region: [f"{region or place.region}{letter}" for letter in "abc"],
        parameter=parameter_store,
        exported=_exported,
    )
    return scope


def _exported(name: str) -> Any:
    raise TemplateError(f"No export named {name} found.")


def _typed(declared: Mapping[str, Any], text: str, parameter_store: Callable[[str], str]) -> Any:
    kind = declared["Type"]
    if kind.startswith("AWS::SSM::Parameter::Value<"):
        text = parameter_store(text)
        kind = kind.removeprefix("AWS::SSM::Parameter::Value<").removesuffix(">")
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [part.strip() for part in text.split(",")]
    return text
