"""The delay of a letter before its next attempt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Annotated

from deadletter.contract import DAY, HOUR, MINUTE
from deadletter.settings.setting import Constant, Seconds, Setting


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter: min(cap, base * factor^(attempt - 1)), and a floor.

    All fields are seconds but `factor`. The ceiling of attempt *n* (1 is the first
    re-drive) is `min(cap, base * factor ** (n - 1))`; the delay is drawn evenly
    between 0 and the ceiling ("full jitter", Marc Brooker, AWS Architecture Blog,
    2015) and raised to `floor`. The cap comes before the jitter: the other way
    round, every late attempt would wait exactly `cap` and all would return at once.
    """

    base: Annotated[Seconds, Setting(least=1, most=DAY)] = MINUTE
    """Ceiling of the first delay."""
    # Twice as long each time: what lasts is asked less and less.
    factor: Constant[float] = 2.0
    cap: Annotated[Seconds, Setting(least=1, most=14 * DAY)] = 6 * HOUR
    """Ceiling of every delay."""
    # A letter is not tried again within the second in which it failed.
    floor: Constant[float] = 5

    def ceiling(self, attempt: int) -> float:
        """The longest delay of this attempt, in seconds; attempts count from 1."""
        try:
            return min(self.cap, self.base * math.pow(self.factor, max(attempt, 1) - 1))
        except OverflowError:
            # 2.0 ** 1100 is too large for a float; every cap is reached long before.
            return self.cap

    def delay(self, attempt: int, random: Random) -> float:
        """Seconds to wait before this attempt, drawn from `random`."""
        return max(self.floor, random.random() * self.ceiling(attempt))
