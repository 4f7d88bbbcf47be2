"""What became of letters that a run has sent: their tickets, and the consumer's ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow
from deadletter.replay.lineup import RunLetter
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome, Ticket, Tickets

TicketKey = tuple[str, str]

MOST_TRIES = 1_200
"""Tries of one letter, and tickets that are followed: one each ten minutes until the longest run
ends, and more. A try that fails by the dependency is none of the plan's few."""

_BY_LEDGER: Mapping[str, ReplayOutcome] = {
    "recovered": ReplayOutcome.RECOVERED,
    "duplicate": ReplayOutcome.DUPLICATE,
    "parked": ReplayOutcome.PARKED,
}


def room_place(place: str | Sequence[str]) -> str:
    """The place of an item in the waiting room, as its reader takes it: partition, sort, object."""
    parts = json.loads(place) if isinstance(place, str) else list(place)
    return json.dumps([*parts[:2], parts[2] if len(parts) > 2 else None])


@dataclass(frozen=True, slots=True)
class Trail:
    """The tickets of one letter, the first try first, and the copy that is in its place now.

    `sent` are the copies, with their places, that tickets stand for: none of them may be in the
    run's lane any more.
    """

    copy: str
    place: str
    tickets: tuple[Ticket, ...] = ()
    sent: tuple[tuple[str, str], ...] = ()

    @property
    def last(self) -> Ticket | None:
        return self.tickets[-1] if self.tickets else None

    @property
    def is_open(self) -> bool:
        """Whether the copy in its place has no ticket yet: it is to be sent."""
        return self.last is None or self.last.copy != self.copy

    @property
    def returns(self) -> int:
        """How often the letter came back."""
        return sum(ticket.returned is not None for ticket in self.tickets)


def trails(letters: Sequence[RunLetter], tickets: Tickets) -> list[Trail]:
    """The trail of each letter, from its first copy on. Raises TicketsUnavailable."""
    found = {letter: Trail(letter.name.copy, room_place(letter.name.place)) for letter in letters}
    following = list(letters)
    for _ in range(MOST_TRIES + 1):
        if not following:
            break
        rows = tickets.read([(letter.origin, found[letter].copy) for letter in following])
        further = []
        for letter in following:
            trail = found[letter]
            ticket = rows.get((letter.origin, trail.copy))
            if ticket is None:
                continue
            sent = trail.sent
            if ticket.fate not in OUTSIDE:
                sent = (*sent, (trail.copy, trail.place))
            copy, place = trail.copy, trail.place
            if ticket.returned is not None and ticket.returned_place is not None:
                copy, place = ticket.returned, room_place(ticket.returned_place)
                further.append(letter)
            found[letter] = Trail(copy, place, (*trail.tickets, ticket), sent)
        following = further
    return [found[letter] for letter in letters]


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned of a letter that was sent: its outcome, or that it came back."""

    outcome: ReplayOutcome
    ticket: Ticket


def learned(
    letters: Sequence[RunLetter],
    *,
    ledger: Ledger,
    tickets: Tickets,
    now: float,
    timeout: float,
) -> dict[RunLetter, Learned]:
    """What can be said now of letters whose outcome is awaited; the others are left out.

    A letter that came back has the outcome OPEN and its ticket names the copy. One whose
    outcome nobody learned within `timeout` seconds of its send is UNKNOWN, for good. Raises
    LedgerUnavailable and TicketsUnavailable.
    """
    awaited = {letter: letter.ticket for letter in letters if letter.ticket is not None}
    answers = {
        letter: Learned(outcome, awaited[letter])
        for letter, outcome in ended(letters, ledger).items()
    }
    asked: dict[RunLetter, TicketKey] = {
        letter: (ticket.origin, ticket.copy)
        for letter, ticket in awaited.items()
        if letter not in answers
    }
    current = tickets.read(list(asked.values())) if asked else {}
    for letter, key in asked.items():
        ticket = current.get(key, awaited[letter])
        if ticket.returned is None and now >= ticket.at + timeout:
            ticket = tickets.settle(ticket, ReplayOutcome.UNKNOWN)
        if ticket.returned is not None:
            answers[letter] = Learned(ReplayOutcome.OPEN, ticket)
        elif ticket.fate is not ReplayOutcome.SENT:
            answers[letter] = Learned(ticket.fate, ticket)
    return answers


def ended(letters: Iterable[RunLetter], ledger: Ledger) -> dict[RunLetter, ReplayOutcome]:
    """What the consumer says of the last try of each letter; the others are left out.

    Raises LedgerUnavailable.
    """
    tried = {letter: letter.ticket for letter in letters if letter.ticket is not None}
    rows = ledger.rows(sorted({ticket.origin for ticket in tried.values()})) if tried else {}
    found = {
        letter: _by_ledger(rows.get(ticket.origin, NO_ROW), ticket)
        for letter, ticket in tried.items()
    }
    return {letter: outcome for letter, outcome in found.items() if outcome is not None}


def _by_ledger(row: LedgerRow, ticket: Ticket) -> ReplayOutcome | None:
    if row.unreadable:
        return None
    ended = row.outcome_in(ticket.attempt)
    return None if ended is None else _BY_LEDGER[ended]
