"""CloudFormation's functions and the order of resources, as the local cloud reads them."""

from typing import Any

import pytest

from elastic_aws.local_cloud.intrinsic_functions import NO_VALUE, Scope, TemplateError, evaluate
from elastic_aws.local_cloud.template import parameter_values, parse_template


def reference(name: str) -> Any:
    known = {"Name": "digits", "AWS::NoValue": NO_VALUE, "Subnets": ["s-1", "s-2"]}
    if name not in known:
        raise TemplateError(name)
    return known[name]


SCOPE = Scope(
    reference=reference,
    attribute=lambda resource, attribute: f"{resource}/{attribute}",
    condition=lambda name: name == "Yes",
    mappings={"Sizes": {"small": {"gpu": "1"}}},
    zones=lambda region: [f"{region or 'r'}a", f"{region or 'r'}b"],
    parameter=lambda name: f"value of {name}",
    exported=lambda name: name,
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"Fn::Sub": "${Name}-${!x}-${A.Arn}"}, "digits-${x}-A/Arn"),
        ({"Fn::Sub": ["${own}", {"own": {"Ref": "Name"}}]}, "digits"),
        ({"Fn::Join": [",", {"Ref": "Subnets"}]}, "s-1,s-2"),
        ({"Fn::Select": [1, {"Ref": "Subnets"}]}, "s-2"),
        ({"Fn::Select": ["0", {"Fn::GetAZs": ""}]}, "ra"),
        ({"Fn::If": ["Yes", 1, 2]}, 1),
        ({"a": {"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}, "b": 2}, {"b": 2}),
        ({"Fn::FindInMap": ["Sizes", "small", "gpu"]}, "1"),
        ({"Fn::Base64": "x"}, "eA=="),
        ("{{resolve:ssm:/image:3}}", "value of /image"),
    ],
)
def test_functions_mean_what_cloudformation_means(written: Any, meant: Any) -> None:
    assert evaluate(written, SCOPE) == meant


def test_resources_come_after_what_they_need_and_circles_are_refused() -> None:
    resource = "{Type: T, Properties: {x: !GetAtt B.Arn}}"
    template = parse_template(f"Resources:\n  A: {resource}\n  B: {{Type: T, DependsOn: C}}\n  C: {{Type: T}}\n")
    assert template.order() == ["C", "B", "A"]
    circle = parse_template("Resources:\n  A: {Type: T, DependsOn: B}\n  B: {Type: T, DependsOn: A}\n")
    with pytest.raises(TemplateError, match="Circular dependency"):
        circle.order()
    unknown = parse_template("Resources:\n  A: {Type: T, Properties: {x: !Ref Nobody}}\n")
    with pytest.raises(TemplateError, match=r"Unresolved resource dependencies \[Nobody\]"):
        unknown.check_references()


def test_parameters_are_checked() -> None:
    template = parse_template(
        "Parameters: {N: {Type: Number, Default: 1}, V: {Type: String}}\nResources: {A: {Type: T}}\n"
    )
    assert parameter_values(template, {"V": "x"}) == {"N": "1", "V": "x"}
    for given, why in (({}, "must have values"), ({"V": "x", "N": "y"}, "a number"), ({"W": "", "V": ""}, "not exist")):
        with pytest.raises(TemplateError, match=why):
            parameter_values(template, given)
