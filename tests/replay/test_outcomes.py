"""What became of letters that a run has sent, by their tickets and by the consumer's ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deadletter.failure.ledger import LedgerRow, Recovery
from deadletter.replay.lineup import (
    MOST_TRIES,
    Learned,
    RunLetter,
    Trail,
    learned,
    room_place,
    trails,
)
from deadletter.replay.names import Name, key_hash
from deadletter.replay.ticket import ReplayOutcome, Ticket
from tests.each_row import each_row

NOW = 1_800_000_000.0
SENT, OPEN, UNKNOWN = ReplayOutcome.SENT, ReplayOutcome.OPEN, ReplayOutcome.UNKNOWN


class Rows:
    """Tickets and ledger; each keeps how often it was asked."""

    def __init__(self, *tickets: Ticket, **ledger: LedgerRow) -> None:
        self.tickets = {(ticket.origin, ticket.copy): ticket for ticket in tickets}
        self.ledger = ledger
        self.reads: list[Sequence[tuple[str, str]]] = []
        self.asked: list[Sequence[str]] = []

    def read(self, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Ticket]:
        self.reads.append(keys)
        return {key: self.tickets[key] for key in keys if key in self.tickets}

    def settle(self, ticket: Ticket, fate: ReplayOutcome) -> Ticket:
        stored = self.tickets.get((ticket.origin, ticket.copy), ticket)
        return stored if stored.returned else replace(stored, fate=fate)

    def rows(self, origins: Sequence[str]) -> Mapping[str, LedgerRow]:
        self.asked.append(origins)
        return {origin: self.ledger[origin] for origin in origins if origin in self.ledger}


def place(copy: str) -> tuple[str, str]:
    return ("pk", f"at {copy}")


def letter(origin: str, sent: Ticket | None = None) -> RunLetter:
    name = Name(copy=f"{origin}0", origin=origin, place=place(f"{origin}0"), key=key_hash(origin))
    return RunLetter(name, 0, name.copy, room_place(name.place), ticket=sent)


def ticket(
    origin: str, number: int, fate: ReplayOutcome = SENT, *, is_back: bool = False
) -> Ticket:
    """The ticket of the letter's copy of that number; the next one is back."""
    back = f"{origin}{number + 1}"
    return Ticket(
        run="r",
        origin=origin,
        copy=f"{origin}{number}",
        shard=0,
        position=0,
        attempt=number + 1,
        at=NOW,
        fate=fate,
        returned=back if is_back else None,
        returned_place=json.dumps(place(back)) if is_back else None,
    )


def trail_of(origin: str, rows: Rows) -> Trail:
    tickets: Any = rows
    [trail] = trails([letter(origin)], tickets)
    return trail


@each_row(
    ("stored", "read"),
    [
        (("pk", "sk"), '["pk", "sk", null]'),
        ('["pk","sk"]', '["pk", "sk", null]'),
        ('["pk", "sk", "object"]', '["pk", "sk", "object"]'),
        (("pk", "sk", "object", "more"), '["pk", "sk", "object"]'),
    ],
)
def test_a_place_has_partition_sort_key_and_object(stored: Any, read: str) -> None:
    assert room_place(stored) == read


def test_a_letter_without_a_ticket_is_to_be_sent_from_where_it_was_named() -> None:
    trail = trail_of("a", Rows())
    assert trail == Trail("a0", room_place(place("a0")))
    assert (trail.last, trail.is_open, trail.returns) == (None, True, 0)


def test_a_letter_under_way_is_where_its_ticket_says() -> None:
    sent = ticket("a", 0)
    trail = trail_of("a", Rows(sent))
    assert trail == Trail(
        "a0", room_place(place("a0")), (sent,), (("a0", room_place(place("a0"))),)
    )
    assert (trail.last, trail.is_open, trail.returns) == (sent, False, 0)


def test_a_letter_that_came_back_is_followed_to_its_last_copy() -> None:
    first, second = ticket("a", 0, is_back=True), ticket("a", 1, is_back=True)
    rows = Rows(first, second)
    trail = trail_of("a", rows)
    assert (trail.copy, trail.place, trail.tickets) == (
        "a2",
        room_place(place("a2")),
        (first, second),
    )
    assert trail.sent == tuple((copy, room_place(place(copy))) for copy in ("a0", "a1"))
    assert (trail.is_open, trail.returns) == (True, 2)
    assert rows.reads == [[("a", "a0")], [("a", "a1")], [("a", "a2")]]


def test_a_copy_whose_place_is_not_known_yet_is_not_followed() -> None:
    back = replace(ticket("a", 0, is_back=True), returned_place=None)
    rows = Rows(back)
    trail = trail_of("a", rows)
    assert (trail.copy, trail.is_open, trail.returns, len(rows.reads)) == ("a0", False, 1, 1)


def test_an_item_of_a_letter_that_left_in_another_way_is_none_that_was_sent() -> None:
    assert trail_of("a", Rows(ticket("a", 0, ReplayOutcome.LEFT))).sent == ()


def test_the_letters_of_many_trails_are_read_together_and_each_keeps_its_place() -> None:
    rows: Any = Rows(ticket("a", 0, is_back=True), ticket("c", 0))
    found = trails([letter("a"), letter("b"), letter("c")], rows)
    assert [trail.copy for trail in found] == ["a1", "b0", "c0"]
    assert rows.reads == [[("a", "a0"), ("b", "b0"), ("c", "c0")], [("a", "a1")]]


def test_a_trail_is_followed_to_an_end_however_long_it_is() -> None:
    rows = Rows(*(ticket("a", number, is_back=True) for number in range(MOST_TRIES + 9)))
    trail = trail_of("a", rows)
    assert len(trail.tickets) == len(rows.reads) == MOST_TRIES + 1 == 1_201


PARKED = LedgerRow(ended_attempt=1, ended_as="parked")


def learn(sent: Ticket, rows: Rows, after: float = 0.0) -> Learned | None:
    ports: Any = rows
    one = letter(sent.origin, sent)
    answers = learned([one], ledger=ports, tickets=ports, now=NOW + after, timeout=60.0)
    return answers.get(one)


@each_row(
    ("row", "outcome"),
    [
        (LedgerRow(recovered_at=NOW, recovered_attempt=1), ReplayOutcome.RECOVERED),
        (
            LedgerRow(recovered_at=NOW, recovered_attempt=1, recovered_as=Recovery.DUPLICATE),
            ReplayOutcome.DUPLICATE,
        ),
        (
            LedgerRow(recovered_at=NOW, recovered_attempt=1, recovered_as=Recovery.SUPERSEDED),
            ReplayOutcome.SUPERSEDED,
        ),
        (PARKED, ReplayOutcome.PARKED),
        (replace(PARKED, ended_attempt=2), None),
        (LedgerRow(), None),
        (replace(PARKED, unreadable=True), None),
    ],
)
def test_the_ledger_knows_the_end_of_the_life_that_the_send_began(
    row: LedgerRow, outcome: ReplayOutcome | None
) -> None:
    sent, rows = ticket("a", 0), Rows(ticket("a", 0), a=row)
    assert learn(sent, rows) == (None if outcome is None else Learned(outcome, sent))
    assert rows.reads == ([[("a", "a0")]] if outcome is None else [])
    assert rows.asked == [["a"]]


@each_row(("after", "is_known"), [(59.0, False), (60.0, True)])
def test_an_outcome_that_is_not_learned_in_time_is_unknown(after: float, is_known: bool) -> None:
    for rows in (Rows(ticket("a", 0)), Rows()):
        answer = learn(ticket("a", 0), rows, after)
        unknown = replace(ticket("a", 0), fate=UNKNOWN)
        assert answer == (Learned(UNKNOWN, unknown) if is_known else None)


@each_row("after", [0.0, 60.0])
def test_a_letter_that_came_back_is_open_and_its_ticket_names_the_copy(after: float) -> None:
    back = ticket("a", 0, is_back=True)
    assert learn(ticket("a", 0), Rows(back), after) == Learned(OPEN, back)


def test_a_ticket_that_another_worker_has_settled_says_so() -> None:
    settled = ticket("a", 0, UNKNOWN)
    assert learn(ticket("a", 0), Rows(settled)) == Learned(UNKNOWN, settled)


def test_of_letters_that_were_not_sent_nothing_is_asked() -> None:
    rows: Any = Rows()
    assert learned([letter("a")], ledger=rows, tickets=rows, now=NOW, timeout=0.0) == {}
    assert (rows.reads, rows.asked) == ([], [])
