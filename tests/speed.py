"""How long a call takes, on a machine that other programs use too."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

TRIES = 3


def is_quick(call: Callable[[], object], seconds: float) -> bool:
    """Whether a call takes less than `seconds` of CPU; a slow one is tried again.

    Memory and caches that other programs use make some calls slow, but not each of them.
    """
    for _ in range(TRIES):
        started = process_time()
        call()
        if process_time() - started < seconds:
            return True
    return False
