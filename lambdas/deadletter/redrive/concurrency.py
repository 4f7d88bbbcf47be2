"""How many calls are made at the same time: more while they stay quick, fewer when they don't."""

from __future__ import annotations

import math
import threading

SLOWER = 3.0
"""Calls that take so many times as long as the quickest wait for one another: in SQS, or for the
processor of a small function. Fewer of them bring as much."""

WORTH_MORE = 0.5
"""The share of what calls asked for from which more of them are made."""


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
