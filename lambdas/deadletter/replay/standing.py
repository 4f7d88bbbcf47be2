"""Where each letter of a replay run stands: in the lane, under way, or at its end.

Its tickets and the consumer's ledger say so; the status rows are written after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deadletter.circuit.state import Circuits
from deadletter.contract import run_lane
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.message.queue import Queue
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.sending import LAST_SEND
from deadletter.redrive.waiting_room import WaitingRoomEntry
from deadletter.replay.carriers import DirectCarrier
from deadletter.replay.judge import FAILED
from deadletter.replay.limiter import Bids, RunLimiter
from deadletter.replay.lineup import (
    RunLetter,
    RunStage,
    ShardLineup,
    Trail,
    learned,
    letter_of,
    room_place,
    trails,
)
from deadletter.replay.manifest import ShardProgress
from deadletter.replay.plan import KeyPolicy
from deadletter.replay.run import ReplayRuns
from deadletter.replay.run_lane import RunSetup, TicketedLane, copy_of
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome, Ticket, confirmation_by

FIRST_LOOK, LONGEST_LOOK, LOOK_FACTOR = 0.5, 15.0, 1.6
"""Seconds from a send to the first look at its outcome, the longest pause between two looks, and
by how much each pause is longer than the one before."""

MOST_LOOKED_UP = 100
"""Letters whose outcomes are looked up together: what one request reads."""

LONGEST_RETRY = 600.0
"""Seconds that a letter waits at most from one try to the next."""

_FAILED = frozenset({ReplayOutcome.PARKED, ReplayOutcome.QUARANTINED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWorkerSetup(RunSetup):
    """Everything that a worker is given.

    shards      the shards of this worker, with the letters of each
    carrier     takes letters where the destination is no queue
    trouble     why the dependency is down by its health URL; empty if it is not
    new_token   returns a text that no other grant has
    """

    shards: Mapping[int, int]
    runs: ReplayRuns
    bids: Bids
    circuits: Circuits
    main: Queue
    wait: Callable[[float], None]
    new_token: Callable[[], str]
    in_parallel: InParallel
    carrier: DirectCarrier | None = None
    trouble: Callable[[], str] = lambda: ""


class Standings:
    """Keeps where the letters of one shard stand. Raises the errors of the stores."""

    def __init__(
        self,
        setup: ReplayWorkerSetup,
        lineup: ShardLineup,
        progress: ShardProgress,
        room: TicketedLane,
        limiter: RunLimiter,
    ) -> None:
        self.lineup = lineup
        self.progress = progress
        self._setup = setup
        self._room = room
        self._limiter = limiter
        self._plan = setup.plan
        self._clock = setup.clock
        self._tally = setup.tally

    def read_trails(self) -> None:
        """Find out where letters stand that have just come in hand."""
        unread = [
            letter for letter in self.lineup.letters.values() if letter.stage is RunStage.UNREAD
        ]
        for start in range(0, len(unread), MOST_LOOKED_UP):
            part = unread[start : start + MOST_LOOKED_UP]
            began = self._clock()
            found = trails(part, self._setup.tickets)
            self._sweep([place for trail in found for place in trail.sent], _by_copy(found))
            for letter, trail in zip(part, found, strict=True):
                letter.follow(trail)
                if trail.tickets:
                    letter.known_at = began
                self.stand(letter, is_open=trail.is_open)

    def stand(self, letter: RunLetter, *, is_open: bool) -> None:
        """Put a letter where its tickets say that it stands."""
        ticket = letter.ticket
        if is_open or ticket is None:
            self.make_ready(letter)
            if self._is_stopped(letter):
                self.lineup.stop(letter)
        elif ticket.fate is ReplayOutcome.SENT:
            self.await_outcome(letter, ticket)
        elif ticket.fate in OUTSIDE:
            # Its ticket was put before it left: the item says whether it has.
            letter.stage, letter.bound = RunStage.READY, ticket.fate
        else:
            self.end(letter, ticket.fate)

    def make_ready(self, letter: RunLetter) -> None:
        """The letter is in the lane, to be sent; after a try that failed, not at once."""
        letter.stage = RunStage.READY
        if letter.ticket is not None and letter.returns:
            letter.look_at = letter.ticket.at + self.retry_pause(letter)
        has_come_back = letter.returns > self.progress.returned(letter.position)
        if has_come_back and self.is_forgiven(letter):
            self.progress.note_late(letter.position)
        self.progress.set(letter.position, ReplayOutcome.OPEN, letter.returns)

    def retry_pause(self, letter: RunLetter) -> float:
        """Seconds from a try to the next one of a letter that has come back."""
        return min(LONGEST_RETRY, self._plan.retry_after * 2.0 ** min(letter.returns - 1, 20))

    def _sweep(
        self,
        places: Sequence[tuple[str, str]],
        tickets: Mapping[str, Ticket],
    ) -> None:
        """Delete items that a worker left behind their tickets: the letters were sent."""
        entries = [self.entry(copy, place) for copy, place in places]
        for start in range(0, len(entries), MOST_LOOKED_UP):
            part = entries[start : start + MOST_LOOKED_UP]
            left = self._setup.room.read(part, self._clock() + LAST_SEND).letters
            if left:
                tickets_left = {copy_of(received): tickets[copy_of(received)] for received in left}
                self._room.expect(tickets_left)
                self._room.delete(
                    [(each, confirmation_by(tickets_left[copy_of(each)])) for each in left]
                )

    def look_up(self) -> None:
        """Learn the outcomes of letters that were sent."""
        now = self._clock()
        awaited = [
            letter
            for letter in self.lineup.letters.values()
            if letter.stage is RunStage.SENT and letter.look_at <= now
        ]
        for start in range(0, len(awaited), MOST_LOOKED_UP):
            self._look_up_some(awaited[start : start + MOST_LOOKED_UP])

    def _look_up_some(self, letters: Sequence[RunLetter]) -> None:
        now = self._clock()
        try:
            answers = learned(
                letters,
                ledger=self._setup.ledger,
                tickets=self._setup.tickets,
                now=now,
                timeout=self._plan.outcome_timeout,
            )
        except LedgerUnavailable as error:
            # Nothing is lost: it is looked up again, at the latest by the next worker.
            self._tally.note_trouble(str(error))
            answers = {}
        for letter in letters:
            answer = answers.get(letter)
            if answer is None:
                letter.looks += 1
                pause = FIRST_LOOK * LOOK_FACTOR ** min(letter.looks, 20)
                letter.look_at = now + min(LONGEST_LOOK, pause)
            elif answer.outcome is ReplayOutcome.OPEN:
                self._come_back(letter, answer.ticket, now)
            else:
                letter.ticket = answer.ticket
                self.end(letter, answer.outcome)

    def _come_back(self, letter: RunLetter, ticket: Ticket, now: float) -> None:
        assert ticket.returned is not None, "a message that came back has a new copy"
        assert ticket.returned_place is not None, "a copy in the waiting room has a place"
        letter.copy, letter.place = ticket.returned, room_place(ticket.returned_place)
        letter.ticket = ticket
        letter.returns += 1
        letter.known_at = now
        letter.maybe_sent = False
        letter.misses = 0
        self.make_ready(letter)

    def await_outcome(self, letter: RunLetter, ticket: Ticket) -> None:
        letter.stage, letter.ticket, letter.looks = RunStage.SENT, ticket, 0
        letter.look_at = self._clock() + FIRST_LOOK
        self.progress.set(letter.position, ReplayOutcome.SENT, letter.returns)

    def end(self, letter: RunLetter, outcome: ReplayOutcome) -> None:
        """The letter is at its end: its key goes on, or stops, as the plan says."""
        if outcome in FAILED and self.is_forgiven(letter):
            self.progress.note_late(letter.position)
        self.progress.set(letter.position, outcome, letter.returns)
        if self._stops_key(outcome, letter.ticket):
            self.lineup.stop(letter)
        else:
            self.lineup.done(letter)

    def _stops_key(self, outcome: ReplayOutcome, ticket: Ticket | None) -> bool:
        """Whether an ordering key waits behind this outcome until a person resumes the run."""
        unknown = outcome in (ReplayOutcome.UNKNOWN, ReplayOutcome.MISSING)
        policy = self._plan.on_unknown if unknown else self._plan.on_failure
        stops = policy is KeyPolicy.STOP and (unknown or outcome in _FAILED)
        return stops and not self._precedes_resume(ticket)

    def _is_stopped(self, letter: RunLetter) -> bool:
        """Whether the letter before this one in its key stopped the key, in an earlier step."""
        if KeyPolicy.STOP not in (self._plan.on_failure, self._plan.on_unknown):
            return False
        name = self.lineup.before(letter)
        if name is None:
            return False
        outcome = self.progress.outcome(letter.position - 1)
        [trail] = trails([letter_of(name, letter.position - 1)], self._setup.tickets)
        if trail.last is None and self._limiter.run.resumed_in:
            return False
        return self._stops_key(outcome, trail.last)

    def is_forgiven(self, letter: RunLetter) -> bool:
        """Whether a person has resumed the run since the letter's last try: it has one more."""
        return self._precedes_resume(letter.ticket)

    def _precedes_resume(self, ticket: Ticket | None) -> bool:
        """Whether a ticket is of a try before a person last resumed the run.

        By the run's generation: the clocks of the worker and of the person may differ.
        """
        return ticket is not None and ticket.generation < self._limiter.run.resumed_in

    def entry(self, copy: str, place: str) -> WaitingRoomEntry:
        lane = run_lane(self._setup.run.id)
        return WaitingRoomEntry(copy, place, lane, self.progress.shard, 0.0)


def _by_copy(found: Sequence[Trail]) -> dict[str, Ticket]:
    """The tickets of all trails, by the copy that they stand for."""
    return {ticket.copy: ticket for trail in found for ticket in trail.tickets}
