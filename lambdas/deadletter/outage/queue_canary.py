"""Canaries sent through the main queue, to a consumer that cannot be invoked directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import Blame
from deadletter.failure.fate import Evidence, shown_by, was_tried
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow, LedgerUnavailable, is_free
from deadletter.message.envelope import seal
from deadletter.message.queue import Queue, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.outage.canaries import (
    Canary,
    CanarySource,
    failed_by_itself,
    first_of,
    is_of_another,
    waiting_for,
)
from deadletter.redrive.order import Order
from deadletter.routing.decision import Redrive
from deadletter.routing.router import Router, Verdict
from deadletter.signals.figures import Count

_LONGEST_OWNER = "x" * 64
"""Stands for the owner of a permit when only its length matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendableLetters:
    """Chooses letters that can carry the mark of a canary, and whose end the ledger records.

    It refuses a letter that was processed before: it is a duplicate, and the ledger records
    nothing new about it. It also refuses a letter that was a canary within the last
    `aside_seconds`: one that fails by its own fault would keep the circuit open, and use up
    its attempts in one outage.
    """

    pipeline: str
    router: Router
    ledger: Ledger
    main: Queue
    aside_seconds: float
    clock: Callable[[], float]

    def __call__(self, received: ReceivedLetter, key: str) -> Verdict | None:
        verdict = waiting_for(self.router, received, key)
        if verdict is None or self._was_canary(received, verdict.stamp):
            return None
        stamp = verdict.stamp
        row = self.ledger.rows([stamp.origin]).get(stamp.origin, NO_ROW)
        if row.unreadable or row.recovered_at is not None:
            return None
        if failed_by_itself(row, key, self.pipeline):
            return None
        marked = as_canary(stamp, key, _LONGEST_OWNER)
        if not seal(received.letter, marked, self.main.traits).marked:
            return None
        return replace(verdict, stamp=replace(stamp, base=stamp.base + int(is_free(stamp, row))))

    def _was_canary(self, received: ReceivedLetter, stamp: Stamp) -> bool:
        sent_at = (received.letter.sent_ms or 0) / 1000
        return stamp.canary is not None and self.clock() - sent_at < self.aside_seconds


def as_canary(stamp: Stamp, key: str, owner: str) -> Stamp:
    """The stamp of a letter that goes back to the main queue to test its circuit.

    It is re-driven like any other, which counts as an attempt.
    """
    return replace(
        stamp,
        attempt=stamp.attempt + 1,
        rule=None,
        decision="REDRIVE",
        reason=None,
        because=f"tries circuit {key}",
        canary=owner,
    )


@dataclass(frozen=True, slots=True)
class QueueCanary:
    """A letter locked in its place, and the order that moves it to the main queue.

    Its `origin` and `attempt` identify it.
    """

    canary: Canary
    order: Order

    @property
    def origin(self) -> str:
        return self.order.stamp.origin

    @property
    def attempt(self) -> int:
        return self.order.stamp.attempt

    def send(self) -> bool:
        """Move it to the main queue. Returns False if it certainly is still in its place."""
        is_gone = self.canary.move(self.order)
        if not is_gone:
            self.give_back()
        return is_gone

    def give_back(self) -> None:
        """Release it unsent. Raises nothing: its lock ends by itself."""
        self.canary.give_back()


@dataclass(frozen=True, slots=True, kw_only=True)
class MainQueueSender:
    """Moves one letter to the main queue, marked as the canary, and reads the ledger.

    It serves a consumer that cannot be invoked directly: the ledger says what became of the letter.
    `sources` are tried in their order; `count_metric` counts a metric by its name.
    """

    pipeline: str
    sources: Sequence[CanarySource]
    ledger: Ledger
    count_metric: Callable[[str, int], None]

    def take(self, key: str, owner: str, lock_seconds: float) -> QueueCanary | None:
        """A letter of this circuit as the canary of the permit's owner; None without a letter.

        Raises the errors of a CanarySource.
        """
        canary = first_of(self.sources, key, lock_seconds)
        if canary is None or canary.verdict is None:
            return None
        stamp = as_canary(canary.verdict.stamp, key, owner)
        return QueueCanary(canary, Order(canary.received, Redrive(0, str(stamp.because)), stamp))

    def verdict(self, origin: str, attempt: int, key: str) -> CanaryVerdict | None:
        """What a letter shows about the circuit `key` in this life; None if not known yet."""
        try:
            row = self.ledger.rows([origin]).get(origin, NO_ROW)
        except LedgerUnavailable:
            # The lease goes on: a ledger without an answer must not keep the permit.
            self.count_metric(Count.LEDGER_UNAVAILABLE, 1)
            return None
        return verdict_from_row(row, attempt, key, self.pipeline)


def verdict_from_row(row: LedgerRow, attempt: int, key: str, pipeline: str) -> CanaryVerdict | None:
    """What a canary shows about the circuit `key` by its ledger row; None if not tried yet.

    Times are not compared: the life's number is in no earlier failure, and a letter that had
    been processed before was not sent.
    """
    if row.recovered_at is not None:
        return CanaryVerdict.NEUTRAL if row.recovered_unasked else CanaryVerdict.SUCCESS
    of_life = (failure for failure in reversed(row.failures) if failure.attempt == attempt)
    last = next(filter(was_tried, of_life), None)
    if last is None:
        return None
    if last.blame is Blame.NEITHER:
        return CanaryVerdict.NEUTRAL
    shown = shown_by(last, key)
    if is_of_another(row, key, pipeline) or shown is Evidence.NEUTRAL:
        return CanaryVerdict.ELSEWHERE
    return CanaryVerdict.SUCCESS if shown is Evidence.THROTTLED else CanaryVerdict.FAILURE
