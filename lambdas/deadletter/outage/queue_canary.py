"""Canaries sent through the main queue, to a consumer that cannot be invoked directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.failure.fate import Evidence, evidence_of, shown_by, was_tried
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow, LedgerUnavailable, is_free
from deadletter.message.envelope import seal
from deadletter.message.queue import Queue, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.outage.canaries import (
    CanaryChoice,
    CanarySource,
    failed_by_itself,
    hold_for,
    is_of_another,
)
from deadletter.outage.prober import CanarySender, QueueCanary
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.routing.decision import Redrive
from deadletter.routing.router import Router, Verdict
from deadletter.signals.figures import Count

LEDGER_UNAVAILABLE = Count.LEDGER_UNAVAILABLE

_LONGEST_OWNER = "x" * 64
"""Stands for the owner of a permit when only its length matters."""


class MovingSource(CanarySource, Protocol):
    """A source whose canaries are moved to the main queue instead of tried in place."""

    def move(self, mover: Mover, order: Order, owner: str) -> bool:
        """Move a letter with the mover. Returns False if it certainly is still in its place."""


class SendableLetters(CanaryChoice):
    """Accepts letters that can carry the mark of a canary, and whose end the ledger records.

    It refuses a letter that was processed before: it is a duplicate, and the ledger records
    nothing new about it. It also refuses a letter that was a canary within the last
    `aside_seconds`: one that fails by its own fault would keep the circuit open, and use up
    its attempts in one outage.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        router: Router,
        ledger: Ledger,
        main: Queue,
        aside_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._router = router
        self._ledger = ledger
        self._main = main
        self._aside = aside_seconds
        self._clock = clock
        self._stamps: dict[str, Stamp] = {}

    def accepts(self, received: ReceivedLetter, key: str) -> bool:
        """As CanaryChoice; also raises QueueUnavailable and LedgerUnavailable."""
        verdict = hold_for(self._router, received, key)
        if verdict is None or self._was_canary(received, verdict.stamp):
            return False
        stamp = verdict.stamp
        row = self._ledger.rows([stamp.origin]).get(stamp.origin, NO_ROW)
        if row.unreadable or row.recovered_at is not None:
            return False
        if failed_by_itself(row, key, self._pipeline):
            return False
        marked = as_canary(stamp, key, _LONGEST_OWNER).stamp
        if not seal(received.letter, marked, self._main.traits).marked:
            return False
        base = stamp.base + int(is_free(stamp, row))
        self._stamps = {received.letter.message_id: replace(stamp, base=base)}
        return True

    def order(self, received: ReceivedLetter, key: str, owner: str) -> Order:
        """The order that moves the letter accepted last as the canary of this permit."""
        copy = received.letter.message_id
        sent = as_canary(self._stamps[copy], key, owner)
        return Order(received, sent.decision, sent.stamp)

    def _was_canary(self, received: ReceivedLetter, stamp: Stamp) -> bool:
        sent_at = (received.letter.sent_ms or 0) / 1000
        return stamp.canary is not None and self._clock() - sent_at < self._aside


def as_canary(stamp: Stamp, key: str, owner: str) -> Verdict:
    """The verdict that sends a letter back to the main queue to test its circuit.

    It is a re-drive like any other, and counts as an attempt.
    """
    because = f"tries circuit {key}"
    sent = replace(
        stamp,
        attempt=stamp.attempt + 1,
        rule=None,
        decision="REDRIVE",
        reason=None,
        because=because,
        canary=owner,
    )
    return Verdict("", Redrive(0, because), sent)


@dataclass(frozen=True, slots=True)
class _LockedCanary(QueueCanary):
    """A letter locked in its source; `owner` is the owner of the permit."""

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
        tally = Tally(self.count_metric)
        gone = self.source.move(self.mover_for(tally), self.order, self.owner)
        for name, number in tally.report("", "", "").metrics().items():
            self.count_metric(name, number)
        return gone

    def give_back(self) -> None:
        self.source.give_back(self.order.received)


class MainQueueSender(CanarySender):
    """Moves one letter to the main queue, marked as the canary, and reads the ledger.

    `sources` are tried in their order, and accept letters by `choice`; `mover_for` makes a
    mover that counts on a tally; `count_metric` counts a metric by its name.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        sources: Sequence[MovingSource],
        choice: SendableLetters,
        mover_for: Callable[[Tally], Mover],
        ledger: Ledger,
        count_metric: Callable[[str, int], None],
    ) -> None:
        self._pipeline = pipeline
        self._sources = sources
        self._choice = choice
        self._mover_for = mover_for
        self._ledger = ledger
        self._count_metric = count_metric

    def take(self, key: str, owner: str, lock_seconds: float) -> QueueCanary | None:
        for source in self._sources:
            received = source.take(key, lock_seconds)
            if received is not None:
                order = self._choice.order(received, key, owner)
                return _LockedCanary(source, order, owner, self._mover_for, self._count_metric)
        return None

    def verdict(self, origin: str, attempt: int, key: str) -> CanaryVerdict | None:
        try:
            row = self._ledger.rows([origin]).get(origin, NO_ROW)
        except LedgerUnavailable:
            # The lease goes on: a ledger without an answer must not keep the permit.
            self._count_metric(LEDGER_UNAVAILABLE, 1)
            return None
        return verdict_from_row(row, attempt, key, self._pipeline)


def verdict_from_row(row: LedgerRow, attempt: int, key: str, pipeline: str) -> CanaryVerdict | None:
    """What a canary shows about the circuit `key` by its ledger row; None if not tried yet.

    Times are not compared: the life's number is in no earlier failure, and a letter that had
    been processed before was not sent.
    """
    if row.recovered_at is not None:
        return CanaryVerdict.NEUTRAL if row.recovered_unasked else CanaryVerdict.SUCCESS
    failures = [
        failure
        for failure in row.since_release
        if failure.attempt == attempt and was_tried(failure)
    ]
    if not failures:
        return None
    last = failures[-1]
    if evidence_of(last.blame) is Evidence.NEUTRAL:
        return CanaryVerdict.NEUTRAL
    shown = shown_by(last, key)
    if is_of_another(row, key, pipeline) or shown is Evidence.NEUTRAL:
        return CanaryVerdict.ELSEWHERE
    return CanaryVerdict.SUCCESS if shown is Evidence.THROTTLED else CanaryVerdict.FAILURE
