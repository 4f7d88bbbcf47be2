"""The lane of a run: what leaves a run's lane does so behind its ticket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay.run_lane import TicketedLane
from deadletter.replay.ticket import ReplayOutcome, Ticket, TicketsUnavailable, confirmation_by
from deadletter.routing.decision import Hold
from tests.each_row import each_row


class Room:
    """Answers each call with what was asked; `stays` are copies that it does not delete."""

    def __init__(self) -> None:
        self.stays: set[str] = set()
        self.deleted: list[str] = []
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def answer(*arguments: Any) -> Any:
            self.asked.append((name, arguments))
            return name, arguments

        return answer

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        self.deleted += [confirmation.copy for _, confirmation in letters]
        return [received for received, _ in letters if received.letter.message_id in self.stays]


class TicketRows:
    """The tickets, and the order in which they are written."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Ticket] = {}
        self.fails = False

    def put(self, tickets: Sequence[Ticket]) -> None:
        if self.fails:
            raise TicketsUnavailable("throttled")
        for ticket in tickets:
            self.rows.setdefault((ticket.origin, ticket.copy), ticket)

    def read(self, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Ticket]:
        return {key: self.rows[key] for key in keys if key in self.rows}


def ticket(copy: str, fate: ReplayOutcome = ReplayOutcome.SENT) -> Ticket:
    return Ticket(
        run="r",
        origin=f"first-{copy}",
        copy=copy,
        shard=1,
        position=0,
        attempt=1,
        at=0.0,
        fate=fate,
    )


def received(copy: str) -> ReceivedLetter:
    return ReceivedLetter(Letter(copy, "{}"), "", 0.0)


def sent(*copies: str) -> list[tuple[ReceivedLetter, Confirmation]]:
    return [(received(copy), Confirmation(copy, "test")) for copy in copies]


def order(copy: str) -> Order:
    return Order(received(copy), Hold("parked", 0.0, "stopped"), Stamp(copy))


class Bench:
    def __init__(self) -> None:
        self.inner, self.rows, self.tally = Room(), TicketRows(), Tally()
        inner: Any = self.inner
        rows: Any = self.rows
        self.room = TicketedLane(inner, rows, self.tally)


def ids(letters: Sequence[ReceivedLetter]) -> list[str]:
    return [letter.letter.message_id for letter in letters]


def test_an_item_is_deleted_behind_its_ticket_and_one_without_a_ticket_stays() -> None:
    bench = Bench()
    bench.room.expect({"a": ticket("a"), "b": ticket("b")})
    bench.inner.stays = {"b"}
    assert ids(bench.room.delete(sent("a", "b", "stranger"))) == ["stranger", "b"]
    assert bench.inner.deleted == ["a", "b"]
    assert set(bench.rows.rows) == {("first-a", "a"), ("first-b", "b")}
    assert (bench.room.gone, bench.room.ticketed) == ({"a"}, {"a", "b"})


def test_nothing_is_deleted_where_no_letter_has_a_ticket() -> None:
    bench = Bench()
    assert ids(bench.room.delete(sent("stranger"))) == ["stranger"]
    assert (bench.inner.deleted, bench.rows.rows) == ([], {})


def test_nothing_is_deleted_while_tickets_are_refused() -> None:
    bench = Bench()
    bench.room.expect({"a": ticket("a")})
    bench.rows.fails = True
    assert ids(bench.room.delete(sent("a", "stranger"))) == ["a", "stranger"]
    assert (bench.inner.deleted, bench.room.gone, bench.room.ticketed) == ([], set(), set())
    assert bench.tally.report("orders", "dlq", "").trouble == "throttled"


@each_row(
    ("stands", "is_deleted"),
    [
        (None, True),
        (ReplayOutcome.DISCARDED, True),
        (ReplayOutcome.LEFT, False),
        (ReplayOutcome.QUARANTINED, False),
    ],
)
def test_a_letter_that_has_left_is_not_discarded_too(
    stands: ReplayOutcome | None, is_deleted: bool
) -> None:
    bench = Bench()
    if stands is not None:
        bench.rows.put([ticket("a", stands)])
    bench.room.expect({"a": ticket("a", ReplayOutcome.DISCARDED), "b": ticket("b")})
    left = ids(bench.room.delete(sent("a", "b")))
    assert left == ([] if is_deleted else ["a"])
    assert bench.inner.deleted == (["a", "b"] if is_deleted else ["b"])
    assert bench.room.gone == set(bench.inner.deleted)


def test_new_expectations_take_the_place_of_what_was_known() -> None:
    bench = Bench()
    bench.room.expect({"a": ticket("a")})
    bench.room.delete(sent("a"))
    bench.room.expect({"b": ticket("b")})
    assert ("a" in bench.room, "b" in bench.room) == (False, True)
    assert bench.room.expected("b") == ticket("b")
    assert (bench.room.gone, bench.room.ticketed) == (set(), set())


def test_an_end_that_was_told_is_owed_until_the_item_is_deleted() -> None:
    bench = Bench()
    bench.room.expect({"a": ticket("a"), "b": ticket("b")})
    told = ticket("a", ReplayOutcome.RECOVERED)
    assert bench.room.confirm({"a": ReplayOutcome.RECOVERED}) == {"a": confirmation_by(told)}
    assert (bench.room.owed("a"), bench.room.owed("b")) == (told, None)
    bench.inner.stays = {"a"}
    bench.room.delete(sent("a"))
    assert bench.room.owed("a") == told
    assert bench.rows.rows["first-a", "a"].fate is ReplayOutcome.RECOVERED
    bench.inner.stays = set()
    bench.room.delete(sent("a"))
    assert bench.room.owed("a") is None


def test_a_letter_leaves_for_another_lane_only_behind_a_ticket() -> None:
    bench, leaving = Bench(), order("a")
    with pytest.raises(RoomUnavailable, match="only behind a ticket"):
        bench.room.postpone(leaving)
    assert (bench.inner.asked, bench.room.gone) == ([], set())
    bench.room.put_ahead([ticket("a", ReplayOutcome.STOPPED)])
    bench.room.postpone(leaving)
    assert bench.inner.asked == [("postpone", (leaving,))]
    assert bench.room.gone == {"a"}
    assert ("first-a", "a") in bench.rows.rows
