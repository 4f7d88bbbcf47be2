"""Throws letters of a run away, for a reason that a person has given; an export may stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deadletter.failure.ledger import Records, RecordsUnavailable
from deadletter.redrive.journal import ClaimLost, JournalUnavailable, Slot
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.replay.discarded import DiscardedLetter, discarded_name
from deadletter.replay.objects import ObjectsUnavailable, RunObjects
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run_room import RunRoom
from deadletter.replay.ticket import ReplayOutcome
from deadletter.signals.figures import Count

LONGEST_EXPORT = 30.0
"""Seconds that the exports of one batch may take."""


class Discarding:
    """A carrier out of the world: export, ticket, delete, and a mark for a copy left in a queue.

    The export says who threw the letter away, and why. If the plan keeps no export, nothing stays.
    """

    seconds = LONGEST_EXPORT

    def __init__(
        self,
        *,
        objects: RunObjects,
        plan: ReplayPlan,
        records: Records,
        clock: Callable[[], float],
        tally: Tally,
    ) -> None:
        self._objects = objects
        self._plan = plan
        self._records = records
        self._clock = clock
        self._tally = tally

    def carry(self, orders: Sequence[Order], slot: Slot, room: RunRoom, until: float) -> Left:
        exported = [order for order in orders if self._clock() < until and self._export(order)]
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
            self._tally.count(Count.JOURNAL_UNAVAILABLE)

    def _leave_index(self, order: Order) -> None:
        """Let `dlq groups` forget the letter, which is gone whether or not this is written."""
        try:
            self._records.leave_index(order.stamp.origin)
        except RecordsUnavailable as error:
            self._tally.note_trouble(str(error))

    def _export(self, order: Order) -> bool:
        """Store the whole letter; returns whether it may be deleted."""
        plan = self._plan
        if not plan.keep_export:
            return True
        received = order.received
        copy = DiscardedLetter(
            letter=received.letter,
            home=received.home,
            stamp=order.stamp,
            at=int(self._clock()),
            by=plan.who,
            because=plan.why,
        )
        try:
            self._objects.put(discarded_name(order.copy), copy.to_bytes())
        except ObjectsUnavailable as error:
            self._tally.note_trouble(str(error))
            return False
        return True
