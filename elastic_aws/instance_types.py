"""The EC2 instance types that a job may name, with what decides whether it can run there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One type: its GPUs, virtual CPUs and memory, and the processor family that its machine image must have."""

    name: str
    gpus: int
    vcpus: int
    memory_gib: int
    architecture: str = "x86_64"


def instance_type(name: str) -> InstanceType | None:
    """The type of this name; None where the table has no such type."""
    return _TYPES.get(name)


def instance_type_names() -> tuple[str, ...]:
    """All names of the table, sorted."""
    return tuple(sorted(_TYPES))


def why_unknown(name: str) -> str:
    """Why the table has no type of this name, and what to name instead.

    The table is elastic-aws's, not EC2's: a type that is missing there may well exist.
    """
    small, names = name.lower(), instance_type_names()
    same_family = [known for known in names if known.partition(".")[0] == small.partition(".")[0]]
    near = get_close_matches(small, same_family, n=3, cutoff=0) or get_close_matches(small, names, n=3)
    meant = f"did you mean {' or '.join(near)}?" if near else f"it knows the families {', '.join(_families())}"
    shape = _EC2_NAME.fullmatch(name)
    if shape is None:
        return f"no such instance type; {meant}"
    for lacks, letters in _UNFIT.items():
        if re.fullmatch(letters, shape["family"]):
            return f"elastic-aws cannot use this type: {lacks}; {meant}"
    return (
        f"not in elastic-aws's table of known types, though EC2 may have it; {meant} "
        "Choose one of the table, or add the type to elastic_aws/instance_types.py"
    )


def _families() -> list[str]:
    return sorted({name.partition(".")[0] for name in _TYPES})


_EC2_NAME = re.compile(
    r"(?P<family>[a-z]+-?[0-9][a-z0-9-]*)\.(nano|micro|small|medium|large|([1-9][0-9]*)?xlarge|metal(-[0-9]+xl)?)"
)
"""The form of every EC2 type's name: a family with its generation, and a size. Source: EC2 User Guide, naming."""

# what a family lacks: the form of its name. Source: EC2 User Guide, naming: `g` after the generation is Graviton.
_UNFIT = {
    "its processor is Arm, and elastic-aws's machine images are for x86_64": r"a1|[a-z]+[0-9]+g[a-z]*(-.*)?|p6e-gb.*",
    "its GPUs are AMD's, and elastic-aws's machine images have drivers for NVIDIA's": r"g4ad",
    "its accelerators are no GPUs": r"(trn|inf|dl|vt|f)[0-9].*",
    "it runs macOS": r"mac[0-9].*",
}

# family: (size, GPUs, vCPUs, GiB of memory). Source: AWS's "Accelerated computing" instance type tables.
_GPU_SIZES: dict[str, tuple[tuple[str, int, int, int], ...]] = {
    "g4dn": (
        ("xlarge", 1, 4, 16),
        ("2xlarge", 1, 8, 32),
        ("4xlarge", 1, 16, 64),
        ("8xlarge", 1, 32, 128),
        ("12xlarge", 4, 48, 192),
        ("16xlarge", 1, 64, 256),
        ("metal", 8, 96, 384),
    ),
    "g5": (
        ("xlarge", 1, 4, 16),
        ("2xlarge", 1, 8, 32),
        ("4xlarge", 1, 16, 64),
        ("8xlarge", 1, 32, 128),
        ("12xlarge", 4, 48, 192),
        ("16xlarge", 1, 64, 256),
        ("24xlarge", 4, 96, 384),
        ("48xlarge", 8, 192, 768),
    ),
    "g6": (
        ("xlarge", 1, 4, 16),
        ("2xlarge", 1, 8, 32),
        ("4xlarge", 1, 16, 64),
        ("8xlarge", 1, 32, 128),
        ("12xlarge", 4, 48, 192),
        ("16xlarge", 1, 64, 256),
        ("24xlarge", 4, 96, 384),
        ("48xlarge", 8, 192, 768),
    ),
    "g6e": (
        ("xlarge", 1, 4, 32),
        ("2xlarge", 1, 8, 64),
        ("4xlarge", 1, 16, 128),
        ("8xlarge", 1, 32, 256),
        ("12xlarge", 4, 48, 384),
        ("16xlarge", 1, 64, 512),
        ("24xlarge", 4, 96, 768),
        ("48xlarge", 8, 192, 1536),
    ),
    "p3": (("2xlarge", 1, 8, 61), ("8xlarge", 4, 32, 244), ("16xlarge", 8, 64, 488)),
    "p3dn": (("24xlarge", 8, 96, 768),),
    "p4d": (("24xlarge", 8, 96, 1152),),
    "p4de": (("24xlarge", 8, 96, 1152),),
    "p5": (("4xlarge", 1, 16, 256), ("48xlarge", 8, 192, 2048)),
    "p5e": (("48xlarge", 8, 192, 2048),),
    "p5en": (("48xlarge", 8, 192, 2048),),
    "p6-b200": (("48xlarge", 8, 192, 2048),),
}

# size: vCPUs, for the families without GPUs that come in all of these sizes.
_VCPUS = {
    "large": 2,
    "xlarge": 4,
    "2xlarge": 8,
    "4xlarge": 16,
    "8xlarge": 32,
    "12xlarge": 48,
    "16xlarge": 64,
    "24xlarge": 96,
}

# family: GiB of memory a vCPU.
_MEMORY_PER_VCPU = {
    "c5": 2,
    "c6a": 2,
    "c6i": 2,
    "c7a": 2,
    "c7i": 2,
    "m5": 4,
    "m6a": 4,
    "m6i": 4,
    "m7a": 4,
    "m7i": 4,
    "r5": 8,
    "r6a": 8,
    "r6i": 8,
    "r7a": 8,
    "r7i": 8,
}

# c5 alone grew differently: 9 and 18 times xlarge's half instead of 8 and 16.
_C5_VCPUS = {
    "large": 2,
    "xlarge": 4,
    "2xlarge": 8,
    "4xlarge": 16,
    "9xlarge": 36,
    "12xlarge": 48,
    "18xlarge": 72,
    "24xlarge": 96,
}

# size: (vCPUs, GiB of memory), for t3 and t3a.
_BURSTABLE = {"medium": (2, 4), "large": (2, 8), "xlarge": (4, 16), "2xlarge": (8, 32)}


def _all_types() -> Iterator[InstanceType]:
    for family, sizes in _GPU_SIZES.items():
        for size, gpus, vcpus, memory in sizes:
            yield InstanceType(name=f"{family}.{size}", gpus=gpus, vcpus=vcpus, memory_gib=memory)
    for family, ratio in _MEMORY_PER_VCPU.items():
        for size, vcpus in (_C5_VCPUS if family == "c5" else _VCPUS).items():
            yield InstanceType(name=f"{family}.{size}", gpus=0, vcpus=vcpus, memory_gib=vcpus * ratio)
    for family in ("t3", "t3a"):
        for size, (vcpus, memory) in _BURSTABLE.items():
            yield InstanceType(name=f"{family}.{size}", gpus=0, vcpus=vcpus, memory_gib=memory)


_TYPES = {known.name: known for known in _all_types()}
