"""What is installed where: a laptop needs no torch, a node no troposphere, and the lists that say so agree."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from elastic_aws.bundle import pack_wheel

ROOT = Path(__file__).parents[2]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "elastic_aws", "agent", "cli", "templates")
BUILD = "import sys, setuptools.build_meta as backend; backend.build_wheel(sys.argv[1])"
LAPTOP_ONLY = {"click", "pathspec", "rich", "troposphere", "yaml"}
NODE_ONLY = {"google", "grpc", "psutil", "torch"}

IMPORT_ALL = """
import importlib, pkgutil, sys
blocked, left_out, *rooms = (argument.split(",") for argument in sys.argv[1:])
sys.modules |= dict.fromkeys(blocked)  # None there makes an import fail
for (room,) in rooms:
    package = importlib.import_module(room)
    for module in pkgutil.walk_packages(package.__path__, room + "."):
        if module.name not in left_out and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built by setuptools, as pip does it, from a copy: a build leaves traces."""
    copy = tmp_path_factory.mktemp("source")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, copy / part)
    subprocess.run([sys.executable, "-c", BUILD, "dist"], cwd=copy, check=True, capture_output=True, timeout=120)
    (built,) = (copy / "dist").glob("*.whl")
    return zipfile.ZipFile(built)


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def required(wheel: zipfile.ZipFile, extra: str = "") -> set[str]:
    """Names of the packages that the wheel asks for: by itself, or with an extra besides."""
    marker = f'extra == "{extra}"' if extra else ""
    rows = [row.partition(";") for row in metadata(wheel).get_all("Requires-Dist", [])]
    return {re.split(r"[^\w.-]", row.strip())[0].lower() for row, _, condition in rows if condition.strip() == marker}


def test_what_a_node_installs_is_the_agent_extra_without_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = [line for line in project["optional-dependencies"]["agent"] if not line.startswith("torch")]
    lines = (ROOT / "agent/requirements.txt").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == extra


def test_no_laptop_is_asked_for_torch_and_no_node_for_troposphere(wheel: zipfile.ZipFile) -> None:
    assert "troposphere" in required(wheel)
    assert "torch" in required(wheel, "agent")
    assert not required(wheel) & {"torch", "torchvision", "grpcio", "moto"}
    assert not required(wheel, "agent") & {"troposphere", "click", "rich", "moto"}


def test_a_built_wheel_holds_what_a_job_s_wheel_holds(wheel: zipfile.ZipFile) -> None:
    packed = zipfile.ZipFile(io.BytesIO(pack_wheel().content))
    built, sent = ({name for name in each.namelist() if ".dist-info/" not in name} for each in (wheel, packed))
    assert built == sent


@pytest.mark.parametrize(
    ("blocked", "rooms"),
    [
        (NODE_ONLY, ["elastic_aws.cli", "elastic_aws.templates"]),
        (LAPTOP_ONLY, ["elastic_aws.agent", "elastic_aws.store", "elastic_aws.training"]),
    ],
    ids=["laptop", "node"],
)
def test_every_module_of_a_room_is_imported_without_what_its_machine_has_not(
    blocked: set[str], rooms: list[str]
) -> None:
    waits_for_an_agent = "elastic_aws.agent.preload"
    command = [sys.executable, "-c", IMPORT_ALL, ",".join(sorted(blocked)), waits_for_an_agent, *rooms]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
