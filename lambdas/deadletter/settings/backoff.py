"""The delay of a letter before its next attempt."""

from dataclasses import dataclass
from random import Random

from deadletter.contract import BACKOFF


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter.

    All fields are seconds but `factor`. The ceiling of attempt *n* (1 is the first
    re-drive) is `min(cap, base * factor ** (n - 1))`; the delay is drawn evenly
    between 0 and the ceiling ("full jitter", Marc Brooker, AWS Architecture Blog,
    2015) and raised to `floor`. The cap comes before the jitter: the other way
    round, every late attempt would wait exactly `cap` and all would return at once.
    """

    base: float = BACKOFF.base
    factor: float = BACKOFF.factor
    cap: float = BACKOFF.cap
    floor: float = BACKOFF.floor

    def ceiling(self, attempt: int) -> float:
        """The longest delay of this attempt, in seconds; attempts count from 1."""
        # 2.0 ** 1100 overflows a float; every cap is reached long before.
        exponent = min(max(attempt, 1) - 1, 512)
        try:
            return min(self.cap, self.base * self.factor**exponent)
        except OverflowError:
            return self.cap

    def delay(self, attempt: int, random: Random) -> float:
        """Seconds to wait before this attempt, drawn from `random`."""
        return max(self.floor, random.random() * self.ceiling(attempt))
