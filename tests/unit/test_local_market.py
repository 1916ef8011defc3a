"""The spot market's script: what a file may say, and whom an act concerns."""

from datetime import timedelta

import pytest

from elastic_aws.errors import UsageError
from elastic_aws.local_cloud.market import Interrupt, Scheduled, SetCapacity, SpotInstance, choose, parse_script, room

RUNNING = [SpotInstance(id=f"i-{number}", order=number) for number in (2, 1, 3)]


def test_a_script_is_sorted_by_time() -> None:
    script = parse_script("- {at: 9, interrupt: oldest, notice: 2}\n- {at: 1.5, capacity: 0}\n")
    assert script == (
        Scheduled(at=timedelta(seconds=1.5), act=SetCapacity(instances=0)),
        Scheduled(at=timedelta(seconds=9), act=Interrupt(target="oldest", notice=timedelta(seconds=2))),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- {interrupt: 1}", "at is missing"),
        ("- {at: 1}", "exactly one of"),
        ("- {at: -1, capacity: 1}", "seconds from 0"),
        ("- {at: 1, interrupt: everyone}", "no target"),
        ("- {at: 1, capacity: 1, colour: red}", "unknown: colour"),
        ("at: 1", "it is a dict"),
        ("- {at: [", "line 1"),
    ],
)
def test_a_bad_script_is_refused_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_script(text)
    assert why in str(refused.value.why)


def test_an_act_never_hits_an_instance_twice_unless_it_is_named() -> None:
    seen = [*RUNNING, SpotInstance(id="i-0", order=0, noticed=True)]
    assert choose("oldest", seen) == ["i-1"]
    assert choose("newest", seen) == ["i-3"]
    assert choose(2, seen) == ["i-1", "i-2"]
    assert choose("i-0", seen) == ["i-0"]
    assert choose("i-9", seen) == []


def test_room_is_what_the_capacity_leaves() -> None:
    assert (room(None, 9), room(3, 1), room(1, 3)) == (None, 2, 0)
