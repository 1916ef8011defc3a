"""What an auto scaling group does next, for any group that can be seen."""

from hypothesis import given
from hypothesis import strategies as st

from elastic_aws.local_cloud.scaling_rules import (
    Forget,
    GroupSeen,
    Launch,
    MemberSeen,
    NoRoom,
    Phase,
    Retire,
    Terminate,
    next_moves,
)

ZONES = ("a", "b", "c")


def member(number: int, *, zone: str = "a", phase: Phase = Phase.IN_SERVICE, alive: bool = True) -> MemberSeen:
    return MemberSeen(instance=f"i-{number}", zone=zone, order=number, phase=phase, alive=alive)


@st.composite
def groups(draw: st.DrawFn) -> GroupSeen:
    size = draw(st.integers(0, 6))
    members = tuple(
        member(number, zone=draw(st.sampled_from(ZONES)), phase=draw(st.sampled_from(list(Phase))))
        for number in range(size)
    )
    room = draw(st.none() | st.integers(0, 3))
    return GroupSeen(desired=draw(st.integers(0, 6)), zones=ZONES, members=members, room=room)


@given(groups())
def test_a_group_moves_to_its_desired_capacity_and_not_beyond(seen: GroupSeen) -> None:
    counted = sum(one.phase.counts for one in seen.members)
    moves = next_moves(seen)
    launches = sum(isinstance(move, Launch) for move in moves)
    retired = sum(isinstance(move, Retire) for move in moves)
    missing = sum(move.missing for move in moves if isinstance(move, NoRoom))
    assert counted + launches + missing - retired == seen.desired
    assert not (launches and retired)


def test_launches_fill_the_emptiest_zone_first() -> None:
    seen = GroupSeen(desired=4, zones=ZONES, members=(member(1, zone="b"),))
    assert [move.zone for move in next_moves(seen) if isinstance(move, Launch)] == ["a", "c", "a"]


def test_a_lost_instance_is_forgotten_before_anything_else() -> None:
    seen = GroupSeen(desired=2, zones=ZONES, members=(member(1, alive=False), member(2)))
    assert next_moves(seen) == (Forget(instance="i-1", planned=False),)


def test_a_hook_that_is_over_ends_the_instance() -> None:
    waiting = MemberSeen(instance="i-1", zone="a", order=1, phase=Phase.TERMINATING_WAIT, alive=True, wait_over=True)
    assert next_moves(GroupSeen(desired=0, zones=ZONES, members=(waiting,))) == (Terminate(instance="i-1"),)


def test_a_rebalance_launches_the_replacement_before_it_retires() -> None:
    old = MemberSeen(instance="i-1", zone="a", order=1, phase=Phase.IN_SERVICE, alive=True, replaced=True)
    before = next_moves(GroupSeen(desired=1, zones=ZONES, members=(old,)))
    after = next_moves(GroupSeen(desired=1, zones=ZONES, members=(old, member(2))))
    assert [type(move) for move in before] == [Launch]
    assert [move.instance for move in after if isinstance(move, Retire)] == ["i-1"]
