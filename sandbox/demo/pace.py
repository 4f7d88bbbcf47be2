"""How fast this machine is just now.

Nothing in the demo waits for a time-out to pass: one that is longer than needed costs nothing, and
one that is too short looks like a fault of the app. So on a slow or busy machine all are longer.
"""

import time
from collections.abc import Callable

# What `measure` takes on two quiet cores is half of it, in seconds.
REFERENCE_SECONDS = 0.5

# How many times as long a slow machine's time-outs are. One number, whatever it is slow for: the
# time-outs are in the templates, and each further number would need a synth of its own.
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
    """How many times as long time-outs have to be, by what `measure` took."""
    return 1 if seconds <= REFERENCE_SECONDS else SLOW
