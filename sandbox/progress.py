"""Waiting that follows progress: a slow machine is waited for, a standstill is not.

A wait for another process has no good number of seconds: what takes two on an idle machine
takes a minute on a busy one. So a wait reads *marks* of progress beside its condition, such
as the messages in the queues and how often each has been received, and fails when the marks
have stood still for long, however short or long it all took.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Seconds without a new mark after which nothing will come. Longer than the pauses that the
# app itself makes: rules are remembered for seconds, and an alarm's period is ten.
STANDSTILL_SECONDS = 90.0

# Seconds between two readings of the marks: reading them is work, too.
MARKS_EVERY_SECONDS = 2.0

# Seconds after which progress that never reaches its goal goes round in circles.
CIRCLES_SECONDS = 1800.0

PAUSE_SECONDS = 0.2


class Standstill(AssertionError):
    """A wait was given up; the message names what was waited for and the last marks."""


class Progress:
    """How long the marks of something have stood still, by readings of them.

    marks      the last ones; they are compared by equality
    lasted     seconds from the first reading to the last
    still_for  seconds that the marks have been the same
    """

    def __init__(self) -> None:
        self.marks: object = None
        self._began: float | None = None
        self._moved = self._last = 0.0

    def read(self, marks: object, at: float) -> None:
        """Take note of the marks *at* seconds of a clock that never goes back."""
        if self._began is None:
            self._began = self._moved = at
        elif marks != self.marks:
            self._moved = at
        self.marks, self._last = marks, at

    @property
    def lasted(self) -> float:
        return self._last - (self._began or 0.0)

    @property
    def still_for(self) -> float:
        return self._last - self._moved

    def is_over(self, standstill: float = STANDSTILL_SECONDS) -> bool:
        """Whether nothing has moved for so many seconds, or things move in circles."""
        return self.still_for >= standstill or self.lasted >= CIRCLES_SECONDS


def _rest(seconds: float) -> None:
    threading.Event().wait(seconds)


def until(
    condition: Callable[[], T | None],
    what: str,
    *,
    marks: Callable[[], object] = lambda: None,
    standstill: float = STANDSTILL_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    rest: Callable[[float], None] = _rest,
) -> T:
    """Return the first true answer of *condition*, asked again and again.

    *what* completes the sentence "waited for". *marks* returns what shows that something
    is moving; it must not include what *condition* itself moves by asking, or a standstill
    goes unnoticed for CIRCLES_SECONDS. Raises Standstill when the marks have been the same
    for *standstill* seconds.
    """
    progress = Progress()
    progress.read(marks(), clock())
    read_at = clock()
    while True:
        answer = condition()
        if answer:
            return answer
        if clock() - read_at >= MARKS_EVERY_SECONDS:
            progress.read(marks(), clock())
            read_at = clock()
        if progress.is_over(standstill):
            raise Standstill(
                f"waited for: {what}; nothing has moved for {progress.still_for:.0f} of"
                f" {progress.lasted:.0f} s; last seen: {progress.marks}"
            )
        rest(PAUSE_SECONDS)
