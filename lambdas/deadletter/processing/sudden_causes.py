"""Whether a consumer may park a letter: not while the cause of its failure suddenly dominates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from random import Random
from threading import RLock
from typing import TYPE_CHECKING

from deadletter.contract import MINUTE, Blame
from deadletter.failure.causes import (
    WINDOW,
    CauseCounts,
    Causes,
    CausesUnavailable,
    FailedTry,
    again,
    seconds_of,
)
from deadletter.message.stamp import Stamp
from deadletter.signals.figures import Count

if TYPE_CHECKING:
    from deadletter.failure.classify import Diagnosis

BETWEEN_WRITES = 2.0 * MINUTE
"""Seconds between two writes of a process in good times, when totals are all there is to tell."""

MOST_PENDING = 1_000
"""Outcomes that are not written yet: a busy process keeps no more, and writes sooner."""

KNOWN_FOR = float(MINUTE)
"""Seconds after which what is known of the causes is read again before a letter is parked."""

BETWEEN_FAILURES = 1.0
"""Seconds between two writes of a process while a cause may be about to dominate."""

MOST_UNTOLD = 3
"""Failures that may dominate and are not written yet: with so many, a process waits no longer.
Ten consumers then know of a cause before thirty letters have failed for it."""

_LETTER_BYTES = 4


class SuddenCauses:
    """Counts the outcomes of one process, and says which causes may be parked for.

    `count_metric` counts a metric by its name. It never raises: outcomes that could not be
    written go with the next write, unless they are older than the window by then.
    """

    def __init__(
        self,
        store: CauseCounts,
        clock: Callable[[], float],
        count_metric: Callable[[str, int], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._count_metric = count_metric
        self._known: Causes | None = None
        # When the causes were last known as the store has them, and when it last refused a read.
        self._known_at = self._refused_at = -math.inf
        self._pending: list[tuple[float, FailedTry | str | None]] = []
        # The failures among them, by cause.
        self._untold: Counter[str] = Counter()
        self._last_write: float | None = None
        self._was_refused = False
        # Several threads may handle the messages of a process.
        self._lock = RLock()

    def processed(self, receive: int, stamp: Stamp) -> None:
        """Count a message that did not fail."""
        if _speaks_of_now(receive, stamp):
            with self._lock:
                self._pending.append((self._clock(), None))

    def failed(self, receive: int, stamp: Stamp, diagnosis: Diagnosis) -> None:
        """Count a failure; one of a cause that is held renews its hold, whatever receive it is."""
        if not _speaks_of_now(receive, stamp):
            if self.is_held(diagnosis.fingerprint):
                with self._lock:
                    self._pending.append((self._clock(), diagnosis.fingerprint))
            return
        failed = None
        if diagnosis.blame is Blame.NEITHER and diagnosis.fingerprint:
            letter = hash_of(stamp.origin)
            failed = FailedTry(diagnosis.fingerprint, diagnosis.error_type, letter)
        with self._lock:
            if failed is not None:
                self._untold[failed.cause] += 1
            self._pending.append((self._clock(), failed))

    def is_held(self, cause: str) -> bool:
        """Whether the cause suddenly dominates, as far as this process knows. Asks nothing."""
        with self._lock:
            known = self._known
            return known is not None and known.hold_of(cause, self._clock()) is not None

    def again_after(self, cause: str, random: Random) -> float | None:
        """Seconds until a letter of a held cause is tried again; None if the cause is not held."""
        return again(random) if self.is_held(cause) else None

    def may_park(self, cause: str, receive: int) -> bool:
        """Whether a letter may be parked for this cause in this receive (from 1), as far as all
        processes know.

        In its first receive only for a known cause: of a new one the counts decide in the next,
        when it has come to dominate or not. A process that has not counted anything for a while
        asks first. False if the causes can't be read: the letter comes back, and its DLQ parks it.
        """
        with self._lock:
            return self._may_park(cause, receive)

    def _may_park(self, cause: str, receive: int) -> bool:
        self.report()
        now = self._clock()
        known = self._asked(now)
        if known is None or (receive == 1 and known.is_new(cause, now)):
            return False
        if known.is_settled(cause, now):
            return known.hold_of(cause, now) is None
        expected = known.counting(seconds_of(self._pending), now).judged(now)
        return expected.hold_of(cause, now) is None

    def _asked(self, now: float) -> Causes | None:
        """The causes, read again if they were known long ago; None if they can't be read."""
        if now - self._known_at < KNOWN_FOR:
            return self._known
        if now - self._refused_at < BETWEEN_FAILURES:
            return None
        try:
            self._known, self._known_at = self._store.read(), now
        except CausesUnavailable:
            self._refused_at = now
            return None
        return self._known

    def report(self) -> None:
        """Write what was counted, if it is due."""
        with self._lock:
            self._report()

    def _report(self) -> None:
        now = self._clock()
        if self._pending and now - self._pending[0][0] > WINDOW:
            self._pending = [(at, failed) for at, failed in self._pending if now - at <= WINDOW]
            failures = [each for _, each in self._pending if isinstance(each, FailedTry)]
            self._untold = Counter(failed.cause for failed in failures)
        if not self._pending or not self._is_due(now):
            return
        self._last_write = now
        try:
            self._known, begun = self._store.count(seconds_of(self._pending), now)
            self._known_at = now
        except CausesUnavailable:
            self._was_refused = True
            return
        self._was_refused = False
        self._pending = []
        self._untold = Counter()
        if begun:
            self._count_metric(Count.SUDDENLY_PERMANENT, len(begun))

    def _is_due(self, now: float) -> bool:
        if self._last_write is None:
            return True
        since, known = abs(now - self._last_write), self._known
        untold = sum(
            number
            for cause, number in self._untold.items()
            if known is None or not known.is_settled(cause, now)
        )
        if since >= BETWEEN_WRITES or (untold and since >= BETWEEN_FAILURES):
            return True
        is_full = len(self._pending) >= MOST_PENDING and since >= BETWEEN_FAILURES
        return (is_full or untold >= MOST_UNTOLD) and not self._was_refused


def _speaks_of_now(receive: int, stamp: Stamp) -> bool:
    """Whether a receive says something new: the letter is tried for the first time.

    The letters of a DLQ are those that fail: sent back together, they would dominate whatever
    goes well beside them. So would those that a held cause has kept from the parking lot.
    """
    return receive == 1 and stamp.attempts_used == 0 and not stamp.spared


def hash_of(origin: str) -> int:
    """A letter as a small number: enough to tell a few dozen letters apart."""
    return int.from_bytes(sha256(origin.encode("utf-8", "replace")).digest()[:_LETTER_BYTES])
