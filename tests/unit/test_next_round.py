from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_aws.node_config import Timing
from elastic_aws.rendezvous.next_round import Decision, End, Keep, Seen, Write, next_round
from elastic_aws.round_record import (
    Bounds,
    Endpoint,
    Failure,
    MemberRecord,
    MemberState,
    OutcomeState,
    RoundPhase,
    RoundReason,
    RoundRecord,
)

TIMING = Timing(lease=timedelta(seconds=2), max_restarts=2)
BOUNDS = Bounds(min=2, max=4, target=3)


def member(node: str, port: int = 0, **changes: object) -> MemberRecord:
    endpoint = Endpoint(host="127.0.0.1", port=port or ord(node[0]))
    record = MemberRecord(node=node, address="127.0.0.1", workers=1, endpoint=endpoint, incarnation="1")
    return replace(record, **changes)  # type: ignore[arg-type] # fields of the record


def seen(
    nodes: tuple[MemberRecord, ...],
    *,
    round: RoundRecord | None = None,  # noqa: A002 - the field's word
    now: float = 0.0,
    committed: int = 0,
    bounds: Bounds = BOUNDS,
    failed_at: float | None = None,
) -> Seen:
    return Seen(
        bounds=bounds,
        round=round,
        members=nodes,
        committed_step=committed,
        timing=TIMING,
        now=now,
        min_met_at=0.0 if sum(not each.leaving for each in nodes) >= bounds.min else None,
        last_arrival_at=0.0,
        phase_since=0.0,
        failed_at=failed_at,
    )


def written(decision: Decision) -> RoundRecord:
    assert isinstance(decision, Write), decision
    return decision.record


def running(*nodes: str) -> tuple[RoundRecord, tuple[MemberRecord, ...]]:
    """A round of these nodes whose workers run, every endpoint fresh again."""
    first = tuple(member(node) for node in nodes)
    bounds = Bounds(min=1, max=len(nodes), target=len(nodes))
    record = written(next_round(seen(first, bounds=bounds)))
    now = tuple(
        replace(each, state=MemberState.RUNNING, round=1, endpoint=Endpoint(host="127.0.0.1", port=1000 + index))
        for index, each in enumerate(first)
    )
    return record, now


def failed(record: MemberRecord, **changes: object) -> MemberRecord:
    failure = Failure(node=record.node, rank=0, round=record.round, exit_code=42, message="boom")
    return replace(record, state=MemberState.FAILED, failure=replace(failure, **changes))  # type: ignore[arg-type] # any field


def test_first_round_is_formed_at_once_when_the_target_is_there() -> None:
    record = written(next_round(seen((member("a"), member("b"), member("c")))))
    assert (record.number, record.reason, record.world_size) == (1, RoundReason.FIRST, 3)


def test_first_round_waits_for_the_target_and_then_takes_the_minimum() -> None:
    two = (member("a"), member("b"))
    assert next_round(seen(two, now=119)) == Keep(until=120.0)
    assert written(next_round(seen(two, now=120))).world_size == 2
    assert next_round(seen((member("a"),), now=9999)) == Keep()


def test_a_lost_node_makes_a_smaller_round_at_once_with_ranks_kept() -> None:
    record, nodes = running("a", "b", "c")
    after = written(next_round(seen((nodes[0], nodes[2]), round=record)))
    assert (after.number, after.phase, after.reason) == (2, RoundPhase.RUNNING, RoundReason.NODE_LOST)
    assert [seat.node for seat in after.seats] == ["a", "c"]


def test_a_node_that_came_back_under_its_name_is_another_member() -> None:
    record, nodes = running("a", "b")
    back = member("b", incarnation="2")
    assert written(next_round(seen((nodes[0], back), round=record))).reason is RoundReason.NODE_LOST


def test_below_the_minimum_the_job_waits_aloud_and_goes_on_when_there_are_enough() -> None:
    record, nodes = running("a", "b")
    waiting = written(next_round(seen(nodes[:1], round=record)))
    assert (waiting.number, waiting.phase, waiting.seats) == (2, RoundPhase.WAITING, ())
    assert next_round(seen(nodes[:1], round=waiting)) == Keep()
    again = written(next_round(seen((nodes[0], member("c")), round=waiting)))
    assert (again.number, again.reason) == (3, RoundReason.ENOUGH_NODES_AGAIN)


def test_a_planned_leave_drains_first_and_seats_the_leaver_no_more() -> None:
    record, nodes = running("a", "b", "c")
    nodes = (nodes[0], replace(nodes[1], leaving=True), nodes[2])
    draining = written(next_round(seen(nodes, round=record)))
    assert (draining.number, draining.phase, draining.reason) == (1, RoundPhase.DRAINING, RoundReason.NODE_LEFT)
    assert isinstance(next_round(seen(nodes, round=draining)), Keep)
    drained = tuple(replace(each, state=MemberState.DRAINED) for each in nodes)
    after = written(next_round(seen(drained, round=draining)))
    assert (after.number, [seat.node for seat in after.seats]) == (2, ["a", "c"])


def test_arrivals_join_at_once_at_the_target_else_after_the_window() -> None:
    record, nodes = running("a", "b")
    three = (*nodes, member("c"))
    assert written(next_round(seen(three, round=record))).reason is RoundReason.NODES_JOINED
    more = replace(BOUNDS, target=4)
    assert next_round(seen(three, round=record, now=9, bounds=more)) == Keep(until=10.0)
    assert written(next_round(seen(three, round=record, now=10, bounds=more))).phase is RoundPhase.DRAINING


def test_a_drain_that_takes_too_long_is_ended() -> None:
    record, nodes = running("a", "b")
    draining = replace(record, phase=RoundPhase.DRAINING)
    assert next_round(seen(nodes, round=draining, now=59)) == Keep(until=60.0)
    assert written(next_round(seen(nodes, round=draining, now=60))).number == 2


def test_failures_without_progress_end_the_job_and_progress_forgives_them() -> None:
    record, nodes = running("a", "b")
    broken = (failed(nodes[0]), nodes[1])
    after = written(next_round(seen(broken, round=record)))
    assert (after.number, after.reason, after.restarts) == (2, RoundReason.WORKER_FAILED, 1)
    used_up = replace(record, restarts=2)
    end = next_round(seen(broken, round=used_up))
    assert isinstance(end, End)
    assert (end.outcome.state, end.outcome.exit_code) == (OutcomeState.FAILED, 42)
    assert end.outcome.failure == broken[0].failure
    forgiven = written(next_round(seen(broken, round=used_up, committed=1)))
    assert (forgiven.restarts, forgiven.progress_step) == (1, 1)


def test_an_echo_of_a_lost_node_counts_as_no_failure() -> None:
    record, nodes = running("a", "b", "c")
    echo = (failed(nodes[0], peer_lost=True), nodes[1])
    lost = written(next_round(seen(echo, round=record)))
    assert (lost.reason, lost.restarts) == (RoundReason.NODE_LOST, 0)
    unexplained = (*echo, nodes[2])
    assert next_round(seen(unexplained, round=record, failed_at=0.0)) == Keep(until=2.5)
    late = written(next_round(seen(unexplained, round=record, failed_at=0.0, now=2.5)))
    assert late.reason is RoundReason.WORKER_FAILED


def test_the_job_succeeds_only_when_every_seat_has_finished() -> None:
    record, nodes = running("a", "b")
    done = tuple(replace(each, state=MemberState.FINISHED) for each in nodes)
    assert next_round(seen((done[0], nodes[1]), round=record)) == Keep()
    end = next_round(seen(done, round=record))
    assert isinstance(end, End)
    assert end.outcome.state is OutcomeState.SUCCEEDED


def test_a_tcp_store_serves_no_second_round() -> None:
    record, nodes = running("a", "b", "c")
    assert record.endpoint is not None
    used = replace(nodes[0], endpoint=record.endpoint)
    assert next_round(seen((used, nodes[1]), round=record)) == Keep()
    assert written(next_round(seen((nodes[0], nodes[1]), round=record))).endpoint == nodes[0].endpoint


def test_what_a_member_said_of_an_earlier_round_counts_for_nothing() -> None:
    record, nodes = running("a", "b")
    later = replace(record, number=2)
    finished = tuple(replace(each, state=MemberState.FINISHED) for each in nodes)
    assert next_round(seen(finished, round=later)) == Keep()
    assert next_round(seen((failed(nodes[0]), nodes[1]), round=later)) == Keep()


@dataclass(kw_only=True)
class World:
    """Nodes that come, go and fail at random, and a leader that goes by the rules."""

    members: dict[str, MemberRecord] = field(default_factory=dict)
    round: RoundRecord | None = None
    now: float = 0.0
    last_arrival_at: float = 0.0
    phase_since: float = 0.0
    failed_at: float | None = None
    committed: int = 0
    ports: int = 0
    ended: bool = False
    history: list[RoundRecord] = field(default_factory=list)

    def settle(self) -> None:
        """Let the leader decide until it keeps; it must come to rest."""
        for _ in range(10):
            if self.ended:
                return
            match next_round(self.seen()):
                case Keep():
                    return
                case End():
                    self.ended = True
                case Write(record=record):
                    self.check(record)
                    self.history.append(record)
                    self.round, self.phase_since, self.failed_at = record, self.now, None
                    self.obey(record)
        raise AssertionError("the leader does not come to rest")

    def seen(self) -> Seen:
        return replace(
            seen(tuple(self.members.values()), round=self.round, now=self.now, committed=self.committed),
            last_arrival_at=self.last_arrival_at,
            phase_since=self.phase_since,
            failed_at=self.failed_at,
        )

    def check(self, record: RoundRecord) -> None:
        before = self.round
        if record.phase is RoundPhase.DRAINING:
            assert before is not None
            assert (record.number, record.seats, record.endpoint) == (before.number, before.seats, before.endpoint)
            return
        assert record.number == (before.number if before else 0) + 1
        if record.phase is RoundPhase.WAITING:
            assert not record.seats
            return
        assert BOUNDS.min <= len(record.seats) <= BOUNDS.max
        assert all(not self.members[seat.node].leaving for seat in record.seats)
        ranks = [rank for seat in record.seats for rank in range(seat.first_rank, seat.first_rank + seat.workers)]
        assert ranks == list(range(record.world_size))
        assert record.endpoint == self.members[record.seats[0].node].endpoint
        assert record.endpoint not in [each.endpoint for each in self.history if each.number != record.number]
        if before is not None:
            stayed = [seat.node for seat in before.seats if record.seat_of(seat.node)]
            assert stayed == [seat.node for seat in record.seats if before.seat_of(seat.node)]

    def obey(self, record: RoundRecord) -> None:
        """Every agent starts its workers; the first opens a fresh TCP store."""
        for seat in record.seats if record.phase is RoundPhase.RUNNING else ():
            self.change(seat.node, state=MemberState.RUNNING, round=record.number, failure=None)
        if record.phase is RoundPhase.RUNNING:
            self.change(record.seats[0].node, endpoint=self.endpoint())

    def endpoint(self) -> Endpoint:
        self.ports += 1
        return Endpoint(host="127.0.0.1", port=self.ports)

    def change(self, node: str, **changes: object) -> None:
        if node in self.members:
            self.members[node] = replace(self.members[node], **changes)  # type: ignore[arg-type] # any field

    def busy(self, node: str) -> bool:
        record = self.members.get(node)
        if record is None or self.round is None or self.round.seat_of(node) is None:
            return False
        return record.round == self.round.number and record.state is MemberState.RUNNING

    def happen(self, what: str, node: str) -> None:
        self.now += 1.0
        match what:
            case "join" if node not in self.members:
                self.members[node] = member(node, workers=1 + ord(node) % 2, incarnation=str(self.ports))
                self.change(node, endpoint=self.endpoint())
                self.last_arrival_at = self.now
            case "lose":
                self.members.pop(node, None)
            case "leave":
                self.change(node, leaving=True)
            case "drain" if self.busy(node) and self.round and self.round.phase is RoundPhase.DRAINING:
                self.change(node, state=MemberState.DRAINED)
            case "fail" | "echo" if self.busy(node):
                self.members[node] = failed(self.members[node], peer_lost=what == "echo")
                self.failed_at = self.now if self.failed_at is None else self.failed_at
            case "finish" if self.busy(node):
                self.change(node, state=MemberState.FINISHED)
            case "commit":
                self.committed += 1
            case "wait":
                self.now += 30.0
            case _:
                pass


_HAPPENINGS = st.sampled_from(
    ["join", "join", "join", "lose", "leave", "drain", "drain", "drain", "fail", "echo", "finish", "commit", "wait"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_HAPPENINGS, st.sampled_from("abcdef")), max_size=60))
def test_whatever_happens_rounds_only_grow_and_stay_within_bounds(happenings: list[tuple[str, str]]) -> None:
    world = World()
    for what, node in happenings:
        world.happen(what, node)
        world.settle()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_HAPPENINGS, st.sampled_from("abcdef")), max_size=40))
def test_after_any_past_enough_nodes_and_time_lead_to_a_running_round(happenings: list[tuple[str, str]]) -> None:
    world = World()
    for what, node in happenings:
        if what != "finish":
            world.happen(what, node)
            world.settle()
    for node in "xyz":
        world.happen("join", node)
        world.settle()
    for _ in range(8):
        world.happen("wait", "")
        world.settle()
    if not world.ended:
        assert world.round is not None
        assert world.round.phase is RoundPhase.RUNNING
