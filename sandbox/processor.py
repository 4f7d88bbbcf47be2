"""What a group of processes gets of the machine's processors, and how fast its clock may be."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

# Seconds between two readings.
EVERY_SECONDS = 2.0

# The part of the time with work to do in which threads have to run, for the full speed. On two
# cores with nothing else it is about two thirds; beside four busy programs a fifth.
ENOUGH = 0.4

# Nanoseconds of running and waiting that say something: a thread or two that wake up do not.
TELLING = 500_000_000

# A new speed differs from the old one at least by this part of it.
STEP = 0.25


class ProcessorTime(NamedTuple):
    """Nanoseconds that a thread has run, and has waited for a processor with work to do."""

    ran: int
    waited: int


def processor_time(group: int) -> Mapping[str, ProcessorTime]:
    """Of each thread in the process group, by its id; empty where Linux does not say it."""
    found: dict[str, ProcessorTime] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) != group:
                continue
            for thread in (process / "task").iterdir():
                ran, waited, _ = (thread / "schedstat").read_text().split()
                found[thread.name] = ProcessorTime(int(ran), int(waited))
        except (OSError, ValueError):
            # It has ended, or its kernel keeps no such figures.
            continue
    return found


def spent(before: Mapping[str, ProcessorTime], after: Mapping[str, ProcessorTime]) -> ProcessorTime:
    """What threads that are in both readings have had between them, all together."""
    both = [(before[thread], after[thread]) for thread in before.keys() & after.keys()]
    return ProcessorTime(
        sum(new.ran - old.ran for old, new in both),
        sum(new.waited - old.waited for old, new in both),
    )


def speed_at(share: float, full: float) -> float:
    """How many times as fast as the machine's a clock may be, by the share of `ENOUGH`."""
    return max(1.0, full * min(1.0, share / ENOUGH))


class Unhurried:
    """A thread that slows a clock down while its processes wait for others; a context manager.

    What the app does within seconds of its clock, such as the two in which a grant is used, it
    would begin in vain beside other programs, again and again: no slow machine is that slow.
    """

    def __init__(
        self,
        look: Callable[[], Mapping[str, ProcessorTime]],
        hurry: Callable[[float], None],
        full: float,
    ) -> None:
        self._look, self._hurry = look, hurry
        self._full = self._speed = full
        self._before = look()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unhurried", daemon=True)

    def __enter__(self) -> Self:
        self._hurry(self._full)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def limit(self, full: float) -> None:
        """Let the clock be at most so fast from now on."""
        self._full = self._speed = full
        self._hurry(full)

    def adapt(self) -> None:
        """Look once, and set the clock's speed if it should be quite another one."""
        now = self._look()
        had = spent(self._before, now)
        if sum(had) < TELLING:
            return
        self._before = now
        speed = speed_at(had.ran / sum(had), self._full)
        if abs(speed - self._speed) > STEP * min(speed, self._speed):
            self._speed = speed
            self._hurry(speed)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self.adapt()
