"""Canaries by post: through the main queue to a consumer that nobody can call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import Metric
from deadletter.failure.fate import Evidence, evidence_of, was_tried
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow, LedgerUnavailable
from deadletter.message.envelope import seal
from deadletter.message.queue import Queue, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.outage.canary_sources import CanaryChoice, CanarySource, waits_for
from deadletter.outage.prober import CanarySender, QueueCanary
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.routing.decision import Redrive
from deadletter.routing.router import Router, Verdict

UNHEARD = Metric.LEDGER_UNAVAILABLE

_LONGEST_OWNER = "x" * 64
"""Stands for the owner of a permit where only its length matters."""


class MovingSource(CanarySource, Protocol):
    """Where a canary comes from that is moved to the main queue, not tried where it is."""

    def give_back(self, taken: ReceivedLetter) -> None:
        """Give a letter back at once, for nobody has tried it."""

    def move(self, mover: Mover, order: Order, owner: str) -> bool:
        """Move a letter that was taken, as any is moved; False if it surely is here still."""


class SendableLetters(CanaryChoice):
    """Letters that can carry the mark of a canary, and of which the ledger will hear.

    No letter that was processed before: it is a duplicate, and the ledger says nothing new
    of it. Nor one that was a canary within the last `aside_seconds`: were its fault its own,
    it would keep the circuit open, and use its attempts up in one outage.
    """

    def __init__(
        self,
        *,
        router: Router,
        ledger: Ledger,
        main: Queue,
        aside_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._router = router
        self._ledger = ledger
        self._main = main
        self._aside = aside_seconds
        self._clock = clock
        self._stamps: dict[str, Stamp] = {}

    def takes(self, taken: ReceivedLetter, key: str) -> bool:
        """As a Choice; raises QueueUnavailable and LedgerUnavailable besides."""
        mark = waits_for(self._router, taken, key)
        if mark is None or self._was_canary(taken, mark):
            return False
        row = self._ledger.rows([mark.origin]).get(mark.origin, NO_ROW)
        if row.unreadable or row.recovered_at is not None:
            return False
        marked = as_canary(mark, key, _LONGEST_OWNER).stamp
        if not seal(taken.letter, marked, self._main.traits).marked:
            return False
        self._stamps = {taken.letter.message_id: mark}
        return True

    def order(self, taken: ReceivedLetter, key: str, owner: str) -> Order:
        """The letter that was taken last, to be moved as the canary of this permit."""
        copy = taken.letter.message_id
        sent = as_canary(self._stamps[copy], key, owner)
        return Order(taken, sent.decision, sent.stamp)

    def _was_canary(self, taken: ReceivedLetter, mark: Stamp) -> bool:
        sent = (taken.letter.sent_ms or 0) / 1000
        return mark.canary is not None and self._clock() - sent < self._aside


def as_canary(mark: Stamp, key: str, owner: str) -> Verdict:
    """The verdict by which a letter that waits for its circuit goes back to try it.

    It is a re-drive like any other, and counts as an attempt.
    """
    because = f"tries circuit {key}"
    sent = replace(
        mark,
        attempt=mark.attempt + 1,
        rule=None,
        decision="REDRIVE",
        reason=None,
        because=because,
        canary=owner,
    )
    return Verdict("", Redrive(0, because), sent)


@dataclass(frozen=True, slots=True)
class _Parcel(QueueCanary):
    """A letter under its source's lock; `owner` is that of the permit."""

    source: MovingSource
    order: Order
    owner: str
    mover_for: Callable[[Tally], Mover]
    count_metric: Callable[[str, int], None]

    @property
    def origin(self) -> str:
        return self.order.stamp.origin

    @property
    def attempt(self) -> int:
        return self.order.stamp.attempt

    def send(self) -> bool:
        tally = Tally()
        gone = self.source.move(self.mover_for(tally), self.order, self.owner)
        for figure, number in tally.report("", "", "").counts.items():
            self.count_metric(str(figure), number)
        return gone

    def put_back(self) -> None:
        self.source.give_back(self.order.received)


class MainQueueSender(CanarySender):
    """Moves one letter to the main queue, marked as the canary, and looks into the ledger.

    `sources` are tried in their order, and choose by `choice`; `mover_for` makes a mover
    that counts on a tally; `count_metric` counts a metric by its name.
    """

    def __init__(
        self,
        *,
        sources: Sequence[MovingSource],
        choice: SendableLetters,
        mover_for: Callable[[Tally], Mover],
        ledger: Ledger,
        count_metric: Callable[[str, int], None],
    ) -> None:
        self._sources = sources
        self._choice = choice
        self._mover_for = mover_for
        self._ledger = ledger
        self._count_metric = count_metric

    def take(self, key: str, owner: str, lock_seconds: float) -> QueueCanary | None:
        for source in self._sources:
            taken = source.take(key, lock_seconds)
            if taken is not None:
                order = self._choice.order(taken, key, owner)
                return _Parcel(source, order, owner, self._mover_for, self._count_metric)
        return None

    def verdict(self, origin: str, attempt: int) -> CanaryVerdict | None:
        try:
            row = self._ledger.rows([origin]).get(origin, NO_ROW)
        except LedgerUnavailable:
            # The lease goes on: a ledger that stays silent must not keep the permit.
            self._count_metric(UNHEARD, 1)
            return None
        return heard(row, attempt)


def heard(row: LedgerRow, attempt: int) -> CanaryVerdict | None:
    """What a letter's row says of its canary's life; None where nobody has tried it yet.

    Times are not compared: the life is a number that no earlier failure has, and a letter
    that had been processed before was not sent.
    """
    if row.recovered_at is not None:
        return CanaryVerdict.NEUTRAL if row.recovered_unasked else CanaryVerdict.SUCCESS
    said = [one for one in row.since_release if one.attempt == attempt and was_tried(one)]
    if not said:
        return None
    evidence = evidence_of(said[-1].category, said[-1].http_status)
    return CanaryVerdict.FAILURE if evidence is Evidence.FAILURE else CanaryVerdict.NEUTRAL
