"""Carry letters of a run where no queue is: to the consumer function, or out of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from deadletter.contract import run_lane
from deadletter.failure.ledger import Records, RecordsUnavailable
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.queue import MAX_BATCH
from deadletter.redrive.journal import ClaimLost, JournalUnavailable, Slot
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import request_bytes
from deadletter.redrive.run_limits import MAX_REQUEST
from deadletter.redrive.waiting_room import RoomUnavailable, WaitingRoom, never
from deadletter.replay.objects import (
    DiscardedLetter,
    ObjectsUnavailable,
    RunObjects,
    discarded_name,
)
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run_lane import TicketedLane
from deadletter.replay.ticket import BY_CONSUMER, ReplayOutcome
from deadletter.routing.decision import Hold
from deadletter.signals.figures import Count


class DirectCarrier(Protocol):
    """Takes letters to a place that is no queue: to the consumer function, or out of the world."""

    @property
    def seconds(self) -> float:
        """Seconds that carrying may take: so much longer an intent of its worker stands."""

    def carry(self, orders: Sequence[Order], slot: Slot, room: TicketedLane, until: float) -> Left:
        """Carry letters, as `Mover.move` does: mark what is confirmed, then delete it.

        `room` puts the tickets first, with the outcomes that the carrier was told. A letter that
        was tried and failed has the stamp of the try. Nothing is begun after `until` (epoch
        seconds).
        """


class DirectFate(StrEnum):
    """What became of one letter of an invocation; the words of the consumer library."""

    RECOVERED = "recovered"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    PARKED = "parked"
    ACCEPTED = "accepted"
    """The consumer has no library: it did not name the letter among the failed ones."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It may still be in process, or nobody answered."""
    UNTRIED = "untried"


_OUTCOMES = {**BY_CONSUMER, DirectFate.ACCEPTED: ReplayOutcome.DELIVERED}


@dataclass(frozen=True, slots=True)
class DirectAnswer:
    """What a consumer said of each letter, by message id; `retry_after` in seconds."""

    fates: Mapping[str, DirectFate] = field(default_factory=dict)
    retry_after: float = 0.0


class DirectConsumer(Protocol):
    """The consumer function, invoked with letters as SQS invokes it."""

    @property
    def timeout(self) -> float:
        """Seconds that an invocation may take."""

    def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
        """Invoke it once. A letter that the answer does not name is UNKNOWN; nothing is raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivering:
    """A carrier to the consumer function; one invocation takes up to ten letters."""

    consumer: DirectConsumer
    room: WaitingRoom
    run: str
    clock: Callable[[], float]
    tally: Tally

    @property
    def seconds(self) -> float:
        return self.consumer.timeout

    def carry(self, orders: Sequence[Order], slot: Slot, room: TicketedLane, until: float) -> Left:
        fates: dict[str, DirectFate] = {}
        retry_after = 0.0
        for batch in _batches(orders):
            if self.clock() >= until or retry_after:
                fates.update((order.copy, DirectFate.UNTRIED) for order in batch)
                continue
            self.tally.count_possible_duplicates(batch)
            answer = self.consumer.deliver([_stamped(order) for order in batch], self.run)
            for order in batch:
                fates[order.copy] = answer.fates.get(order.copy, DirectFate.UNKNOWN)
            retry_after = max(retry_after, answer.retry_after)
        outcomes = {copy: _OUTCOMES[fate] for copy, fate in fates.items() if fate in _OUTCOMES}
        self._settle(orders, outcomes, slot, room)
        failed = [order for order in orders if fates[order.copy] is DirectFate.FAILED]
        tried = [order for order in failed if self._note_try(order, room)]
        unknown = [order for order in orders if fates[order.copy] is DirectFate.UNKNOWN]
        slot.keep([order.copy for order in unknown])
        stayed = [
            order
            for order in orders
            if fates[order.copy] is DirectFate.UNTRIED or (order in failed and order not in tried)
        ]
        return Left(
            [order.received for order in stayed],
            [order.received for order in unknown],
            [order.received for order in tried],
            retry_after,
        )

    def _settle(
        self,
        orders: Sequence[Order],
        outcomes: Mapping[str, ReplayOutcome],
        slot: Slot,
        room: TicketedLane,
    ) -> None:
        """Mark and delete what the consumer has taken; the room puts the tickets first."""
        if not outcomes:
            return
        try:
            slot.mark(list(outcomes))
        except (JournalUnavailable, ClaimLost):
            # It is processed, whether or not the mark is written: the tickets say so.
            self.tally.count(Count.JOURNAL_UNAVAILABLE)
        confirmations = room.confirm(outcomes)
        room.delete(
            [
                (order.received, confirmations[order.copy])
                for order in orders
                if order.copy in confirmations
            ]
        )
        slot.keep([copy for copy in outcomes if copy not in room.gone])

    def _note_try(self, order: Order, room: TicketedLane) -> bool:
        """Count the failed try in the letter's item; returns whether it is written."""
        lane = run_lane(self.run)
        stamp = replace(order.stamp, decision="HOLD", ticket=None)
        shard = room.expected(order.copy).shard
        hold = Hold(lane, never(order.received.letter), order.decision.because, shard=shard)
        try:
            self.room.postpone(replace(order, decision=hold, stamp=stamp))
        except RoomUnavailable as error:
            self.tally.note_trouble(str(error))
            return False
        return True


def _stamped(order: Order) -> Letter:
    """The letter as the consumer gets it: with our stamp, whatever number of attributes it has."""
    letter = order.received.letter
    kept_as = stamps.kept_name(letter, order.stamp)
    attributes = stamps.producer_attributes(letter, kept_as)
    return replace(letter, attributes={**attributes, stamps.NAME: stamps.attribute(order.stamp)})


def _batches(orders: Sequence[Order]) -> Iterator[list[Order]]:
    """The orders in batches that one invocation can take: ten, and less than 6 MB."""
    batch: list[Order] = []
    size = 0
    for order in orders:
        letter = request_bytes(order.received)
        if batch and (len(batch) == MAX_BATCH or size + letter > MAX_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append(order)
        size += letter
    if batch:
        yield batch


LONGEST_EXPORT = 30.0
"""Seconds that the exports of one batch may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarding:
    """A carrier out of the world: export, ticket, delete, and a mark for a copy left in a queue.

    The export says who threw the letter away, and why. If the plan keeps no export, nothing stays.
    Where messages are `ordered`, those behind a letter go on by its record: it comes first.
    """

    seconds = LONGEST_EXPORT

    objects: RunObjects
    plan: ReplayPlan
    records: Records
    clock: Callable[[], float]
    tally: Tally
    ordered: bool = False

    def carry(self, orders: Sequence[Order], slot: Slot, room: TicketedLane, until: float) -> Left:
        exported = [
            order
            for order in orders
            if self.clock() < until and self._export(order) and self._told(order)
        ]
        outcomes = {order.copy: ReplayOutcome.DISCARDED for order in exported}
        confirmations = room.confirm(outcomes)
        room.delete([(order.received, confirmations[order.copy]) for order in exported])
        self._mark([order.copy for order in exported if order.copy in room.gone], slot)
        for order in exported:
            self._leave_index(order)
        return Left([order.received for order in orders if order not in exported])

    def _mark(self, gone: Sequence[str], slot: Slot) -> None:
        """Mark letters whose copies may still lie in their queue: else the schedule re-drives them.

        Only now: until its ticket stands, an abort may have been faster, and has the letter.
        """
        kept = [copy for copy in gone if slot.keeps(copy)]
        if not kept:
            return
        try:
            slot.mark(kept)
        except (JournalUnavailable, ClaimLost):
            self.tally.count(Count.JOURNAL_UNAVAILABLE)

    def _told(self, order: Order) -> bool:
        """Whether the others of its ordering key are told that the letter comes no more."""
        try:
            if self.ordered:
                self.records.note_discarded(order.stamp.origin, self.clock())
        except RecordsUnavailable as error:
            self.tally.note_trouble(str(error))
            return False
        return True

    def _leave_index(self, order: Order) -> None:
        """Let `dlq groups` forget the letter, which is gone whether or not this is written."""
        try:
            self.records.leave_index(order.stamp.origin)
        except RecordsUnavailable as error:
            self.tally.note_trouble(str(error))

    def _export(self, order: Order) -> bool:
        """Store the whole letter; returns whether it may be deleted."""
        plan = self.plan
        if not plan.keep_export:
            return True
        received = order.received
        copy = DiscardedLetter(
            letter=received.letter,
            home=received.home,
            stamp=order.stamp,
            at=int(self.clock()),
            by=plan.who,
            because=plan.why,
        )
        try:
            self.objects.put(discarded_name(order.copy), copy.to_bytes())
        except ObjectsUnavailable as error:
            self.tally.note_trouble(str(error))
            return False
        return True
