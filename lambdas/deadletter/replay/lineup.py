"""The letters of one shard in the order of its manifest, and what became of those that were sent.

Letters of one ordering key stand together in the manifest. Of each key one letter is in hand;
the next one comes when that one is done. Letters without a key are in order with no other. What
became of a letter its tickets say, and the consumer's ledger.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow
from deadletter.replay.manifest import ShardProgress
from deadletter.replay.names import PART, Name
from deadletter.replay.ticket import BY_CONSUMER, OUTSIDE, ReplayOutcome, Ticket, Tickets

PARTS_KEPT = 4
"""Parts of the manifest that a shard keeps in memory."""

LOOK_AHEAD = 20
"""Letters of a key that are read at once: its next part is not read again for each of them."""


class RunStage(Enum):
    """Where a letter in hand stands."""

    UNREAD = "its tickets were not read yet"
    READY = "it is to be moved"
    SENT = "its outcome is awaited"


@dataclass(slots=True, eq=False)
class RunLetter:
    """One letter of a run that a worker has in hand.

    copy, place  the copy in the run's lane, or the one that was sent last
    returns      how often it came back from a try
    ticket       of its last try
    bound        the outcome with which it has yet to leave the run, by its ticket
    look_at      when it is looked at next (epoch seconds)
    looks        how often its outcome was looked up since its send
    known_at     when this copy was learned of: only a later reading of the journal knows of it
    maybe_sent   whether a send of this copy had no answer
    misses       how often it could not be moved
    """

    name: Name
    position: int
    copy: str
    place: str
    stage: RunStage = RunStage.UNREAD
    returns: int = 0
    ticket: Ticket | None = None
    bound: ReplayOutcome | None = None
    look_at: float = 0.0
    looks: int = 0
    known_at: float = 0.0
    maybe_sent: bool = False
    misses: int = 0

    @property
    def origin(self) -> str:
        return self.name.origin

    def follow(self, trail: Trail) -> None:
        """Take the letter for the copy that its tickets lead to."""
        self.copy, self.place, self.ticket = trail.copy, trail.place, trail.last
        self.returns = max(self.returns, trail.returns)


def letter_of(name: Name, position: int, returns: int = 0) -> RunLetter:
    """The letter with this name, as it was when it joined the run."""
    return RunLetter(name, position, name.copy, room_place(name.place), returns=returns)


class ShardLineup:
    """The letters of one shard: `length` in all, by position.

    With `ordered`, at most `most_keys` ordering keys are open at once.
    """

    def __init__(
        self,
        *,
        length: int,
        part: Callable[[int], Sequence[Name]],
        progress: ShardProgress,
        ordered: bool,
        most_keys: int,
    ) -> None:
        self.letters: dict[int, RunLetter] = {}
        self._length = length
        self._part = lru_cache(PARTS_KEPT)(part)
        self._progress = progress
        self._ordered = ordered
        self._most_keys = most_keys
        self._frontier = 0
        self._open: dict[str, Iterator[tuple[int, Name]]] = {}
        self._stopped: set[str] = set()

    @property
    def is_exhausted(self) -> bool:
        """Whether no letter is in hand and none follows."""
        return not self.letters and self._frontier >= self._length

    @property
    def stopped_keys(self) -> int:
        """Ordering keys that do not go on behind a letter that failed."""
        return len(self._stopped)

    def fill(self, most: int) -> None:
        """Take letters in hand until there are `most`, or none may follow now."""
        while len(self.letters) < most and self._frontier < self._length:
            position = self._frontier
            if self._progress.is_terminal(position):
                self._frontier += 1
                continue
            name = self._name(position)
            if self._ordered and name.is_ordered:
                if name.key not in self._open and name.key not in self._stopped:
                    if len(self._open) >= self._most_keys:
                        return
                    self._open[name.key] = self._letters_of(name.key, position)
                    self._follow(name.key)
            else:
                self._take(position, name)
            self._frontier += 1

    def done(self, letter: RunLetter) -> None:
        """The letter is at its end: the next one of its key comes in hand."""
        self.letters.pop(letter.position, None)
        if letter.name.key in self._open:
            self._follow(letter.name.key)

    def stop(self, letter: RunLetter) -> None:
        """The letter's key does not go on, and the letter is in hand no more."""
        self.letters.pop(letter.position, None)
        if self._open.pop(letter.name.key, None) is not None:
            self._stopped.add(letter.name.key)

    def before(self, letter: RunLetter) -> Name | None:
        """The letter before this one in its ordering key; None for the first one."""
        if not (self._ordered and letter.name.is_ordered and letter.position):
            return None
        name = self._name(letter.position - 1)
        return name if name.key == letter.name.key else None

    def _name(self, position: int) -> Name:
        return self._part(position // PART)[position % PART]

    def _follow(self, key: str) -> None:
        for position, name in self._open[key]:
            if not self._progress.is_terminal(position):
                self._take(position, name)
                return
        del self._open[key]

    def _letters_of(self, key: str, position: int) -> Iterator[tuple[int, Name]]:
        """The letters of an ordering key from its first position on."""
        while position < self._length:
            number, start = divmod(position, PART)
            for name in self._part(number)[start : start + LOOK_AHEAD]:
                if name.key != key:
                    return
                yield position, name
                position += 1

    def _take(self, position: int, name: Name) -> None:
        self.letters[position] = letter_of(name, position, self._progress.returned(position))


TicketKey = tuple[str, str]

MOST_TRIES = 1_200
"""Tries of one letter, and tickets that are followed: one each ten minutes until the longest run
ends, and more. A try that fails by the dependency is none of the plan's few."""


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
    return None if ended is None else BY_CONSUMER[ended]
