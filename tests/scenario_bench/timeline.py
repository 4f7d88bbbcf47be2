"""Virtual time: processes that wait for each other only through the clock.

Each consumer environment, run of the redriver, probe and execution is a process, a greenlet.
All of them read one clock and act on one in-memory AWS, always the process with the earliest
time. So a library that reads the circuit in the middle of a batch sees everything that others
wrote before that moment, and the production code runs unchanged: where it would wait, it calls
`advance`, and the others go on. Threads would give the same at twenty times the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from greenlet import getcurrent, greenlet

from deadletter.testing.clock import START, Clock


class Timeline(Clock):
    """Epoch seconds that pass only while every process waits."""

    def __init__(self, now: float = START) -> None:
        super().__init__(now)
        self._main = getcurrent()
        self._wakes: list[tuple[float, int, greenlet]] = []
        self._numbers = 0
        self._killed: set[greenlet] = set()

    def spawn(self, act: Callable[[], object], at: float | None = None) -> greenlet:
        """Begin a process at a time (default: now)."""
        process = greenlet(act, parent=self._main)
        self._wake(self.now if at is None else at, process)
        return process

    def advance(self, seconds: float) -> None:
        """The calling process waits."""
        process = getcurrent()
        if process is self._main:
            self.run_until(self.now + seconds)
            return
        self._wake(self.now + max(0.0, seconds), process)
        self._main.switch()

    def kill(self, process: greenlet) -> None:
        """A process never goes on."""
        self._killed.add(process)

    def run_until(self, end: float) -> None:
        """Let time pass. An error of a process is raised here."""
        while self._wakes and self._wakes[0][0] <= end:
            at, _, process = heappop(self._wakes)
            self.now = at
            if process in self._killed:
                process.throw()
            else:
                process.switch()
        self.now = end

    def close(self) -> None:
        """End every process where it waits. A greenlet that waits for ever is never collected."""
        while self._wakes:
            _, _, process = heappop(self._wakes)
            if not process.dead:
                process.throw()

    def _wake(self, at: float, process: greenlet) -> None:
        self._numbers += 1
        heappush(self._wakes, (at, self._numbers, process))
