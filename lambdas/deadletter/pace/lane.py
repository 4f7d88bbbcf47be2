"""The rate of a THROTTLE rule: letters per second that all workers and runs of its lane share.

It is two buckets. One is paid at the rate and holds what is saved up; one is paid CATCH_UP times
as fast and holds little, so that savings do not leave at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from deadletter.pace.rate import Rate

SAVED_SECONDS = 300.0
"""Seconds of the rate that may be saved up while letters wait. A run ends some seconds before the
next one begins, and after one that is lost no letter leaves for up to four minutes, until its lease
and its claims have ended: without savings the lane would fall behind its rate."""

CATCH_UP = 3.0
"""How many times the rate the letters go at most while the savings last."""

GRANT_SECONDS = 2.0
"""Seconds of the rate that one grant is worth at most. A worker that is lost takes its grant along:
so many letters go later."""

LONGEST_REST = 1.0
"""Seconds after which a worker looks again whether its lane has letters to send."""

_TRIES = 5


@dataclass(frozen=True, slots=True)
class LanePaid:
    """When all letters let through so far are paid for, in epoch seconds.

    saved  at the lane's rate: savings
    quick  at CATCH_UP times the rate
    """

    saved: float
    quick: float


class LanesPaid(Protocol):
    """What is paid in each lane; raises RoomUnavailable."""

    def paid(self, lane: str) -> LanePaid | None: ...

    def note_paid(self, lane: str, before: LanePaid | None, after: LanePaid) -> bool: ...


def granted(paid: LanePaid | None, rate: float, most: int, now: float) -> int:
    """How many of `most` letters may go at `now`."""
    saved, quick, known = *_buckets(rate), paid or _first(rate, now)
    worth = max(1, int(rate * GRANT_SECONDS))
    return min(most, worth, saved.whole(known.saved, now), quick.whole(known.quick, now))


def spend(paid: LanePaid | None, rate: float, letters: int, now: float) -> LanePaid:
    """What is paid after so many letters were granted at `now`; fewer than 0 are given back."""
    saved, quick, known = *_buckets(rate), paid or _first(rate, now)
    return LanePaid(
        saved.after(known.saved, letters, now),
        quick.after(known.quick, letters, now),
    )


def without_savings(paid: LanePaid, rate: float, now: float) -> LanePaid:
    """What is paid in a lane in which no letter waits: what it does not use is not saved."""
    saved, quick = _buckets(rate)
    return LanePaid(
        max(saved.latest(1, now), saved.start(paid.saved, now)),
        quick.start(paid.quick, now),
    )


def seconds_until_one(paid: LanePaid | None, rate: float, now: float) -> float:
    """Seconds from `now` until a letter may go."""
    saved, quick, known = *_buckets(rate), paid or _first(rate, now)
    waits = saved.seconds_until(1, known.saved, now), quick.seconds_until(1, known.quick, now)
    return max(waits)


def _buckets(rate: float) -> tuple[Rate, Rate]:
    fast = rate * CATCH_UP
    return (
        Rate(rate, max(1.0, rate * SAVED_SECONDS)),
        Rate(fast, max(1.0, fast * GRANT_SECONDS)),
    )


def _first(rate: float, now: float) -> LanePaid:
    """The first letter need not wait."""
    saved, quick = _buckets(rate)
    return LanePaid(saved.latest(1, now), quick.latest(1, now))


def forget_savings(paid: LanesPaid, lane: str, rate: float, now: float) -> None:
    """Give up what a lane without letters has saved. Raises RoomUnavailable."""
    before = paid.paid(lane)
    if before is not None:
        # What has changed since is in use.
        paid.note_paid(lane, before, without_savings(before, rate, now))


class LanePace:
    """The rate of one lane, for the workers of one run. `clock` gives epoch seconds."""

    def __init__(self, paid: LanesPaid, lane: str, rate: float, clock: Callable[[], float]) -> None:
        self._paid = paid
        self._lane = lane
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self.rests_until = 0.0
        """Epoch seconds before which no letter may go."""

    def take(self, most: int) -> int:
        """How many of `most` letters may go now. Each is spent before it is sent.

        Raises RoomUnavailable.
        """
        with self._lock:
            for _ in range(_TRIES):
                now = self._clock()
                before = self._paid.paid(self._lane)
                letters = granted(before, self._rate, most, now)
                if not letters:
                    pause = seconds_until_one(before, self._rate, now)
                    self.rests_until = now + min(max(pause, 0.05), LONGEST_REST)
                    return 0
                after = spend(before, self._rate, letters, now)
                if self._paid.note_paid(self._lane, before, after):
                    return letters
            self.rests_until = self._clock() + LONGEST_REST
            return 0

    def give_back(self, letters: int) -> None:
        """Return what was granted to letters that were not sent. Raises RoomUnavailable.

        What can't be returned is lost, and the lane is slower for it.
        """
        if letters <= 0:
            return
        with self._lock:
            for _ in range(_TRIES):
                before = self._paid.paid(self._lane)
                if before is None:
                    return
                after = spend(before, self._rate, -letters, self._clock())
                if self._paid.note_paid(self._lane, before, after):
                    return
