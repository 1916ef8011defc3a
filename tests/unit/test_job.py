"""A job file is understood or refused with its file, line, field, value and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_aws.errors import UsageError
from elastic_aws.job import JobSpec, ScriptPlace
from elastic_aws.job_file import check, load
from elastic_aws.node_config import MAX_DRAIN_SECONDS
from elastic_aws.templates.job_stack import job_stack

GOOD = {"name": "digits", "script": "train.py", "nodes": "1:4", "instance_types": ["g5.xlarge"]}


def job(folder: Path, text: str) -> Path:
    (folder / "train.py").write_text("print('hello')\n")
    file = folder / "job.yaml"
    file.write_text(text)
    return file


def spec(**fields: Any) -> JobSpec:
    return check(GOOD | fields, where="job.yaml")


def test_nodes_written_as_a_range_are_no_base_60_number(tmp_path: Path) -> None:
    file = job(tmp_path, "name: digits\nscript: train.py\nnodes: 2:8\ninstance_types: g5.xlarge\n")
    nodes = load(file).spec.nodes
    assert (nodes.min, nodes.max, nodes.target) == (2, 8, 2)


def test_one_number_of_nodes_is_minimum_and_maximum() -> None:
    nodes = spec(nodes=3).nodes
    assert (nodes.min, nodes.max, nodes.target) == (3, 3, 3)


def test_flags_replace_fields_and_arguments_and_a_target_keeps_the_bounds(tmp_path: Path) -> None:
    file = job(tmp_path, "name: digits\nscript: train.py\narguments: [a]\nnodes: 2:8\ninstance_types: g5.xlarge\n")
    loaded = load(file, overrides={"name": "other", "target": 5, "image": None}, arguments=("--lr", "1")).spec
    assert loaded.name == "other"
    assert (loaded.nodes.min, loaded.nodes.max, loaded.nodes.target) == (2, 8, 5)
    assert loaded.arguments == ("--lr", "1")


def test_numbers_in_arguments_and_environment_become_text() -> None:
    loaded = spec(arguments=["--epochs", 3, "--lr", 0.1], environment={"OMP_NUM_THREADS": 4})
    assert loaded.arguments == ("--epochs", "3", "--lr", "0.1")
    assert loaded.environment == {"OMP_NUM_THREADS": "4"}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_every_argument_stays_as_it_is(arguments: list[str]) -> None:
    loaded = spec(arguments=arguments)
    assert JobSpec.model_validate_json(loaded.model_dump_json()).program.arguments == tuple(arguments)


@pytest.mark.parametrize(
    ("fields", "place", "script"),
    [
        ({"script": "some/where/train.py"}, ScriptPlace.FILE, "train.py"),
        ({"script": "src/train.py", "code": "."}, ScriptPlace.FOLDER, "src/train.py"),
        ({"script": "s3://bucket/a/train.py"}, ScriptPlace.S3, "train.py"),
        ({"script": "a/train.py", "code": "s3://bucket/code.tar.gz"}, ScriptPlace.S3, "a/train.py"),
        ({"script": "image:///work/train.py", "image": "me/it:1"}, ScriptPlace.IMAGE, "/work/train.py"),
        ({"script": "image://work/train.py", "image": "me/it:1"}, ScriptPlace.IMAGE, "/work/train.py"),
    ],
)
def test_a_script_has_one_of_four_forms(fields: dict[str, str], place: ScriptPlace, script: str) -> None:
    loaded = spec(**fields)
    assert (loaded.script_place, loaded.program.script) == (place, script)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"scrpt": "x"}, ["unknown field scrpt", "did you mean script"]),
        ({"nodes": {"min": 1, "max": 2, "trget": 1}}, ["unknown field nodes.trget", "did you mean target"]),
        ({"nodes": "8:2"}, ["nodes is '8:2'", "min (8) is greater than max (2)", "allowed: 2, 2:8"]),
        ({"nodes": {"min": 1, "max": 2, "target": 3}}, ["target (3) is outside 1:2"]),
        ({"nodes": "two"}, ["nodes.min is 'two'", "allowed: a number from 1 on"]),
        ({"nodes": "0:2"}, ["nodes.min is '0'"]),
        ({"name": "My_Job"}, ["name is 'My_Job'", "lower-case letters, digits and dashes"]),
        ({"name": "a" * 41}, ["name is 'aaa", "at most 40 characters"]),
        ({"name": "job-"}, ["name is 'job-'"]),
        ({"instance_types": ["g5.xlrge"]}, ["instance_types.0 is 'g5.xlrge'", "did you mean", "g5.xlarge"]),
        ({"instance_types": ["c7i.48xlarge"]}, ["not in elastic-aws's table of known types", "c7i.24xlarge"]),
        ({"instance_types": ["c7g.large"]}, ["is 'c7g.large': elastic-aws cannot use this type", "Arm", "c7i.large"]),
        ({"instance_types": ["g4ad.xlarge"]}, ["cannot use this type: its GPUs are AMD's", "g4dn.xlarge"]),
        ({"instance_types": ["gpu"]}, ["is 'gpu': no such instance type", "it knows the families", "g5"]),
        ({"instance_types": []}, ["instance_types", "one or up to 20"]),
        ({"instance_types": ["c7i.large"], "workers_per_node": "gpu"}, ["workers_per_node is gpu", "c7i.large has no"]),
        ({"workers_per_node": "many"}, ["workers_per_node is 'many'", "auto", "gpu", "1 to 64"]),
        ({"workers_per_node": 0}, ["workers_per_node is 0", "1 to 64"]),
        ({"capacity": "cheap"}, ["capacity is 'cheap'", "spot or on-demand"]),
        ({"arguments": ["a\0b"]}, ["arguments.0", "NUL"]),
        ({"environment": {"A-B": "x"}}, ["A-B", "no name of an environment variable"]),
        ({"image": "a:1", "venv": {}}, ["image and venv exclude each other"]),
        ({"script": "image:///a.py"}, ["inside a container image, but no image is given"]),
        ({"script": "s3://b/a.py", "code": "."}, ["not in the code folder"]),
        ({"max_hours": 0}, ["max_hours is 0", "up to 720"]),
        ({"max_hours": float("nan")}, ["max_hours is nan", "up to 720"]),
        ({"image": ""}, ["image is ''", "allowed: an image reference"]),
        ({"image": "--privileged"}, ["image is '--privileged'", "allowed: an image reference"]),
        ({"script": ""}, ["script is ''", "allowed: a path"]),
        ({"code": ""}, ["code is ''", "allowed: a folder"]),
        ({"preload": [""]}, ["preload.0 is ''", "module names"]),
        ({"venv": {"requirements": [""]}}, ["venv.requirements.0 is ''", "pip requirements"]),
        ({"script": "s3://bucket/"}, ["script is 's3://bucket/': it names no object", "s3://bucket/key"]),
        ({"script": "s3://bucket"}, ["script is 's3://bucket': it names no object"]),
        ({"code": "s3://bucket/folder/"}, ["code is 's3://bucket/folder/': it names no object"]),
        ({"script": "image://", "image": "a"}, ["script is 'image://': it names no file"]),
        ({"script": "a\0b"}, ["script is", "NUL"]),
        ({"arguments": ["\udcff"]}, ["arguments.0 is '\\udcff': not UTF-8 text", "a list of texts"]),
        ({"environment": {"A": "\udcff"}}, ["environment.A is '\\udcff': not UTF-8 text"]),
        ({"name": "\udcff"}, ["name is '\\udcff': not UTF-8 text"]),
        ({"timing": {"lease": -5}}, ["timing.lease is -5", "from 1 to 60"]),
        ({"timing": {"lease": 0.5}}, ["timing.lease is 0.5", "from 1 to 60"]),
        ({"timing": {"lease": 61}}, ["timing.lease is 61", "from 1 to 60"]),
        ({"timing": {"first_round_wait": -1}}, ["timing.first_round_wait is -1", "from 0 to 3600"]),
        ({"timing": {"join_window": 601}}, ["timing.join_window is 601", "from 0 to 600"]),
        ({"timing": {"drain_timeout": 0}}, ["timing.drain_timeout is 0", "from 0.1 to 7170"]),
        ({"timing": {"drain_timeout": 100000}}, ["timing.drain_timeout is 100000", "from 0.1 to 7170"]),
        ({"timing": {"stop_timeout": float("inf")}}, ["timing.stop_timeout is inf", "from 0 to 300"]),
        ({"timing": {"max_restarts": -1}}, ["timing.max_restarts is -1", "from 0 to 1000"]),
        ({"timing": {"leese": 1}}, ["unknown field timing.leese", "did you mean lease"]),
        ({"timing": 5}, ["timing is 5", "a mapping of lease"]),
        ({"checkpoints": "here"}, ["checkpoints is 'here'", "s3://"]),
    ],
)
def test_a_bad_field_is_told_with_its_value_and_what_is_allowed(fields: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        spec(**fields)
    for part in said:
        assert part in str(refused.value)
    assert "faults" not in str(refused.value), "one fault is told once"


def test_the_longest_drain_fits_into_the_lifecycle_hook_of_its_template() -> None:
    template = json.loads(job_stack(spec(timing={"drain_timeout": MAX_DRAIN_SECONDS})))
    (hook,) = template["Resources"]["Workers"]["Properties"]["LifecycleHookSpecificationList"]
    assert hook["HeartbeatTimeout"] == 7200


def test_a_fault_is_told_with_its_line(tmp_path: Path) -> None:
    file = job(tmp_path, "name: digits\nscript: train.py\nnodes: 2:8\ninstance_types: [g5.xlarge]\nvolume_gb: 1\n")
    with pytest.raises(UsageError, match=r"job\.yaml: line 5: volume_gb is 1"):
        load(file)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        check({"name": "X", "nodes": 1, "instance_types": "g5.xlarge"}, where="job.yaml")
    assert "2 faults" in str(refused.value)
    assert "script is missing" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [a\nscript: b\n", r"line 2, column 7: broken YAML"),
        ("name: a\nname: b\n", r"line 2, column 1: broken YAML: 'name' stands here twice"),
        ("name: a\n\tscript: b\n", r"line 2, column 1: broken YAML"),
        ("- a\n", "must be a mapping of fields"),
        ("# nothing\n", "is empty"),
        ("name: !!python/object:os.system x\n", "broken YAML"),
        ("name: a\n? [b]\n: c\n", r"line 2, column 3: broken YAML: a field's name must be a text"),
        ("nodes: {? [b] : c}\n", r"line 1, column 11: broken YAML: a field's name must be a text"),
        ("name: a\nvolume_gb: !!int x\n", r"line 2, column 12: broken YAML: 'x' is no int"),
        ("name: !!timestamp x\n", r"line 1, column 7: broken YAML: 'x' is no timestamp"),
        (f"volume_gb: {'1' * 5000}\n", r"line 1, column 12: broken YAML: '1111.* is no int"),
        ("name: \x01\n", "broken YAML: unacceptable character"),
        (f"name: {'[' * 3000}\n", "too deep in each other"),
    ],
)
def test_broken_yaml_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(job(tmp_path, text))


def test_a_missing_job_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load(tmp_path / "none.yaml")


def located(folder: Path, *, script: str, code: str | None) -> str:
    lines = f"name: digits\nnodes: 1\ninstance_types: g5.xlarge\nscript: {script}\n"
    return load(job(folder, lines + (f"code: {code}\n" if code else ""))).spec.script


def test_a_script_is_named_from_the_code_folder(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.py").touch()
    assert located(tmp_path, script="main.py", code="src") == "main.py"
    assert located(tmp_path, script="src/main.py", code="src") == "main.py"


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("none.py", None, "no such file"),
        ("none.py", ".", "no such file in the code folder"),
        ("train.py", "none", "code is 'none': no such folder"),
        ("train.py", "src", "outside the code folder"),
        ("../train.py", "src", "outside the code folder"),
        ("a" * 300, None, "it cannot be looked for: File name too long"),
        ("a" * 300, ".", "it cannot be looked for: File name too long"),
    ],
)
def test_a_script_that_will_not_be_there_is_refused(tmp_path: Path, script: str, code: str | None, said: str) -> None:
    (tmp_path / "src").mkdir()
    with pytest.raises(UsageError, match=said):
        located(tmp_path, script=script, code=code)
