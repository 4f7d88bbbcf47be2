"""Parks a message from the main queue, at most once for each copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from deadletter.contract import Reason, parking_for
from deadletter.message.envelope import seal
from deadletter.message.queue import Queue, QueueUnavailable
from deadletter.message.stamp import Stamp
from deadletter.processing.delivery import Delivery
from deadletter.processing.guard import Guard
from deadletter.processing.idempotency import BusinessKey, ClaimsUnavailable, Standing
from deadletter.processing.result import Trouble, Troubles
from deadletter.signals.figures import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Parking:
    """Sends messages of one batch to the parking lots.

    `names` gives the lot for a reason and category, `lots` the queues by name. `count_now`
    publishes a metric before the batch goes on.
    """

    names: Mapping[str, str]
    lots: Mapping[str, Queue]
    guard: Guard
    troubles: Troubles
    clock: Callable[[], float]
    count_now: Callable[[str, int], None]

    def park(
        self,
        delivery: Delivery,
        stamp: Stamp,
        reason: Reason,
        because: str,
        category: str | None = None,
        told: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Send the message to the parking lot for `reason`, once it is `told`, if it can be sent.

        Returns True only if the lot has confirmed it, now or before. The message's own claim
        must not be held, because a person may release the letter, and then it has to be
        processed. That this copy was parked is a claim of its own. An error is only noted.
        """
        message_id = delivery.letter.message_id
        with self.troubles.noticing(ClaimsUnavailable, Trouble.CLAIMS, message_id):
            lot = parking_for(self.names, reason, category)
            return self._park(delivery, stamp, reason, because, self.lots.get(lot), told)
        return False

    def _park(
        self,
        delivery: Delivery,
        stamp: Stamp,
        reason: Reason,
        because: str,
        lot: Queue | None,
        told: Callable[[], bool],
    ) -> bool:
        letter = delivery.letter
        if lot is None:
            self.troubles.notice(letter.message_id, Trouble.NOT_PARKED, "no such parking queue")
            return False
        parked = replace(
            stamp,
            rule=None,
            decision="PARK",
            reason=str(reason),
            because=because,
            at=int(self.clock()),
        )
        try:
            envelope = seal(letter, parked, lot.traits, consumed=False)
        except QueueUnavailable as error:
            self.troubles.explain(letter.message_id, Trouble.NOT_PARKED, error)
            return False
        if not envelope.marked:
            # The letter has no room for the stamp: the redriver parks it from the DLQ, and
            # records the stamp in the ledger.
            return False
        claim = self.guard.claim(BusinessKey(f"parked:{letter.message_id}", delivery.key.payload))
        if claim is not None and claim.standing is not Standing.MINE:
            return claim.standing is Standing.DUPLICATE
        if not told():
            self.guard.withdraw(letter.message_id, claim)
            return False
        if claim is not None and claim.taken_over:
            # The process that was to park it died: it may be in the lot.
            self.count_now(Figure.POSSIBLE_DUPLICATE, 1)
        sending = lot.send([envelope])
        if letter.message_id not in sending.confirmed:
            reasons = {**sending.refused, **sending.failed}
            why = reasons.get(letter.message_id, "no answer")
            if letter.message_id in sending.unknown:
                # It may be in the lot, and is parked again when it comes back.
                self.count_now(Figure.POSSIBLE_DUPLICATE, 1)
            self.troubles.notice(letter.message_id, Trouble.NOT_PARKED, why)
            self.guard.withdraw(letter.message_id, claim)
            return False
        if envelope.kept_as is not None:
            self.troubles.notice(letter.message_id, Trouble.RENAMED, f"to {envelope.kept_as}")
        self.guard.done(letter.message_id, claim)
        return True
