"""The lane of a run: a worker claims a shard of it, and no item leaves before its ticket stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deadletter.contract import run_lane
from deadletter.failure.ledger import Ledger
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.draining import DrainSetup
from deadletter.redrive.journal import Journal
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import ClaimedLetters, LaneClaim, lane_slot, numbered
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import (
    LaneStore,
    RoomUnavailable,
    WaitingRoom,
    WaitingRoomEntry,
)
from deadletter.replay.manifest import ManifestParts, Statuses
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun
from deadletter.replay.ticket import (
    OUTSIDE,
    ReplayOutcome,
    Ticket,
    Tickets,
    TicketsUnavailable,
    confirmation_by,
)

CLAIM_SECONDS = 15.0
"""Seconds from an intent of a run to its end: nothing is sent under it later. A worker that is
killed keeps its shard from others for so long, and GRACE more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup(DrainSetup):
    """What is given to each process that takes letters out of a run's lane.

    `owner` is a text that no other process has.
    """

    plan: ReplayPlan
    run: ReplayRun
    manifest: ManifestParts
    statuses: Statuses
    tickets: Tickets
    ledger: Ledger
    room: WaitingRoom
    journal: Journal
    owner: str


class RunShard:
    """One shard of a run's lane as a source of letters: what is the same whatever becomes of them.

    Subclasses set `_claimed` while they have letters in hand.
    """

    served = True
    admitted: str | None = None
    rests_until = 0.0

    def __init__(
        self,
        setup: RunSetup,
        shard: int,
        known: KnownIntents,
        store: TicketedLane,
        seconds: float = CLAIM_SECONDS,
    ) -> None:
        self.lane = run_lane(setup.run.id)
        self.shard = shard
        self.store = store
        self._claim = claim_of_run(setup, shard, known, seconds)
        self._claimed: ClaimedLetters | None = None

    def entry(self, copy: str, place: str) -> WaitingRoomEntry:
        return WaitingRoomEntry(copy, place, self.lane, self.shard, 0.0)

    def requests(self, letters: Sequence[ReceivedLetter]) -> Iterator[Sequence[ReceivedLetter]]:
        if letters:
            yield letters

    def waits(self, letters: Sequence[ReceivedLetter]) -> None:
        """The manifest has the order of keys: of one key, one letter is in hand."""

    def note_gone(self, copies: Iterable[str]) -> None:
        """The journal is swept by runs of the schedule: they see the lane empty."""

    def _hold(self) -> None:
        if self._claimed is not None:
            self._claim.hold(self._claimed)

    def close(self) -> None:
        self._claim.close()


class TicketedLane:
    """The lane of a run in the waiting room; it puts tickets before it deletes items.

    `expect` says which ticket belongs to which copy; `gone` are the copies since then whose
    ticket stands and whose item is deleted, `ticketed` those whose ticket stands.
    """

    def __init__(self, room: LaneStore, tickets: Tickets, tally: Tally) -> None:
        self.gone: set[str] = set()
        self.ticketed: set[str] = set()
        self._room = room
        self._tickets = tickets
        self._tally = tally
        self._expected: dict[str, Ticket] = {}
        self._owed: dict[str, Ticket] = {}

    def expect(self, tickets: Mapping[str, Ticket]) -> None:
        """Take these tickets, by the id of the copy, in place of those before."""
        self._expected = dict(tickets)
        self.gone.clear()
        self.ticketed.clear()

    def confirm(self, copies: Mapping[str, ReplayOutcome]) -> dict[str, Confirmation]:
        """Confirmations of letters whose end a carrier was told, by copy.

        Their tickets say that end from now on.
        """
        for copy, outcome in copies.items():
            self._expected[copy] = replace(self._expected[copy], fate=outcome)
            # Until its item is deleted, only this process knows of it.
            self._owed[copy] = self._expected[copy]
        return {copy: confirmation_by(self._expected[copy]) for copy in copies}

    def owed(self, copy: str) -> Ticket | None:
        """The ticket of a letter that is at its end and whose item is not deleted yet."""
        return self._owed.get(copy)

    def expected(self, copy: str) -> Ticket:
        """The ticket that belongs to a copy."""
        return self._expected[copy]

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        """Put the tickets, then delete; returns the letters that may be left.

        A letter without a ticket stays: without one its send would not be on record.
        """
        ours = [pair for pair in letters if pair[1].copy in self._expected]
        others = [received for received, _ in letters if received.letter.message_id not in self]
        if not ours:
            return others
        try:
            self._tickets.put([self._expected[confirmation.copy] for _, confirmation in ours])
            kept = self._left_before(ours)
        except TicketsUnavailable as error:
            self._tally.note_trouble(str(error))
            return [received for received, _ in letters]
        others += [received for received, confirmation in ours if confirmation.copy in kept]
        ours = [pair for pair in ours if pair[1].copy not in kept]
        copies = {confirmation.copy for _, confirmation in ours}
        self.ticketed |= copies
        left = self._room.delete(ours) if ours else []
        gone = copies - {received.letter.message_id for received in left}
        self.gone |= gone
        for copy in gone:
            self._owed.pop(copy, None)
        return [*others, *left]

    def _left_before(self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]) -> set[str]:
        """Letters that were to be discarded and had left the run: their first ticket says so.

        A worker that was paused for long must not discard what an abort has parked since.
        """
        discarded = [
            ticket
            for _, confirmation in letters
            if (ticket := self._expected[confirmation.copy]).fate is ReplayOutcome.DISCARDED
        ]
        if not discarded:
            return set()
        first = self._tickets.read([(ticket.origin, ticket.copy) for ticket in discarded])
        return {ticket.copy for ticket in first.values() if ticket.fate in OUTSIDE}

    def __contains__(self, copy: str) -> bool:
        return copy in self._expected

    def postpone(self, order: Order) -> None:
        """Let a letter leave the run's lane for another one; its ticket stands already."""
        if order.copy not in self.ticketed:
            raise RoomUnavailable("a message leaves its run's lane only behind a ticket")
        self._room.postpone(order)
        self.gone.add(order.copy)

    def put_ahead(self, tickets: Sequence[Ticket]) -> None:
        """Put the tickets of letters that leave the run in another way than by a send.

        Raises TicketsUnavailable.
        """
        self._tickets.put(tickets)
        self.ticketed.update(ticket.copy for ticket in tickets)


def copy_of(received: ReceivedLetter) -> str:
    """The id of the copy that lies in the room."""
    return received.letter.message_id


def claim_of_run(
    setup: RunSetup, shard: int, known: KnownIntents, seconds: float = CLAIM_SECONDS
) -> LaneClaim:
    """The claim on a shard of a run's lane; an intent stands for `seconds`."""
    return LaneClaim(
        journal=setup.journal,
        known=known,
        name=lane_slot(run_lane(setup.run.id), shard),
        owner=numbered(setup.owner),
        clock=setup.clock,
        ends=lambda: setup.clock() + seconds,
    )
