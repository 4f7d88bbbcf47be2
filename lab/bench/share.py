"""Gives a process a part of a core, as Lambda gives it to a small function."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Seconds after which the process may go on: shorter than what it waits for.
PERIOD = 0.020

# Seconds between two looks at its CPU time.
LOOK = 0.001


@contextmanager
def at_share(pid: int, share: float) -> Iterator[None]:
    """The process uses at most this share of one core (0: any) while the block lasts.

    It is stopped when it has used up what a period allows, and goes on in the next one, as with a
    CPU quota of Linux. What it does not use is lost.
    """
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(pid, share, over), daemon=True)
    if share:
        watch.start()
    try:
        yield
    finally:
        over.set()
        if share:
            watch.join()


def _watch(pid: int, share: float, over: threading.Event) -> None:
    # The clock of a process's CPU time, as clock_getcpuclockid(3) makes it.
    clock = (~pid << 3) | 2
    # A process that has ended has neither a clock nor signals.
    with suppress(ProcessLookupError, OSError):
        began, used = time.monotonic(), time.clock_gettime(clock)
        while not over.wait(LOOK):
            spent, passed = time.clock_gettime(clock) - used, time.monotonic() - began
            if spent >= share * PERIOD:
                os.kill(pid, signal.SIGSTOP)
                over.wait(max(0.0, spent / share - passed))
                os.kill(pid, signal.SIGCONT)
            elif passed < PERIOD:
                continue
            began, used = time.monotonic(), time.clock_gettime(clock)
