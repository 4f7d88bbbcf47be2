"""How fast this machine is just now: a slow or busy one is waited for longer."""

import time
from collections.abc import Callable

# What `measure` takes on two quiet cores is half of it, in seconds.
REFERENCE_SECONDS = 0.5

# How many times as long a slow machine may stand still before the demo gives up.
SLOW = 4

ROUNDS = 3_000_000


def measure(clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that a fixed piece of work takes now, beside all else that runs here."""
    began = clock()
    remainder = 0
    for number in range(ROUNDS):
        remainder += number * number % 7
    return clock() - began


def scale(seconds: float) -> int:
    """How many times as long to wait for something to move, by what `measure` took."""
    return 1 if seconds <= REFERENCE_SECONDS else SLOW
