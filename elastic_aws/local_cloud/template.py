"""A CloudFormation template as read: its parameters, its conditions, the order of its resources. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from elastic_aws.local_cloud.intrinsic_functions import TemplateError, references

MAX_BODY_BYTES = 51_200
"""Longest template given in the call itself. Source: CloudFormation quotas."""

IAM_TYPES = frozenset({"Role", "InstanceProfile", "Policy", "ManagedPolicy", "User", "Group", "AccessKey"})


@dataclass(frozen=True, kw_only=True)
class Template:
    """A parsed template."""

    body: str
    description: str
    parameters: dict[str, dict[str, Any]]
    mappings: dict[str, Any]
    conditions: dict[str, Any]
    resources: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]

    def order(self) -> list[str]:
        """The resources, each after all that it refers to. Raises: TemplateError for a circle or a missing name."""
        known = set(self.resources)
        needs = {name: self._needs(name, known) for name in self.resources}
        ordered: list[str] = []
        while needs:
            ready = [name for name, needed in needs.items() if not needed - set(ordered)]
            if not ready:
                circle = ", ".join(sorted(needs))
                raise TemplateError(f"Circular dependency between resources: [{circle}]")
            ordered.extend(ready)
            needs = {name: needed for name, needed in needs.items() if name not in ready}
        return ordered

    def needs(self, name: str) -> set[str]:
        """The resources which a resource refers to or names in DependsOn."""
        return self._needs(name, set(self.resources))

    def _needs(self, name: str, known: set[str]) -> set[str]:
        resource = self.resources[name]
        after = resource.get("DependsOn", [])
        explicit = {after} if isinstance(after, str) else set(after)
        if missing := explicit - known:
            raise TemplateError(f"Template format error: Unresolved resource dependencies {sorted(missing)}")
        return (set(references(resource.get("Properties", {}))) & known) | explicit

    def check_references(self) -> None:
        """Raises: TemplateError when something refers to a name that the template does not have."""
        known = set(self.resources) | set(self.parameters)
        for block, content in (("Resources", self.resources), ("Outputs", self.outputs)):
            used = {name for name in references(content) if not name.startswith("AWS::")}
            if missing := sorted(used - known):
                names = ", ".join(missing)
                message = f"Template format error: Unresolved resource dependencies [{names}]"
                raise TemplateError(f"{message} in the {block} block of the template")

    def needed_capabilities(self) -> set[str]:
        """CAPABILITY_IAM for IAM resources, CAPABILITY_NAMED_IAM where one has a name of its own."""
        needed: set[str] = set()
        for resource in self.resources.values():
            service, _, kind = resource["Type"].removeprefix("AWS::").partition("::")
            if service == "IAM" and kind in IAM_TYPES:
                named = any(key in resource.get("Properties", {}) for key in (f"{kind}Name", "ManagedPolicyName"))
                needed.add("CAPABILITY_NAMED_IAM" if named and kind != "Policy" else "CAPABILITY_IAM")
        return {"CAPABILITY_NAMED_IAM"} if "CAPABILITY_NAMED_IAM" in needed else needed


def parse_template(body: str) -> Template:
    """Read a template in JSON or YAML, short forms such as `!Ref` included. Raises: TemplateError."""
    try:
        content = json.loads(body) if body.lstrip().startswith("{") else yaml.load(body, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (ValueError, yaml.YAMLError) as error:
        raise TemplateError(f"Template format error: {error}") from error
    if not isinstance(content, dict) or not content.get("Resources"):
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    for name, resource in content["Resources"].items():
        if not isinstance(resource, dict) or "Type" not in resource:
            raise TemplateError(
                f"Template format error: [/Resources/{name}] Every Resources object must contain a Type member."
            )
        if not re.fullmatch(r"[A-Za-z0-9]+", name):
            raise TemplateError(f"Template format error: Resource name {name} is non alphanumeric.")
    return Template(
        body=body,
        description=content.get("Description", ""),
        parameters=content.get("Parameters", {}),
        mappings=content.get("Mappings", {}),
        conditions=content.get("Conditions", {}),
        resources=content["Resources"],
        outputs=content.get("Outputs", {}),
    )


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms."""


def _short_form(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    value: Any
    if isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    else:
        value = node.value
    return {suffix: value} if suffix in {"Ref", "Condition"} else {f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_form)


def parameter_values(template: Template, given: Mapping[str, str]) -> dict[str, str]:
    """The text of every parameter: given or default. Raises: TemplateError as CloudFormation refuses them."""
    if unknown := sorted(set(given) - set(template.parameters)):
        raise TemplateError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values, missing = {}, []
    for name, declared in template.parameters.items():
        if name in given:
            values[name] = given[name]
        elif "Default" in declared:
            values[name] = str(declared["Default"])
        else:
            missing.append(name)
    if missing:
        raise TemplateError(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in values.items():
        _check_parameter(name, value, template.parameters[name])
    return values


def _check_parameter(name: str, value: str, declared: Mapping[str, Any]) -> None:
    allowed = declared.get("AllowedValues")
    if allowed is not None and value not in [str(choice) for choice in allowed]:
        choices = ", ".join(map(str, allowed))
        raise TemplateError(f"Parameter '{name}' must be one of AllowedValues [{choices}]")
    pattern = declared.get("AllowedPattern")
    if pattern is not None and not re.fullmatch(pattern, value):
        described = declared.get("ConstraintDescription")
        raise TemplateError(described or f"Parameter '{name}' must match pattern {pattern}")
    if len(value) < int(declared.get("MinLength", 0)):
        raise TemplateError(f"Parameter '{name}' must contain at least {declared['MinLength']} characters")
    if declared["Type"] == "Number" and not re.fullmatch(r"-?\d+(\.\d+)?", value):
        raise TemplateError(f"Parameter '{name}' must be a number")
