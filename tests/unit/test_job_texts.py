"""Arguments, variables and set-up commands in a job file arrive exactly as they are written there."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from elastic_aws.errors import UsageError
from elastic_aws.job import JobSpec
from elastic_aws.job_file import load

HEAD = "name: digits\nscript: train.py\nnodes: 2:8\ninstance_types: g5.xlarge\n"
TYPED = ["1_000", "1.10", "1e3", "010", "0x1F", "2:8", "yes", "No", "2024-01-01", "~", "null", ".inf", "+1", "<<", "="]


def job(folder: Path, text: str) -> JobSpec:
    (folder / "train.py").touch()
    file = folder / "job.yaml"
    file.write_text(HEAD + text)
    return load(file).spec


def test_what_yaml_takes_for_a_number_a_boolean_or_a_date_stays_as_it_is_written(tmp_path: Path) -> None:
    assert job(tmp_path, f"arguments: [{', '.join(TYPED)}]\n").arguments == tuple(TYPED)
    assert job(tmp_path, "arguments:\n" + "".join(f"- {text}\n" for text in TYPED)).arguments == tuple(TYPED)
    assert job(tmp_path, "setup: [true, 010]\n").setup == ("true", "010")
    variables = "".join(f"  V{place}: {text}\n" for place, text in enumerate(TYPED))
    assert [*job(tmp_path, "environment:\n" + variables).environment.values()] == TYPED


def test_a_variable_may_have_the_name_of_a_boolean(tmp_path: Path) -> None:
    assert job(tmp_path, "environment: {NO: 1, y: 0}\n").environment == {"NO": "1", "y": "0"}


def test_a_value_shared_with_a_number_is_text_only_where_text_is_wanted(tmp_path: Path) -> None:
    loaded = job(tmp_path, "workers_per_node: &n 2\narguments: [--workers, *n]\n")
    assert (loaded.workers_per_node, loaded.arguments) == (2, ("--workers", "2"))


def test_variables_may_be_merged_from_another_mapping(tmp_path: Path) -> None:
    loaded = job(tmp_path, "environment: {<<: {A: 010, B: 1}, B: 2}\n")
    assert loaded.environment == {"A": "010", "B": "2"}


def test_other_fields_have_their_types_and_know_neither_booleans_nor_dates(tmp_path: Path) -> None:
    assert job(tmp_path, "volume_gb: 50\nmax_hours: 1.5\n").volume_gb == 50
    with pytest.raises(UsageError, match=r"line 5: timing\.lease is 'yes'"):
        job(tmp_path, "timing: {lease: yes}\n")


def test_a_text_that_cannot_be_passed_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 6: arguments\.1 is '\\ud800': not UTF-8 text"):
        job(tmp_path, 'volume_gb: 50\narguments: [a, "\\uD800"]\n')
    with pytest.raises(UsageError, match=r"line 5: arguments is None: .*allowed: a list of texts"):
        job(tmp_path, "arguments:\n")
    with pytest.raises(UsageError, match=r"line 5: arguments\.0 is .*allowed: a list of texts"):
        job(tmp_path, "arguments: &a [*a]\n")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_every_text_that_yaml_can_write_arrives(tmp_path_factory: pytest.TempPathFactory, arguments: list[str]) -> None:
    loaded = job(tmp_path_factory.mktemp("job"), yaml.safe_dump({"arguments": arguments}, allow_unicode=False))
    assert loaded.arguments == tuple(arguments)
