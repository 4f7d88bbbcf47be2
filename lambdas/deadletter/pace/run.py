"""The rate at which letters of a queue go back: of one run's workers, and from run to run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from deadletter.pace.rate import Rate

BURST_SECONDS = 1.0
"""Seconds of the rate that may go at once."""

SAVED_SECONDS, MOST_SAVED = 10.0, 500.0
"""Of a slower rate so much may be saved up: seconds, and letters. A run sends nothing in its last
ten seconds, and the next one begins five later: with a second of savings, a fifth of the rate
would be lost."""


def rate_of(limit: float, saved_seconds: float = SAVED_SECONDS) -> Rate:
    """The rate of a queue with so many letters a second."""
    saved = min(limit * saved_seconds, MOST_SAVED)
    return Rate(limit, max(1.0, limit * BURST_SECONDS, saved))


@dataclass(frozen=True, slots=True)
class RunPaid:
    """A rate, and when all letters that went so far are paid for (epoch seconds).

    A run leaves it to the next one, so that a restart is no new burst.
    """

    rate: Rate
    paid: float

    def free(self, now: float) -> float:
        """Letters that may go now."""
        return self.rate.free(self.paid, now)

    def at(self, rate: Rate, now: float) -> RunPaid:
        """The same letters are free at another rate, as many as its burst holds."""
        letters = min(self.free(now), rate.burst)
        return RunPaid(rate, now - rate.cost(letters))

    def share(self, share: float, now: float) -> RunPaid:
        """A share (0 to 1) of rate and burst; one letter always fits."""
        return self.at(self.rate.share(share), now)


class RunPace:
    """The rate of one run, for all its workers. `clock` gives epoch seconds.

    `delay_share` (0 to 1) is the part of their first backoff that letters are delayed.
    """

    def __init__(self, paid: RunPaid, clock: Callable[[], float]) -> None:
        self.delay_share = 1.0
        self._paid = paid
        self._clock = clock
        self._lock = threading.Lock()

    def take(self, most: int, least: int = 1) -> int:
        """Spend up to `most` letters, or none if fewer than `least` are free.

        Returns how many letters may go now.
        """
        now = self._clock()
        with self._lock:
            rate, paid = self._paid.rate, self._paid.paid
            granted = min(most, rate.whole(paid, now))
            if granted < least:
                return 0
            self._paid = replace(self._paid, paid=rate.after(paid, granted, now))
        return granted

    def give_back(self, unused: int) -> None:
        """Return what was granted and not sent."""
        with self._lock:
            cost = self._paid.rate.cost(unused)
            self._paid = replace(self._paid, paid=self._paid.paid - cost)

    def change(self, rate: Rate) -> None:
        """Go on at another rate; what is free stays free."""
        now = self._clock()
        with self._lock:
            self._paid = self._paid.at(rate, now)

    @property
    def paid(self) -> RunPaid:
        with self._lock:
            return self._paid

    def seconds_until(self, letters: int) -> float:
        """Seconds until so many letters may go, or as many as the burst allows."""
        known = self.paid
        return known.rate.seconds_until(letters, known.paid, self._clock())
