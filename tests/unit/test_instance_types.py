"""The table of instance types."""

from __future__ import annotations

from elastic_aws.instance_types import instance_type, instance_type_names


def test_a_gpu_type_tells_its_gpus_and_a_cpu_type_has_none() -> None:
    known = {name: instance_type(name) for name in ("g5.xlarge", "g5.12xlarge", "p5.48xlarge", "m7i.large")}
    assert {name: found and (found.gpus, found.vcpus, found.memory_gib) for name, found in known.items()} == {
        "g5.xlarge": (1, 4, 16),
        "g5.12xlarge": (4, 48, 192),
        "p5.48xlarge": (8, 192, 2048),
        "m7i.large": (0, 2, 8),
    }


def test_an_unknown_type_is_none_and_every_listed_one_is_known() -> None:
    assert instance_type("g5.tiny") is None
    assert all(instance_type(name) is not None for name in instance_type_names())
