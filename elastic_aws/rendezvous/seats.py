"""Who gets which ranks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastic_aws.round_record import Endpoint, MemberRecord, RoundRecord, Seat


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member as the store has it; `created` is the revision at which its key was created."""

    record: MemberRecord
    created: int


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Seats in rank order, and the TCP store of the first."""

    seats: tuple[Seat, ...]
    endpoint: Endpoint


def take_seats(members: Sequence[Member], before: RoundRecord | None, *, at_most: int) -> Placed | None:
    """Seat the members: those of the round before in their order, then the others by arrival.

    The first seat goes to one whose endpoint has not served the round before; None while there is none.
    """
    old = {seat.node: index for index, seat in enumerate(before.seats)} if before else {}
    ordered = sorted(members, key=lambda member: (old.get(member.record.node, len(old)), member.created))[:at_most]
    used = before.endpoint if before else None
    first = next((member for member in ordered if member.record.endpoint != used), None)
    if first is None:
        return None
    ordered.remove(first)
    seats: list[Seat] = []
    rank = 0
    for member in (first, *ordered):
        record = member.record
        seats.append(Seat(node=record.node, first_rank=rank, workers=record.workers, member=member.created))
        rank += record.workers
    return Placed(seats=tuple(seats), endpoint=first.record.endpoint)
