"""Empties the lane of a run that has ended: nothing is sent, everything waits somewhere else.

What is left is parked, with the reason that it had or as RUN_ABORTED; or, if the person says
so, it goes back to the schedule with a fresh backoff. Each letter has a ticket (LEFT) before it
moves, and what a cut-off discard has exported of it is deleted in between. The manifest says
which letters there are; the lane's index, which may lag, shows those that came later or never
made it into the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from deadletter.contract import (
    DEFAULT_PARKING,
    MAIN_DLQ,
    PARKED_LANE,
    Reason,
    parking_source,
    run_lane,
)
from deadletter.failure.ledger import Ledger
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import OnRecord
from deadletter.redrive.lane_claim import LaneClaim
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.rescue import is_parking
from deadletter.redrive.settling import SentBefore, Settling
from deadletter.redrive.waiting_room import (
    FOREVER,
    SHARDS,
    RoomUnavailable,
    WaitingRoom,
    WaitingRoomEntry,
    never,
)
from deadletter.replay.discarded import discarded_name
from deadletter.replay.lineup import RunLetter
from deadletter.replay.manifest import ManifestIndex, ManifestParts
from deadletter.replay.names import PART
from deadletter.replay.objects import ObjectsUnavailable, RunObjects
from deadletter.replay.outcomes import learned, room_place, trails
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.progress import ShardProgress, Statuses, save
from deadletter.replay.run import ReplayRun
from deadletter.replay.run_room import RunRoom
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome, Ticket, Tickets, confirmation_by
from deadletter.routing.decision import DUE, Hold
from deadletter.routing.router import Router, RouterUnavailable
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Figure

TO_SCHEDULE = "schedule"
"""What `leave_to` says if the letters go back to the schedule; anything else parks them."""

AWAITED_SECONDS = 120.0
"""Seconds after its end for which a run waits for the outcomes of what was under way."""

MOST_LEFT = 100
"""Letters that leave together: what one intent holds, and one request reads."""

WIND_DOWN_SECONDS = 5.0
"""Seconds before the deadline in which no letter is begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingSetup:
    """Everything that leaving is given. `index` is None if the run had no snapshot yet."""

    pipeline: Pipeline
    plan: ReplayPlan
    run: ReplayRun
    index: ManifestIndex | None
    manifest: ManifestParts
    statuses: Statuses
    tickets: Tickets
    ledger: Ledger
    room: WaitingRoom
    objects: RunObjects
    claim_for: Callable[[int], LaneClaim]
    router: Router
    mover: Mover
    tally: Tally
    clock: Callable[[], float]
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
        self._room = RunRoom(setup.room, setup.tickets, setup.tally)
        self._settling = Settling(setup.router, setup.mover, setup.tally)
        self._is_complete = True
        self._positions: dict[str, int] = {}

    def run(self, deadline: float) -> bool:
        """Leave until `deadline` (epoch seconds). Returns whether nothing is in the lane."""
        self._is_complete = True
        for shard in range(SHARDS):
            claim = self._setup.claim_for(shard)
            try:
                self._leave_shard(shard, claim, deadline)
            finally:
                claim.close()
        return self._is_complete

    def _leave_shard(self, shard: int, claim: LaneClaim, deadline: float) -> None:
        index = self._setup.index
        if index is not None and index.shards[shard]:
            self._leave_named(shard, index.shards[shard], claim, deadline)
        after: WaitingRoomEntry | None = None
        while self._has_time(deadline):
            entries = self._setup.room.due(self._lane, shard, FOREVER, MOST_LEFT, after)
            if not entries:
                return
            # The index lags: an entry that has left just now is read, and found gone.
            self._leave(shard, entries, claim)
            after = entries[-1]

    @property
    def _lane(self) -> str:
        return run_lane(self._setup.run.id)

    def _has_time(self, deadline: float) -> bool:
        if self._setup.clock() < deadline - WIND_DOWN_SECONDS:
            return True
        self._is_complete = False
        return False

    def _leave_named(self, shard: int, length: int, claim: LaneClaim, deadline: float) -> None:
        """Leave the letters of the manifest that are not at their end."""
        progress = ShardProgress.of(shard, self._setup.statuses.read(shard))
        try:
            for part in range(-(-length // PART)):
                if not self._has_time(deadline):
                    return
                self._leave_part(shard, part, length, progress, claim)
        finally:
            save(self._setup.statuses, [progress])

    def _leave_part(
        self, shard: int, part: int, length: int, progress: ShardProgress, claim: LaneClaim
    ) -> None:
        span = range(part * PART, min(length, (part + 1) * PART))
        open_ = [position for position in span if not progress.is_terminal(position)]
        if not open_:
            return
        names = self._setup.manifest.part(shard, part)
        letters = []
        for position in open_:
            name = names[position % PART]
            letters.append(RunLetter(name, position, name.copy, room_place(name.place)))
        for start in range(0, len(letters), MOST_LEFT):
            self._leave_letters(shard, letters[start : start + MOST_LEFT], progress, claim)

    def _leave_letters(
        self,
        shard: int,
        letters: Sequence[RunLetter],
        progress: ShardProgress,
        claim: LaneClaim,
    ) -> None:
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
            letter.copy, letter.place, letter.ticket = trail.copy, trail.place, trail.last
            letter.returns = max(progress.returned(letter.position), trail.returns)
            # What a worker sent may lie in the lane behind its ticket.
            entries += [self._entry(copy, place, shard) for copy, place in trail.sent]
            ticket = trail.last
            if trail.is_open or (ticket is not None and ticket.fate in OUTSIDE):
                here.append(letter)
                entries.append(self._entry(letter.copy, letter.place, shard))
            elif ticket is not None and ticket.fate is ReplayOutcome.SENT:
                awaited.append(letter)
            elif ticket is not None:
                progress.set(letter.position, ticket.fate, letter.returns)
        left = self._leave(shard, entries, claim)
        for letter in here:
            if letter.copy in left:
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
                self._is_complete = False
            else:
                progress.set(letter.position, answer.outcome, letter.returns)

    def _entry(self, copy: str, place: str, shard: int) -> WaitingRoomEntry:
        return WaitingRoomEntry(copy, place, self._lane, shard, 0.0)

    def _leave(self, shard: int, entries: Sequence[WaitingRoomEntry], claim: LaneClaim) -> set[str]:
        """Move the letters of these entries out of the lane; returns the copies that left."""
        left: set[str] = set()
        for start in range(0, len(entries), MOST_LEFT):
            left |= self._leave_some(shard, entries[start : start + MOST_LEFT], claim)
        return left

    def _leave_some(
        self, shard: int, entries: Sequence[WaitingRoomEntry], claim: LaneClaim
    ) -> set[str]:
        setup = self._setup
        claimed = claim.take([entry.copy for entry in entries], setup.clock())
        if claimed is None:
            self._is_complete = False
            return set()
        records = claimed.records
        free = [entry for entry in entries if claimed.is_free(entry.copy)]
        if len(free) < len(entries):
            self._is_complete = False
        contents = setup.room.read(free, claimed.expires)
        letters = {received.letter.message_id: received for received in contents.letters}
        tickets = self._tickets_of(letters)
        sent = self._sent(letters, tickets, records)
        self._delete_sent(shard, letters, sent, tickets, records)
        claimed.slot.keep([copy for copy in sent if copy not in self._room.gone])
        remaining = {copy: each for copy, each in letters.items() if copy not in sent}
        left = self._postpone(shard, remaining, tickets, records)
        claim.hold(claimed)
        return left

    def _tickets_of(self, letters: Mapping[str, ReceivedLetter]) -> dict[str, Ticket]:
        keys = [(_stamp(received).origin, copy) for copy, received in letters.items()]
        return {ticket.copy: ticket for ticket in self._setup.tickets.read(keys).values()}

    def _sent(
        self,
        letters: Mapping[str, ReceivedLetter],
        tickets: Mapping[str, Ticket],
        records: Mapping[str, OnRecord],
    ) -> set[str]:
        """The letters that a worker has sent and not deleted: they must not go anywhere else."""
        return {
            copy
            for copy in letters
            if (copy in tickets and tickets[copy].fate not in OUTSIDE)
            # Also one that its ticket lets go: it has reached the parking queue.
            or records[copy].mark is not None
        }

    def _delete_sent(
        self,
        shard: int,
        letters: Mapping[str, ReceivedLetter],
        sent: set[str],
        tickets: Mapping[str, Ticket],
        records: Mapping[str, OnRecord],
    ) -> None:
        owed = {
            copy: tickets.get(copy) or self._ticket(shard, letters[copy], ReplayOutcome.SENT)
            for copy in letters
            if copy in sent
        }
        self._room.expect(owed)
        settled = [
            SentBefore(letters[copy], records[copy].mark or confirmation_by(ticket), records[copy])
            for copy, ticket in owed.items()
        ]
        try:
            self._settling.settle(settled, self._room)
        except RouterUnavailable as error:
            # They stay where they are: the next call finds them there.
            self._setup.tally.note_trouble(str(error))
        if sent:
            # Their outcomes are looked up by the next call.
            self._is_complete = False

    def _postpone(
        self,
        shard: int,
        letters: Mapping[str, ReceivedLetter],
        tickets: Mapping[str, Ticket],
        records: Mapping[str, OnRecord],
    ) -> set[str]:
        if not letters:
            return set()
        maybe_sent = sum(records[copy].maybe_sent for copy in letters)
        self._setup.tally.count_now(Figure.POSSIBLE_DUPLICATE, maybe_sent)
        self._room.put_ahead(
            [
                self._ticket(shard, received, ReplayOutcome.LEFT)
                for copy, received in letters.items()
                if copy not in tickets
            ]
        )
        self._room.ticketed.update(tickets)
        letters = self._without_exports(letters)
        for received in letters.values():
            try:
                self._room.postpone(self._order(received))
            except RoomUnavailable as error:
                # It stays where it is: the next call finds it there.
                self._setup.tally.note_trouble(str(error))
                self._is_complete = False
        return {
            copy
            for copy in letters
            if copy in self._room.gone
            and (copy not in tickets or tickets[copy].fate is ReplayOutcome.LEFT)
        }

    def _without_exports(
        self, letters: Mapping[str, ReceivedLetter]
    ) -> Mapping[str, ReceivedLetter]:
        """Delete what a discard that was cut off has exported; returns the letters that may leave.

        They are in the lane until it is done: an export outlives the tickets, and would bring a
        letter back that was never gone. The first ticket decides: behind LEFT no worker discards.
        """
        setup = self._setup
        if not setup.plan.discards:
            return letters
        first = self._tickets_of(letters)
        left = {copy: each for copy, each in letters.items() if first[copy].fate in OUTSIDE}
        if len(left) < len(letters):
            # A worker was faster, and discards it.
            self._is_complete = False
        try:
            setup.objects.delete([discarded_name(copy) for copy in left])
        except ObjectsUnavailable as error:
            # They stay where they are: the next call finds them there.
            setup.tally.note_trouble(str(error))
            self._is_complete = False
            return {}
        return left

    def _ticket(self, shard: int, received: ReceivedLetter, fate: ReplayOutcome) -> Ticket:
        stamp = _stamp(received)
        return Ticket(
            run=self._setup.run.id,
            origin=stamp.origin,
            copy=received.letter.message_id,
            shard=shard,
            # The lane may hold letters that the manifest does not name.
            position=self._positions.get(received.letter.message_id, -1),
            attempt=stamp.attempt + (fate is ReplayOutcome.SENT),
            at=self._setup.clock(),
            fate=fate,
            generation=self._setup.run.generation,
        )

    def _order(self, received: ReceivedLetter) -> Order:
        """Where a letter goes that the run has left over."""
        setup, now, stamp = self._setup, self._setup.clock(), _stamp(received)
        because = f"run {setup.run.id} ended before it was sent"
        if setup.run.leave_to == TO_SCHEDULE:
            delay = setup.pipeline.policy.backoff.delay(1, setup.random)
            home = MAIN_DLQ if is_parking(received.home) else received.home
            return Order(
                replace(received, home=home),
                Hold(DUE, now + delay, because),
                left_stamp(stamp, "HOLD", None, because, now),
            )
        reason = _reason_before(stamp) if setup.plan.is_release else None
        home = received.home
        if not is_parking(home):
            parking = setup.pipeline.parking.get(reason or Reason.RUN_ABORTED)
            home = parking_source(parking or DEFAULT_PARKING)
        return Order(
            replace(received, home=home),
            Hold(PARKED_LANE, never(received.letter), because),
            left_stamp(stamp, "PARK", str(reason or Reason.RUN_ABORTED), because, now),
        )


def _reason_before(stamp: Stamp) -> Reason | None:
    """The reason for which a letter was parked before the run; None if it is not known."""
    return Reason(stamp.reason) if stamp.reason in set(Reason) else None


def _stamp(received: ReceivedLetter) -> Stamp:
    """The stamp of a letter in the run's custody; one without it is its own origin."""
    return received.stamp or Stamp(received.letter.message_id)
