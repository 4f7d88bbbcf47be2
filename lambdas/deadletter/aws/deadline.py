"""The end of a request, or of a part, however many calls of its socket that takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta


class Deadline:
    """So many seconds from now on, by the clock `now`."""

    def __init__(self, now: Callable[[], datetime], seconds: float) -> None:
        self._now = now
        self._most = seconds
        self._end = now() + timedelta(seconds=seconds)

    def left(self) -> float:
        """Seconds until then, more than 0. Raises TimeoutError if there are none."""
        left = (self._end - self._now()).total_seconds()
        if left <= 0:
            raise TimeoutError("the time of the request is up")
        # The clock may have been set back.
        return min(left, self._most)
