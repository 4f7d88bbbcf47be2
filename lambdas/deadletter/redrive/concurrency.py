"""How much is done at the same time: more while it stays quick, less when it doesn't."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol, TypeVar

T = TypeVar("T")

SLOWER = 3.0
"""Calls that take so many times as long as the quickest wait for one another: in SQS, or for the
processor of a small function. Fewer of them bring as much."""

WORTH_MORE = 0.5
"""The share of what calls asked for from which more of them are made."""


class InParallel(Protocol):
    """Runs calls at the same time and returns their results in order."""

    def __call__(self, calls: Sequence[Callable[[], T]], /) -> list[T]:
        """An error of one call is raised when all have ended."""


class Concurrency:
    """A number of calls between 1 and `most`, for all workers of a run.

    It begins with 1, doubles after calls that were quick and worth it, and halves after slow
    ones. After one that was in vain it is 1 again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls = 1
        self._quickest = math.inf

    @property
    def calls(self) -> int:
        return self._calls

    def note(self, seconds: float, *, worth: float) -> None:
        """Calls that were made at once took so long, each.

        They brought a share of what they asked for (0 to 1); it is 0 if one brought nothing.
        """
        with self._lock:
            if worth <= 0:
                self._calls = 1
            elif seconds > SLOWER * self._quickest:
                self._calls = max(1, self._calls // 2)
            elif worth >= WORTH_MORE:
                self._calls = min(2 * self._calls, self._most)
            self._quickest = min(self._quickest, seconds)


WINDOW = 4
"""Chunks whose median says how long one takes."""

WORTH_IT = 0.2
"""The share of what twice as many chunks could bring at best from which they are kept up."""

TOO_SLOW = 0.5
"""The share of the chunks a second that were measured before, below which there are fewer."""

SETTLED_FOR = 16
"""Windows after which twice as many chunks are tried again: what slowed them may be over."""


class ChunksInFlight:
    """How many chunks a run has under way: between `first` and `most`.

    Twice as many are tried once the time of a chunk is known. They are kept up if they bring
    more letters a second, which they do while calls are waited for, and do not once the processor
    or a throttled service is what they wait for. Then it stays there, and tries again later.
    """

    def __init__(self, first: int, most: int) -> None:
        self.first = first
        self._most = max(first, most)
        self._lock = threading.Lock()
        self._chunks = first
        self._took: list[float] = []
        # Chunks a second, before there were twice as many.
        self._before: tuple[int, float] | None = None
        self._settled = 0

    @property
    def chunks(self) -> int:
        return self._chunks

    def note(self, seconds: float, *, of: int, may_grow: bool) -> None:
        """A full chunk took so long; `of` so many were under way when it began.

        It `may_grow` while the pace, the queue and the memory have enough for twice as many.
        """
        with self._lock:
            if of != self._chunks:
                return
            self._took.append(max(seconds, 1e-9))
            if len(self._took) < WINDOW:
                return
            speed = self._chunks / median(self._took)
            self._took.clear()
            self._judge(speed, may_grow=may_grow)

    def fall_back(self) -> None:
        """There is no memory for so many."""
        with self._lock:
            self._change_to(self.first)

    def _judge(self, speed: float, *, may_grow: bool) -> None:
        chunks, before = self._chunks, self._before
        if before is None:
            self._before = chunks, speed
            self._settled = 0
        elif before[0] < chunks:
            gain = 1 + WORTH_IT * (chunks / before[0] - 1)
            if speed < gain * before[1]:
                self._change_to(before[0])
                self._before, self._settled = before, SETTLED_FOR
                return
            self._before = chunks, speed
        elif speed < TOO_SLOW * before[1]:
            self._change_to(max(self.first, chunks // 2))
            return
        if self._settled:
            self._settled -= 1
        elif may_grow and chunks < self._most:
            self._before = chunks, speed
            self._chunks = min(2 * chunks, self._most)

    def _change_to(self, chunks: int) -> None:
        self._chunks = chunks
        self._took.clear()
        self._before, self._settled = None, 0
