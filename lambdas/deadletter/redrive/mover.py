"""Moves one chunk of letters so that a crash at any point loses none of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from deadletter.contract import DEFAULT_PARKING, Metric
from deadletter.failure.ledger import Records, RecordsUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, seal
from deadletter.message.queue import (
    LetterStore,
    Queue,
    QueueUnavailable,
    ReceivedLetter,
    SendResult,
    batches,
    waves,
)
from deadletter.redrive.journal import ROOM, ClaimLost, JournalUnavailable, Plan, Slot, key_of
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import LOCK_PAST_DEADLINE
from deadletter.redrive.waiting_room import RoomUnavailable, WaitingRoom
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive

MARGIN = 5.0
"""Seconds before a lock ends after which an answer to a delete is not believed: a call under
way takes time, and the queue's clock is not ours."""

LAST_SEND = LOCK_PAST_DEADLINE + 3.0
"""Seconds before a lock ends in which nothing is sent any more. A lock outlasts the run's
deadline, at which the function dies: what it sends just before, it can neither mark nor
delete."""

T = TypeVar("T")
Together = Callable[[Sequence[Callable[[], T]]], list[T]]
"""Runs calls at the same time and returns their results in order."""

MAIN = "main"
_KIND: Mapping[type, Metric] = {
    Redrive: Metric.REDRIVEN,
    Park: Metric.MOVED_TO_PARKING,
    Divert: Metric.DIVERTED,
    Hold: Metric.HELD,
}


@dataclass(slots=True)
class _Progress:
    """What is confirmed of a chunk so far, and what may have happened unseen."""

    proofs: dict[str, Confirmation] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    envelopes: dict[str, Envelope] = field(default_factory=dict)
    stopped_groups: set[str | None] = field(default_factory=set)


class Mover:
    """Carries out verdicts: intent, send, mark, delete, in this order and for many letters at once.

    `targets` maps "main", "parking:<id>" and "dedicated:<id>" to their queues. A
    letter that cannot be moved stays where it is, and is counted.
    """

    def __init__(
        self,
        *,
        fifo: bool,
        targets: Mapping[str, Queue],
        parking_for: Mapping[str, str],
        room: WaitingRoom,
        records: Records,
        clock: Callable[[], float],
        together: Together[SendResult],
        tally: Tally,
    ) -> None:
        self._fifo = fifo
        self._targets = targets
        self._parking_for = parking_for
        self._room = room
        self._records = records
        self._clock = clock
        self._together = together
        self._tally = tally
        # SQS may hand a copy out again that was deleted, when its mark is gone already.
        self._moved: dict[str, Confirmation] = {}

    def move_from_queue(
        self, source: LetterStore, orders: Sequence[Order], slot: Slot
    ) -> list[ReceivedLetter]:
        """Move letters out of a queue; returns those that are not proved to be elsewhere."""
        movable = self._movable(orders)
        if not movable:
            return [one.received for one in orders]
        try:
            slot.intend([self._plan(one) for one in movable], _end_of_locks(movable))
        except (JournalUnavailable, ClaimLost):
            self._tally.count(Metric.JOURNAL_UNAVAILABLE)
            return [one.received for one in orders]
        progress = _Progress()
        try:
            # A letter that could not be sent holds its group up: what follows may not
            # be in the waiting room before it.
            self._send([one for one in movable if not isinstance(one.decision, Hold)], progress)
            self._admit([one for one in movable if isinstance(one.decision, Hold)], progress)
        finally:
            self._settle(source, movable, slot, progress)
            self._moved.update(progress.proofs)
        return [one.received for one in orders if one.copy not in progress.proofs]

    def confirmation_of(self, copy: str) -> Confirmation | None:
        """The proof that this run has moved a copy out of a queue."""
        return self._moved.get(copy)

    def move_from_room(self, orders: Sequence[Order], slot: Slot) -> list[ReceivedLetter]:
        """Move letters out of the waiting room, whose shard's intent the slot already holds.

        Returns those that are not proved to be elsewhere.
        """
        movable = self._movable(orders)
        for one in movable:
            if isinstance(one.decision, Hold):
                self._postpone(one)
        progress = _Progress()
        sends = [one for one in movable if not isinstance(one.decision, Hold)]
        try:
            self._send(sends, progress)
        finally:
            self._settle(self._room, sends, slot, progress)
        return [one.received for one in orders if one.copy not in progress.proofs]

    def target_of(self, decision: Decision) -> str:
        """The name of the place that a decision sends a letter to."""
        match decision:
            case Redrive():
                return MAIN
            case Hold():
                return ROOM
            case Divert(queue=queue):
                return f"dedicated:{queue}"
            case Park(reason=reason):
                return f"parking:{self._parking_for.get(reason, DEFAULT_PARKING)}"

    def _movable(self, orders: Sequence[Order]) -> list[Order]:
        """Those whose target exists and whose lock still holds; on FIFO in unbroken order."""
        targets = {self.target_of(one.decision) for one in orders} - {ROOM}
        there = {target for target in targets if self._is_there(target)} | {ROOM}
        known = [one for one in orders if self.target_of(one.decision) in there]
        self._tally.count(Metric.REDRIVE_FAILURE, len(orders) - len(known))
        if self._fifo:
            known = unbroken(orders, known)
        if known and self._too_late(known):
            self._tally.count(Metric.TOO_LATE_TO_SEND, len(known))
            return []
        return known

    def _is_there(self, target: str) -> bool:
        """Whether the target queue is one of ours and answers, asked before anything is sent."""
        queue = self._targets.get(target)
        if queue is None:
            return False
        try:
            return bool(queue.traits)
        except QueueUnavailable:
            self._tally.count(Metric.QUEUE_UNAVAILABLE)
            return False

    def _too_late(self, orders: Sequence[Order]) -> bool:
        return self._clock() >= _end_of_locks(orders) - LAST_SEND

    def _plan(self, one: Order) -> Plan:
        return Plan(key_of(one.copy), self.target_of(one.decision), one.stamp.attempt)

    def _admit(self, orders: Sequence[Order], progress: _Progress) -> None:
        if self._fifo:
            stopped = progress.stopped_groups
            orders = [one for one in orders if one.group not in stopped]
        if not orders:
            return
        if self._too_late(orders):
            self._tally.count(Metric.TOO_LATE_TO_SEND, len(orders))
            return
        try:
            found = self._room.admit(orders)
        except RoomUnavailable:
            # Nothing was written yet that names a letter: none of them can be in there.
            self._tally.count(Metric.ROOM_UNAVAILABLE)
            return
        progress.proofs.update(found)
        # A write whose answer was lost may have happened: the intent has to stand,
        # so that whoever sees the letter again looks into the room first.
        progress.unknown.update(one.copy for one in orders if one.copy not in found)

    def _postpone(self, order: Order) -> None:
        try:
            self._room.postpone(order)
        except RoomUnavailable:
            self._tally.count(Metric.ROOM_UNAVAILABLE)
        else:
            self._tally.count(Metric.HELD)

    def _send(self, orders: Sequence[Order], progress: _Progress) -> None:
        for one in orders:
            queue = self._queue_of(one)
            letter, mark = one.received.letter, one.stamp
            if isinstance(one.decision, Redrive):
                envelope = seal(letter, mark, queue.traits, one.decision.delay)
            else:
                envelope = seal(letter, mark, queue.traits, consumed=False)
            if envelope.size <= queue.traits.max_bytes:
                progress.envelopes[one.copy] = envelope
            else:
                self._tally.count(Metric.UNSENDABLE)
        going = [one for one in orders if one.copy in progress.envelopes]
        if self._fifo:
            going = unbroken(orders, going)
            progress.stopped_groups |= {one.group for one in orders if one not in going}
        for wave in waves(going, self._fifo):
            self._send_wave(wave, progress)

    def _send_wave(self, wave: Sequence[Order], progress: _Progress) -> None:
        """Send to all targets at once what may go together."""
        if self._fifo:
            stopped = progress.stopped_groups
            wave = [one for one in wave if one.group not in stopped]
        by_target: defaultdict[str, list[Order]] = defaultdict(list)
        for one in wave:
            by_target[self.target_of(one.decision)].append(one)
        calls = [
            partial(self._send_batch, self._targets[target], batch, _end_of_locks(bound))
            for target, bound in by_target.items()
            for batch in batches([progress.envelopes[one.copy] for one in bound])
        ]
        for outcome in self._together(calls):
            progress.proofs.update(outcome.confirmed)
            progress.unknown |= outcome.unknown
        progress.stopped_groups |= {one.group for one in wave if one.copy not in progress.proofs}

    def _send_batch(self, queue: Queue, batch: Sequence[Envelope], locks_end: float) -> SendResult:
        # The last moment to look at the clock: what is sent after the lock has ended,
        # another run may have sent already.
        if self._clock() >= locks_end - LAST_SEND:
            self._tally.count(Metric.TOO_LATE_TO_SEND, len(batch))
            return SendResult()
        return queue.send(batch)

    def _queue_of(self, one: Order) -> Queue:
        return self._targets[self.target_of(one.decision)]

    def _settle(
        self, source: LetterStore, orders: Sequence[Order], slot: Slot, progress: _Progress
    ) -> None:
        """Record, mark, delete: only what is proved to be elsewhere."""
        self._record_unmarked(progress)
        proved = [one for one in orders if one.copy in progress.proofs]
        try:
            if proved:
                slot.mark([one.copy for one in proved])
        except (JournalUnavailable, ClaimLost):
            # The letters are safe elsewhere whether or not the mark stands.
            self._tally.count(Metric.JOURNAL_UNAVAILABLE)
        undeleted = source.delete([(one.received, progress.proofs[one.copy]) for one in proved])
        self._tally.count(Metric.UNDELETED, len(undeleted))
        # Past the lock's end somebody else may have taken a copy: SQS accepts our old
        # handle then, and leaves the copy where it is.
        in_time = not proved or self._clock() < _end_of_locks(proved) - MARGIN
        if undeleted or progress.unknown or not in_time:
            slot.keep()
        self._count(orders, proved)

    def _record_unmarked(self, progress: _Progress) -> None:
        facts = {
            proof.new_id: progress.envelopes[copy].stamp
            for copy, proof in progress.proofs.items()
            if proof.new_id is not None
            and copy in progress.envelopes
            and not progress.envelopes[copy].marked
        }
        if not facts:
            return
        self._tally.count(Metric.REDRIVE_UNMARKED, len(facts))
        try:
            self._records.keep_stamps(facts)
        except RecordsUnavailable:
            # The letter is on its way; sending it again would not bring its facts back.
            self._tally.count(Metric.REDRIVE_UNRECORDED, len(facts))

    def _count(self, orders: Sequence[Order], proved: Sequence[Order]) -> None:
        self._tally.count(Metric.REDRIVE_FAILURE, len(orders) - len(proved))
        for one in proved:
            self._tally.count(_KIND[type(one.decision)])
        matches = Counter(one.decision.rule for one in proved if one.decision.rule is not None)
        if matches:
            try:
                self._records.count_matches(matches)
            except RecordsUnavailable:
                self._tally.count(Metric.REDRIVE_UNRECORDED)


def unbroken(all_orders: Sequence[Order], chosen: Sequence[Order]) -> list[Order]:
    """The chosen orders without those that come after one of their group that is not chosen."""
    wanted = {one.copy for one in chosen}
    stopped: set[str | None] = set()
    kept: list[Order] = []
    for one in all_orders:
        group = one.group
        if one.copy not in wanted:
            stopped.add(group)
        elif group is None or group not in stopped:
            kept.append(one)
    return kept


def _end_of_locks(orders: Sequence[Order]) -> float:
    return min(one.received.locked_until for one in orders)
