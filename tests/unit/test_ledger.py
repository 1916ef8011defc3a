from __future__ import annotations

import json

import pytest

from elastic_aws.errors import CheckpointError
from elastic_aws.training.ledger import Committed, EpochAudit, audit, read_committed
from elastic_aws.training.ledger_lines import to_lines


def committed(*entries: tuple[int, int, list[int]], epoch: int, sample: int = 0) -> Committed:
    return Committed(lines=tuple(to_lines(entries).decode().splitlines()), epoch=epoch, sample=sample)


def test_a_whole_epoch_is_clean() -> None:
    assert audit(committed((1, 0, [2, 0]), (1, 0, [1]), epoch=1), dataset_size=3) == (
        EpochAudit(epoch=0, missed=0, repeated=0),
    )


def test_a_missed_and_a_repeated_sample_are_both_seen() -> None:
    assert audit(committed((1, 0, [0, 1]), (2, 0, [1]), epoch=1), dataset_size=3) == (
        EpochAudit(epoch=0, missed=1, repeated=1),
    )


def test_an_epoch_without_any_entry_is_missed_whole() -> None:
    assert audit(committed((1, 0, [0]), (2, 2, [0]), epoch=3), dataset_size=1)[1] == EpochAudit(
        epoch=1, missed=1, repeated=0
    )


def test_an_unfinished_epoch_is_held_against_what_it_claims() -> None:
    assert audit(committed((1, 0, [4, 2]), epoch=0, sample=3), dataset_size=9) == (
        EpochAudit(epoch=0, missed=1, repeated=0),
    )


def test_an_index_outside_the_dataset_replaces_no_sample() -> None:
    assert audit(committed((1, 0, [0, 7]), epoch=1), dataset_size=2) == (EpochAudit(epoch=0, missed=1, repeated=1),)


def test_a_chain_with_a_hole_is_an_error(tmp_path) -> None:
    folder = tmp_path / "step-5-round-1"
    folder.mkdir()
    manifest = {"position": {"step": 5, "epoch": 0, "sample": 5, "samples": 5}, "parent": "x/step-1-round-1"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "step-5-round-1.jsonl").write_text("")
    with pytest.raises(CheckpointError, match="step-1-round-1"):
        read_committed(str(folder))
