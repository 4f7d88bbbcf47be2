"""The rate of a lane: letters per second that all workers and runs share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from deadletter.redrive.token_bucket import TokenBucket
from deadletter.redrive.waiting_room import Allowance

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


class Allowances(Protocol):
    """Where the allowances of lanes are kept; raises RoomUnavailable."""

    def allowance(self, lane: str) -> Allowance | None: ...

    def note_allowance(self, lane: str, before: Allowance | None, after: Allowance) -> bool: ...


def granted(allowance: Allowance | None, rate: float, most: int, now: float) -> int:
    """How many of `most` letters may go at `now`."""
    current = _at_moment(allowance, rate, now)
    worth = max(1, int(rate * GRANT_SECONDS))
    return max(0, min(most, worth, int(current.saved), int(current.quick)))


def spend(allowance: Allowance | None, rate: float, letters: int, now: float) -> Allowance:
    """The allowance after so many letters were granted at `now`; fewer than 0 are given back."""
    current = _at_moment(allowance, rate, now)
    return Allowance(current.saved - letters, current.quick - letters, current.at)


def without_savings(allowance: Allowance, rate: float, now: float) -> Allowance:
    """The allowance of a lane in which no letter waits: what it does not use is not saved."""
    current = _at_moment(allowance, rate, now)
    return Allowance(min(1.0, current.saved), current.quick, current.at)


def seconds_until_one(allowance: Allowance | None, rate: float, now: float) -> float:
    """Seconds from `now` until a letter may go."""
    current = _at_moment(allowance, rate, now)
    missing = max((1 - current.saved) / rate, (1 - current.quick) / (rate * CATCH_UP))
    return max(0.0, missing)


def _at_moment(allowance: Allowance | None, rate: float, now: float) -> Allowance:
    if allowance is None:
        # The first letter need not wait.
        return Allowance(1.0, 1.0, now)
    saved = TokenBucket(rate, max(1.0, rate * SAVED_SECONDS), allowance.saved, allowance.at)
    fast = rate * CATCH_UP
    quick = TokenBucket(fast, max(1.0, fast * GRANT_SECONDS), allowance.quick, allowance.at)
    moment = saved.at_moment(now)
    return Allowance(moment.tokens, quick.at_moment(now).tokens, moment.at)


def forget_savings(allowances: Allowances, lane: str, rate: float, now: float) -> None:
    """Give up what a lane without letters has saved. Raises RoomUnavailable."""
    before = allowances.allowance(lane)
    if before is not None:
        # One that has changed since is in use.
        allowances.note_allowance(lane, before, without_savings(before, rate, now))


class Throttle:
    """The rate of one lane, for the workers of one run. `clock` gives epoch seconds."""

    def __init__(
        self, allowances: Allowances, lane: str, rate: float, clock: Callable[[], float]
    ) -> None:
        self._allowances = allowances
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
                before = self._allowances.allowance(self._lane)
                letters = granted(before, self._rate, most, now)
                if not letters:
                    pause = seconds_until_one(before, self._rate, now)
                    self.rests_until = now + min(max(pause, 0.05), LONGEST_REST)
                    return 0
                after = spend(before, self._rate, letters, now)
                if self._allowances.note_allowance(self._lane, before, after):
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
                before = self._allowances.allowance(self._lane)
                after = spend(before, self._rate, -letters, self._clock())
                if before is None or self._allowances.note_allowance(self._lane, before, after):
                    return
