"""Empties the lane of a run that has ended: nothing is sent, everything waits somewhere else.

What is left is parked, with the reason that it had or as RUN_ABORTED; or, if the person says
so, it goes back to the schedule with a fresh backoff. Each letter has a ticket (LEFT) before it
moves, and what a cut-off discard has exported of it is deleted in between. The manifest says
which letters there are; the lane's index, which may lag, shows those that came later or never
made it into the manifest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from deadletter.contract import (
    DEFAULT_PARKING,
    MAIN_DLQ,
    PARKED_LANE,
    Reason,
    parking_source,
)
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.draining import BatchPart, Draining
from deadletter.redrive.journal import OnRecord, Slot
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.router_client import is_parking
from deadletter.redrive.sending import LAST_SEND
from deadletter.redrive.waiting_room import (
    FOREVER,
    SHARDS,
    WaitingRoomEntry,
    never,
)
from deadletter.replay.lineup import RunLetter, learned, letter_of, trails
from deadletter.replay.manifest import ManifestIndex, ShardProgress, save
from deadletter.replay.names import PART
from deadletter.replay.objects import ObjectsUnavailable, RunObjects, discarded_name
from deadletter.replay.run_lane import RunSetup, RunShard, TicketedLane, copy_of
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome, Ticket, confirmation_by
from deadletter.routing.decision import DUE, Hold
from deadletter.routing.router import RouterUnavailable, Verdict

TO_SCHEDULE = "schedule"
"""What `leave_to` says if the letters go back to the schedule; anything else parks them."""

AWAITED_SECONDS = 120.0
"""Seconds after its end for which a run waits for the outcomes of what was under way."""

MOST_LEFT = 100
"""Letters that leave together: what one intent holds, and one request reads."""

WIND_DOWN_SECONDS = 5.0
"""Seconds before the deadline in which no letter is begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingSetup(RunSetup):
    """Everything that leaving is given. `index` is None if the run had no snapshot yet."""

    index: ManifestIndex | None
    objects: RunObjects
    random: Random


def left_stamp(stamp: Stamp, decision: str, reason: str | None, because: str, at: float) -> Stamp:
    """The stamp of a letter that a run has left over: it is of no run any more."""
    return replace(
        stamp,
        run=None,
        ticket=None,
        rule=None,
        decision=decision,
        reason=reason,
        because=because,
        at=int(at),
    )


class RunLeaving:
    """Lets the letters of a run leave its lane. Raises the errors of the stores.

    After any of them a letter is in the lane, or has left: the next call goes on.
    """

    def __init__(self, setup: LeavingSetup) -> None:
        self._setup = setup

    def run(self, deadline: float) -> bool:
        """Leave until `deadline` (epoch seconds). Returns whether nothing is in the lane."""
        is_complete = True
        known = KnownIntents(self._setup.journal, self._setup.clock)
        for shard in range(SHARDS):
            source = LeavingSource(self._setup, shard, known, deadline)
            worker = Draining(self._setup, source, source)
            try:
                while not source.is_done:
                    worker.take_batch(MOST_LEFT)
            finally:
                source.close()
            is_complete = is_complete and source.is_complete
        return is_complete


class LeavingSource(RunShard):
    """One shard of the lane of a run that has ended: first what its manifest names, then the rest.

    `is_complete` says whether all that was seen has left, and its outcome is known.
    """

    def __init__(
        self, setup: LeavingSetup, shard: int, known: KnownIntents, deadline: float
    ) -> None:
        super().__init__(setup, shard, known, TicketedLane(setup.room, setup.tickets, setup.tally))
        self.is_complete = True
        self.is_done = False
        self._setup = setup
        self._deadline = deadline
        self._feed = self._batches()
        self._positions: dict[str, int] = {}
        self._left: set[str] = set()
        # Of the present batch.
        self._entries: Sequence[WaitingRoomEntry] = ()
        self._tickets: dict[str, Ticket] = {}
        self._going: set[str] = set()
        self._settled: set[str] = set()

    def _batches(self) -> Generator[Sequence[WaitingRoomEntry], None, None]:
        index = self._setup.index
        if index is not None and index.shards[self.shard]:
            yield from self._named(index.shards[self.shard])
        after: WaitingRoomEntry | None = None
        while self._has_time():
            entries = self._setup.room.due(self.lane, self.shard, FOREVER, MOST_LEFT, after)
            if not entries:
                return
            # The index lags: an entry that has left just now is read, and found gone.
            yield entries
            after = entries[-1]

    def _has_time(self) -> bool:
        if self._setup.clock() < self._deadline - WIND_DOWN_SECONDS:
            return True
        self.is_complete = False
        return False

    def _named(self, length: int) -> Iterator[Sequence[WaitingRoomEntry]]:
        """The letters of the manifest that are not at their end."""
        progress = ShardProgress.of(self.shard, self._setup.statuses.read(self.shard))
        try:
            for part in range(-(-length // PART)):
                if not self._has_time():
                    return
                letters = self._open_letters(part, length, progress)
                for start in range(0, len(letters), MOST_LEFT):
                    yield from self._of_letters(letters[start : start + MOST_LEFT], progress)
        finally:
            save(self._setup.statuses, [progress])

    def _open_letters(self, part: int, length: int, progress: ShardProgress) -> list[RunLetter]:
        span = range(part * PART, min(length, (part + 1) * PART))
        open_ = [position for position in span if not progress.is_terminal(position)]
        names = self._setup.manifest.part(self.shard, part) if open_ else ()
        return [
            letter_of(names[position % PART], position, progress.returned(position))
            for position in open_
        ]

    def _of_letters(
        self, letters: Sequence[RunLetter], progress: ShardProgress
    ) -> Iterator[Sequence[WaitingRoomEntry]]:
        found = trails(letters, self._setup.tickets)
        self._positions = {
            copy: letter.position
            for letter, trail in zip(letters, found, strict=True)
            for copy in (trail.copy, *(sent for sent, _ in trail.sent))
        }
        entries: list[WaitingRoomEntry] = []
        here: list[RunLetter] = []
        awaited: list[RunLetter] = []
        for letter, trail in zip(letters, found, strict=True):
            letter.follow(trail)
            # What a worker sent may lie in the lane behind its ticket.
            entries += [self.entry(copy, place) for copy, place in trail.sent]
            ticket = trail.last
            if trail.is_open or (ticket is not None and ticket.fate in OUTSIDE):
                here.append(letter)
                entries.append(self.entry(letter.copy, letter.place))
            elif ticket is not None and ticket.fate is ReplayOutcome.SENT:
                awaited.append(letter)
            elif ticket is not None:
                progress.set(letter.position, ticket.fate, letter.returns)
        self._left = set()
        for start in range(0, len(entries), MOST_LEFT):
            yield entries[start : start + MOST_LEFT]
        for letter in here:
            if letter.copy in self._left:
                progress.set(letter.position, ReplayOutcome.LEFT, letter.returns)
        self._await(awaited, progress)

    def _await(self, letters: Sequence[RunLetter], progress: ShardProgress) -> None:
        """Learn the outcomes of what was under way when the run ended; wait for them a while."""
        setup, now = self._setup, self._setup.clock()
        waits = now < setup.run.changed + AWAITED_SECONDS
        timeout = setup.plan.outcome_timeout if waits else 0.0
        answers = learned(
            letters, ledger=setup.ledger, tickets=setup.tickets, now=now, timeout=timeout
        )
        for letter in letters:
            answer = answers.get(letter)
            if answer is None or answer.outcome is ReplayOutcome.OPEN:
                # One that came back lies in the lane: the next call finds it there.
                self.is_complete = False
            else:
                progress.set(letter.position, answer.outcome, letter.returns)

    @contextmanager
    def take(self, most: int) -> Iterator[int]:
        self._entries = next(self._feed, ())
        self._claimed, self._settled = None, set()
        self.is_done = not self._entries
        try:
            yield len(self._entries)
        except RouterUnavailable as error:
            # What was sent and lacks facts stays where it is: the next call finds it there.
            self._setup.tally.note_trouble(str(error))
        if self._claimed is not None:
            self._claimed.slot.keep(self._settled - self.store.gone)
        self._hold()

    def close(self) -> None:
        try:
            self._feed.close()
        finally:
            super().close()

    def parts(self) -> Iterator[BatchPart]:
        """What leaves, and then what was sent: the router may not know what facts it lacks."""
        if not self._entries:
            return
        setup = self._setup
        claimed = self._claim.take([entry.copy for entry in self._entries], setup.clock())
        self._claimed = claimed
        if claimed is None:
            self.is_complete = False
            return
        free = [entry for entry in self._entries if claimed.is_free(entry.copy)]
        letters = setup.room.read(free, claimed.expires + LAST_SEND).letters
        self._tickets = self._tickets_of(letters)
        owed: dict[str, Ticket] = {}
        for received in letters:
            ticket = self._tickets.get(copy := copy_of(received))
            if self._was_sent(claimed.records[copy], ticket):
                owed[copy] = ticket or self._ticket(received, ReplayOutcome.SENT)
        if owed or len(free) < len(self._entries):
            # The next call learns what became of them.
            self.is_complete = False
        proofs = {copy: claimed.records[copy].mark or confirmation_by(owed[copy]) for copy in owed}
        part = BatchPart.under(claimed.slot, letters, claimed.records, proofs)
        yield replace(part, sent=())
        self._settled = set(owed)
        self.store.expect(owed)
        yield replace(part, letters=())

    def _was_sent(self, record: OnRecord, ticket: Ticket | None) -> bool:
        """Whether a worker has sent a letter and not deleted it: it must not go anywhere else."""
        # With a mark, also one that its ticket lets go: it has reached the parking queue.
        return record.mark is not None or (ticket is not None and ticket.fate not in OUTSIDE)

    def _tickets_of(self, letters: Sequence[ReceivedLetter]) -> dict[str, Ticket]:
        keys = [(_stamp(received).origin, copy_of(received)) for received in letters]
        return {ticket.copy: ticket for ticket in self._setup.tickets.read(keys).values()}

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        """Where a letter goes that the run has left over."""
        return {copy_of(received): self._verdict(received) for received in letters}

    def _verdict(self, received: ReceivedLetter) -> Verdict:
        setup, now, stamp = self._setup, self._setup.clock(), _stamp(received)
        copy, because = copy_of(received), f"run {setup.run.id} ended before it was sent"
        if setup.run.leave_to == TO_SCHEDULE:
            hold = Hold(DUE, now + setup.pipeline.policy.backoff.delay(1, setup.random), because)
            return Verdict(copy, hold, left_stamp(stamp, "HOLD", None, because, now))
        is_known = setup.plan.is_release and stamp.reason in set(Reason)
        reason = stamp.reason if is_known else str(Reason.RUN_ABORTED)
        hold = Hold(PARKED_LANE, never(received.letter), because)
        return Verdict(copy, hold, left_stamp(stamp, "PARK", reason, because, now))

    def going(self, letters: Sequence[ReceivedLetter], judged: Sequence[Order]) -> Sequence[Order]:
        """Those whose ticket says LEFT, which it does before they move, and that have no export."""
        new = {
            order.copy: self._ticket(order.received, ReplayOutcome.LEFT)
            for order in judged
            if order.copy not in self._tickets
        }
        known = {order.copy for order in judged} - new.keys()
        self._tickets |= new
        self.store.expect({order.copy: self._tickets[order.copy] for order in judged})
        self.store.put_ahead(list(new.values()))
        self.store.ticketed.update(known)
        going = self._without_exports(judged)
        self._going = {order.copy for order in going}
        return [replace(order, received=self._at_home(order)) for order in going]

    def _at_home(self, order: Order) -> ReceivedLetter:
        """The letter in the place that it belongs to from now on."""
        received, home = order.received, order.received.home
        if self._setup.run.leave_to == TO_SCHEDULE:
            home = MAIN_DLQ if is_parking(home) else home
        elif not is_parking(home):
            parking = self._setup.pipeline.parking.get(Reason(str(order.stamp.reason)))
            home = parking_source(parking or DEFAULT_PARKING)
        return replace(received, home=home)

    def _without_exports(self, orders: Sequence[Order]) -> Sequence[Order]:
        """Delete what a discard that was cut off has exported; returns the letters that may leave.

        They are in the lane until it is done: an export outlives the tickets, and would bring a
        letter back that was never gone. The first ticket decides: behind LEFT no worker discards.
        """
        setup = self._setup
        if not setup.plan.discards:
            return orders
        first = self._tickets_of([order.received for order in orders])
        left = [order for order in orders if first[order.copy].fate in OUTSIDE]
        if len(left) < len(orders):
            # A worker was faster, and discards it.
            self.is_complete = False
        try:
            setup.objects.delete([discarded_name(order.copy) for order in left])
        except ObjectsUnavailable as error:
            # They stay where they are: the next call finds them there.
            setup.tally.note_trouble(str(error))
            self.is_complete = False
            return ()
        return left

    def move(self, orders: Sequence[Order], slot: Slot) -> Left:
        return self._setup.mover.move(orders, slot, lane=self.store)

    def moved(self, letters: Sequence[ReceivedLetter], gone: Sequence[Order], left: Left) -> None:
        moved = self._going & self.store.gone
        if moved != self._going:
            # What stays where it is the next call finds there.
            self.is_complete = False
        self._left |= {c for c in moved if self._tickets[c].fate is ReplayOutcome.LEFT}

    def _ticket(self, received: ReceivedLetter, fate: ReplayOutcome) -> Ticket:
        stamp = _stamp(received)
        return Ticket(
            run=self._setup.run.id,
            origin=stamp.origin,
            copy=copy_of(received),
            shard=self.shard,
            # The lane may hold letters that the manifest does not name.
            position=self._positions.get(copy_of(received), -1),
            attempt=stamp.attempt + (fate is ReplayOutcome.SENT),
            at=self._setup.clock(),
            fate=fate,
            generation=self._setup.run.generation,
        )


def _stamp(received: ReceivedLetter) -> Stamp:
    """The stamp of a letter in the run's custody; one without it is its own origin."""
    return received.stamp or Stamp(received.letter.message_id)
