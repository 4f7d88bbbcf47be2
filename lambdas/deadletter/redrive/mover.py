"""Moves one chunk of letters so that a crash at any point loses none of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

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
from deadletter.message.stamp import Stamp
from deadletter.redrive.fifo import unbroken
from deadletter.redrive.journal import ROOM, ClaimLost, JournalUnavailable, Plan, Slot, key_of
from deadletter.redrive.order import MAIN, Order
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import LOCK_PAST_DEADLINE
from deadletter.redrive.waiting_room import RoomUnavailable, WaitingRoom
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive

MARGIN = 5.0
"""Seconds before a lock ends after which an answer to a delete is not believed: the call itself
takes time, and the queue's clock is not ours."""

LAST_SEND = LOCK_PAST_DEADLINE + 3.0
"""Seconds before a lock ends in which nothing is sent any more. A lock outlasts the run's
deadline, at which the function dies: what it sends just before, it can neither mark nor
delete."""

_METRICS: Mapping[type, Metric] = {
    Redrive: Metric.REDRIVEN,
    Park: Metric.MOVED_TO_PARKING,
    Divert: Metric.DIVERTED,
    Hold: Metric.HELD,
}

T = TypeVar("T")


class InParallel(Protocol):
    """Runs calls at the same time and returns their results in order."""

    def __call__(self, calls: Sequence[Callable[[], T]], /) -> list[T]:
        """An error of one call is raised when all have ended."""


@dataclass(frozen=True, slots=True)
class Left:
    """The letters of a move that have no confirmation of another place.

    `stayed` were certainly not sent, and may be made visible again. `unknown` may have been
    sent: each keeps its lock until this ends by itself.
    """

    stayed: Sequence[ReceivedLetter] = ()
    unknown: Sequence[ReceivedLetter] = ()


@dataclass(slots=True)
class _Progress:
    """What is confirmed of a chunk so far, and which copies may have arrived unconfirmed."""

    confirmed: dict[str, Confirmation] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    envelopes: dict[str, Envelope] = field(default_factory=dict)
    attempted: set[str] = field(default_factory=set)
    stopped_groups: set[str | None] = field(default_factory=set)


class Mover:
    """Carries out orders: intent, send, mark, delete, in this order and for many letters at once.

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
        in_parallel: InParallel,
        tally: Tally,
    ) -> None:
        self._fifo = fifo
        self._targets = targets
        self._parking_for = parking_for
        self._room = room
        self._records = records
        self._clock = clock
        self._in_parallel = in_parallel
        self._tally = tally
        # SQS may return a copy that was deleted, when its mark is gone already.
        self._moved: dict[str, Confirmation] = {}
        self._unknown: set[bytes] = set()

    def move_from_queue(self, queue: LetterStore, orders: Sequence[Order], slot: Slot) -> Left:
        """Move letters out of a queue; returns those without a confirmation of another place."""
        movable = self._movable(orders)
        if not movable:
            return Left([order.received for order in orders])
        try:
            slot.intend([self._plan(order) for order in movable], _end_of_locks(movable))
        except (JournalUnavailable, ClaimLost) as error:
            self._count_journal(error)
            self._count_untried(movable)
            return Left([order.received for order in orders])
        self._count_duplicates(movable)
        progress = _Progress()
        try:
            # Sends first: a letter that could not be sent stops its group, and no later
            # letter of the group may be in the waiting room before it.
            self._send([order for order in movable if not _is_hold(order)], progress)
            self._admit([order for order in movable if _is_hold(order)], progress)
        finally:
            self._settle(queue, movable, slot, progress)
            self._moved.update(progress.confirmed)
        return self._left(orders, progress)

    def confirmation_of(self, copy: str) -> Confirmation | None:
        """The confirmation that this run has moved a copy out of a queue."""
        return self._moved.get(copy)

    def is_unknown(self, copy: str) -> bool:
        """Whether this run may have sent a copy without a confirmation: it is left alone."""
        return key_of(copy) in self._unknown

    def move_from_room(self, orders: Sequence[Order], slot: Slot) -> Left:
        """Move letters out of the waiting room, whose shard's intent the slot already holds.

        Returns those without a confirmation of another place.
        """
        movable = self._movable(orders)
        for order in movable:
            if _is_hold(order):
                self._postpone(order)
        progress = _Progress()
        sends = [order for order in movable if not _is_hold(order)]
        self._count_duplicates(movable)
        try:
            self._send(sends, progress)
        finally:
            self._settle(self._room, sends, slot, progress)
        return self._left(orders, progress)

    def record(self, stamps: Mapping[str, Stamp]) -> bool:
        """Write the facts of letters that were sent without a stamp, by their new ids.

        Returns whether they are written.
        """
        try:
            self._records.store_stamps(stamps)
        except RecordsUnavailable as error:
            self._tally.note_trouble(str(error))
            return False
        return True

    def _left(self, orders: Sequence[Order], progress: _Progress) -> Left:
        left = [order for order in orders if order.copy not in progress.confirmed]
        unknown = [order.received for order in left if order.copy in progress.unknown]
        self._unknown.update(key_of(received.letter.message_id) for received in unknown)
        stayed = [order.received for order in left if order.copy not in progress.unknown]
        return Left(stayed, unknown)

    def _count_duplicates(self, orders: Sequence[Order]) -> None:
        """Count letters that may have been sent before, ahead of anything that moves them."""
        self._tally.count_now(Metric.POSSIBLE_DUPLICATE, sum(order.maybe_sent for order in orders))

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
        """Orders whose target exists and whose lock still holds; on FIFO in unbroken order."""
        targets = {self.target_of(order.decision) for order in orders} - {ROOM}
        reachable = {target for target in targets if self._is_reachable(target)} | {ROOM}
        movable = [order for order in orders if self.target_of(order.decision) in reachable]
        self._count_untried(
            [order for order in orders if self.target_of(order.decision) not in reachable]
        )
        self._tally.count(Metric.REDRIVE_FAILURE, len(orders) - len(movable))
        if self._fifo:
            movable = unbroken(orders, movable)
        if movable and self._too_late(movable):
            self._tally.count(Metric.TOO_LATE_TO_SEND, len(movable))
            self._count_untried(movable)
            return []
        return movable

    def _is_reachable(self, target: str) -> bool:
        """Whether the target queue is one of ours and answers, asked before anything is sent."""
        queue = self._targets.get(target)
        if queue is None:
            return False
        try:
            return bool(queue.traits)
        except QueueUnavailable as error:
            self._tally.count(Metric.QUEUE_UNAVAILABLE)
            self._tally.note_trouble(str(error))
            return False

    def _too_late(self, orders: Sequence[Order]) -> bool:
        return self._clock() >= _end_of_locks(orders) - LAST_SEND

    def _plan(self, order: Order) -> Plan:
        return Plan(key_of(order.copy), self.target_of(order.decision), order.stamp.attempt)

    def _admit(self, orders: Sequence[Order], progress: _Progress) -> None:
        if self._fifo:
            orders = [order for order in orders if order.group not in progress.stopped_groups]
        if not orders:
            return
        progress.attempted.update(order.copy for order in orders)
        if self._too_late(orders):
            self._tally.count(Metric.TOO_LATE_TO_SEND, len(orders))
            return
        try:
            admitted = self._room.admit(orders)
        except RoomUnavailable as error:
            self._tally.note_trouble(str(error))
            # Nothing was written yet that names a letter: none of them can be in there.
            self._tally.count(Metric.ROOM_UNAVAILABLE)
            return
        progress.confirmed.update(admitted)
        # A write whose answer was lost may have happened: the intent is kept, so that the
        # run that sees the letter again looks into the room first.
        progress.unknown.update(order.copy for order in orders if order.copy not in admitted)

    def _postpone(self, order: Order) -> None:
        try:
            self._room.postpone(order)
        except RoomUnavailable as error:
            self._tally.count(Metric.ROOM_UNAVAILABLE)
            self._tally.note_trouble(str(error))
            self._tally.count_target(ROOM, 1, 0)
        else:
            self._tally.count(Metric.HELD)
            self._tally.count_gone(1)
            self._tally.count_target(ROOM, 1, 1)

    def _send(self, orders: Sequence[Order], progress: _Progress) -> None:
        for order in orders:
            traits = self._targets[self.target_of(order.decision)].traits
            letter, stamp = order.received.letter, order.stamp
            if isinstance(order.decision, Redrive):
                envelope = seal(letter, stamp, traits, order.decision.delay)
            else:
                envelope = seal(letter, stamp, traits, consumed=False)
            if envelope.size <= traits.max_bytes:
                progress.envelopes[order.copy] = envelope
            else:
                self._tally.count(Metric.UNSENDABLE)
        sendable = [order for order in orders if order.copy in progress.envelopes]
        if self._fifo:
            sendable = unbroken(orders, sendable)
            progress.stopped_groups |= {order.group for order in orders if order not in sendable}
        for wave in waves(sendable, self._fifo):
            self._send_wave(wave, progress)

    def _send_wave(self, wave: Sequence[Order], progress: _Progress) -> None:
        """Send one wave to all its targets at once."""
        if self._fifo:
            wave = [order for order in wave if order.group not in progress.stopped_groups]
        progress.attempted.update(order.copy for order in wave)
        by_target: defaultdict[str, list[Order]] = defaultdict(list)
        for order in wave:
            by_target[self.target_of(order.decision)].append(order)
        calls = [
            partial(self._send_batch, self._targets[target], batch, _end_of_locks(orders))
            for target, orders in by_target.items()
            for batch in batches([progress.envelopes[order.copy] for order in orders])
        ]
        for result in self._in_parallel(calls):
            progress.confirmed.update(result.confirmed)
            progress.unknown |= result.unknown
        progress.stopped_groups |= {
            order.group for order in wave if order.copy not in progress.confirmed
        }

    def _send_batch(self, queue: Queue, batch: Sequence[Envelope], locks_end: float) -> SendResult:
        # The last moment to check the clock: after the lock has ended, another run may
        # have sent the letter already.
        if self._clock() >= locks_end - LAST_SEND:
            self._tally.count(Metric.TOO_LATE_TO_SEND, len(batch))
            return SendResult()
        return queue.send(batch)

    def _settle(
        self, store: LetterStore, orders: Sequence[Order], slot: Slot, progress: _Progress
    ) -> None:
        """Record, mark, delete: only letters that are confirmed to be elsewhere."""
        self._count_renamed(progress)
        self._record_unmarked(progress)
        moved = [order for order in orders if order.copy in progress.confirmed]
        try:
            if moved:
                slot.mark([order.copy for order in moved])
        except (JournalUnavailable, ClaimLost) as error:
            # The letters are safe elsewhere whether or not the mark is written.
            self._count_journal(error)
        undeleted = store.delete(
            [(order.received, progress.confirmed[order.copy]) for order in moved]
        )
        self._tally.count(Metric.UNDELETED, len(undeleted))
        self._tally.count_gone(len(moved) - len(undeleted))
        # After the lock's end another receiver may hold the copy: SQS accepts our old
        # handle then, and leaves the copy where it is.
        in_time = not moved or self._clock() < _end_of_locks(moved) - MARGIN
        stayed = {received.letter.message_id for received in undeleted}
        late = () if in_time else [order.copy for order in moved]
        slot.keep({*stayed, *progress.unknown, *late})
        for order in orders:
            if order.copy in progress.attempted:
                gone = order.copy in progress.confirmed and order.copy not in stayed
                self._tally.count_target(self.target_of(order.decision), 1, int(gone))
        self._count(orders, moved)

    def _count_untried(self, orders: Sequence[Order]) -> None:
        """Count letters that nothing was sent of, for no fault of their own."""
        for target, letters in Counter(self.target_of(order.decision) for order in orders).items():
            self._tally.count_target(target, letters, 0)

    def _count_journal(self, error: Exception) -> None:
        self._tally.count(Metric.JOURNAL_UNAVAILABLE)
        if isinstance(error, JournalUnavailable):
            self._tally.note_trouble(str(error))

    def _count_renamed(self, progress: _Progress) -> None:
        """Count letters that were sent with their own attribute `Redrive` under another name."""
        sent = (progress.envelopes.get(copy) for copy in progress.confirmed)
        renamed = sum(envelope is not None and envelope.kept_as is not None for envelope in sent)
        self._tally.count(Metric.ATTRIBUTE_RENAMED, renamed)

    def _record_unmarked(self, progress: _Progress) -> None:
        """Write to the ledger the stamps of letters that were sent without theirs."""
        stamps = {
            confirmation.new_id: progress.envelopes[copy].stamp
            for copy, confirmation in progress.confirmed.items()
            if confirmation.new_id is not None
            and copy in progress.envelopes
            and not progress.envelopes[copy].marked
        }
        if not stamps:
            return
        self._tally.count(Metric.REDRIVE_UNMARKED, len(stamps))
        try:
            self._records.store_stamps(stamps)
        except RecordsUnavailable as error:
            self._tally.note_trouble(str(error))
            # The letter is on its way; sending it again would not bring its stamp back.
            self._tally.count(Metric.REDRIVE_UNRECORDED, len(stamps))

    def _count(self, orders: Sequence[Order], moved: Sequence[Order]) -> None:
        self._tally.count(Metric.REDRIVE_FAILURE, len(orders) - len(moved))
        for order in moved:
            self._tally.count(_METRICS[type(order.decision)])
        matches = Counter(order.decision.rule for order in moved if order.decision.rule is not None)
        if matches:
            try:
                self._records.count_matches(matches)
            except RecordsUnavailable as error:
                self._tally.note_trouble(str(error))
                self._tally.count(Metric.REDRIVE_UNRECORDED)


def _is_hold(order: Order) -> bool:
    return isinstance(order.decision, Hold)


def _end_of_locks(orders: Sequence[Order]) -> float:
    return min(order.received.locked_until for order in orders)
