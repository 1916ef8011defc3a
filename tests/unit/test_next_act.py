from __future__ import annotations

from itertools import product

import pytest

from elastic_aws.agent.lifecycle import Act, GroupState, Seen, next_act
from elastic_aws.round_record import (
    Endpoint,
    OutcomeRecord,
    OutcomeState,
    RoundPhase,
    RoundReason,
    RoundRecord,
    Seat,
)

ENDED = OutcomeRecord(state=OutcomeState.SUCCEEDED, reason="")
ACTIVE = {GroupState.RUNNING, GroupState.DRAINING}


def a_round(number: int = 2, phase: RoundPhase = RoundPhase.RUNNING, incarnation: str = "x") -> RoundRecord:
    seats = (
        (Seat(node="n", first_rank=0, workers=1, incarnation=incarnation),) if phase is not RoundPhase.WAITING else ()
    )
    endpoint = Endpoint(host="127.0.0.1", port=1)
    return RoundRecord(number=number, phase=phase, reason=RoundReason.FIRST, detail="", seats=seats, endpoint=endpoint)


def seen(
    *,
    round: RoundRecord | None = None,  # noqa: A002 - the field's word
    outcome: OutcomeRecord | None = None,
    group: GroupState = GroupState.NONE,
    group_round: int = 0,
    leaving: bool = False,
    must_go_now: bool = False,
) -> Seen:
    return Seen(
        node="n",
        incarnation="x",
        round=round,
        outcome=outcome,
        group=group,
        group_round=group_round,
        leaving=leaving,
        must_go_now=must_go_now,
    )


@pytest.mark.parametrize(
    ("situation", "act"),
    [
        (seen(), Act.WAIT),
        (seen(round=a_round()), Act.START_WORKERS),
        (seen(round=a_round(incarnation="an earlier life")), Act.WAIT),
        (seen(round=a_round(), group=GroupState.RUNNING, group_round=2), Act.WAIT),
        (seen(round=a_round(phase=RoundPhase.DRAINING), group=GroupState.RUNNING, group_round=2), Act.DRAIN_WORKERS),
        (seen(round=a_round(phase=RoundPhase.DRAINING), group=GroupState.DRAINING, group_round=2), Act.WAIT),
        (seen(round=a_round(3), group=GroupState.RUNNING, group_round=2), Act.STOP_WORKERS),
        (seen(round=a_round(3), group=GroupState.DRAINED, group_round=2), Act.START_WORKERS),
        (seen(round=a_round(3, RoundPhase.WAITING), group=GroupState.RUNNING, group_round=2), Act.STOP_WORKERS),
        (seen(round=a_round(), group=GroupState.FAILED, group_round=2), Act.WAIT),
        (seen(round=a_round(), group=GroupState.RUNNING, group_round=2, leaving=True), Act.WAIT),
        (seen(round=a_round(3, RoundPhase.WAITING), group=GroupState.DRAINED, group_round=2, leaving=True), Act.LEAVE),
        (seen(round=a_round(), group=GroupState.RUNNING, group_round=2, must_go_now=True), Act.STOP_WORKERS),
        (seen(outcome=ENDED, group=GroupState.RUNNING), Act.STOP_WORKERS),
        (seen(outcome=ENDED, group=GroupState.FINISHED), Act.END),
    ],
)
def test_each_situation_has_its_act(situation: Seen, act: Act) -> None:
    assert next_act(situation) is act


def every_situation() -> list[Seen]:
    rounds = [None, *(a_round(number, phase) for number in (1, 2, 3) for phase in RoundPhase)]
    return [
        seen(round=r, outcome=outcome, group=group, group_round=2, leaving=leaving, must_go_now=leaving and now)
        for r, outcome, group, leaving, now in product(rounds, (None, ENDED), GroupState, (False, True), (False, True))
    ]


def test_workers_are_never_started_over_living_ones_nor_by_a_node_that_goes() -> None:
    for situation in every_situation():
        if next_act(situation) is Act.START_WORKERS:
            assert situation.group not in ACTIVE
            assert not situation.leaving
            assert situation.outcome is None
            assert situation.round is not None
            assert situation.round.number > situation.group_round


def test_a_node_never_goes_while_its_workers_live() -> None:
    for situation in every_situation():
        if next_act(situation) in (Act.LEAVE, Act.END):
            assert situation.group not in ACTIVE


def test_an_end_or_an_order_to_go_is_never_waited_out() -> None:
    for situation in every_situation():
        if situation.outcome is not None or situation.must_go_now:
            assert next_act(situation) in (Act.STOP_WORKERS, Act.LEAVE, Act.END)
