"""Runs the tasks of a batch: in the caller's own thread, or several at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from threading import Condition, Thread
from typing import Protocol

MOST_AT_ONCE = 64
"""The most messages of one batch that are handled at the same time."""

LOOK_SECONDS = 0.05
"""How often the caller looks at the clock while it waits for tasks."""

Task = Callable[[], object]
Until = Callable[[], float]


class Crew(Protocol):
    """Runs tasks, in a process whose time is limited."""

    def work(self, tasks: Sequence[Task], *, at_once: int, until: Until) -> None:
        """Run tasks in their order, at most `at_once` at the same time.

        `until` gives the time (epoch seconds) from which on none is begun: it may come nearer
        meanwhile. Tasks that still run then may be left to themselves. An error of a task ends
        the work, and is raised.
        """


class InTurn:
    """Runs one task after the other in the caller's own thread, whatever `at_once` says."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def work(self, tasks: Sequence[Task], *, at_once: int, until: Until) -> None:
        for task in tasks:
            if self._clock() >= until():
                return
            task()


class Threads:
    """Runs tasks in threads, and returns at the time that it was given, whatever hangs.

    Each thread runs in a copy of the caller's context. A task that is left behind goes on in its
    thread, which does not keep the process alive. `clock` gives epoch seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def work(self, tasks: Sequence[Task], *, at_once: int, until: Until) -> None:
        work = _Work(tasks, self._clock, until)
        for _ in range(min(at_once, len(tasks))):
            thread = Thread(target=copy_context().run, args=(work.do,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # The process may have no more threads: those that it has do all the work.
                break
            work.working += 1
        if not work.working:
            InTurn(self._clock).work(tasks, at_once=at_once, until=until)
            return
        work.wait()


class _Work:
    """Tasks that several threads do; `working` is how many of them are not done yet."""

    def __init__(self, tasks: Sequence[Task], clock: Callable[[], float], until: Until) -> None:
        self._tasks = deque(tasks)
        self._clock = clock
        self._until = until
        self._changed = Condition()
        self._closed = False
        self._ended = 0
        self._error: BaseException | None = None
        self.working = 0

    def do(self) -> None:
        """Do one task after the other until there are no more, or the time is over."""
        try:
            while (task := self._next()) is not None:
                task()
        except BaseException as error:
            with self._changed:
                self._error, self._closed = self._error or error, True
        finally:
            with self._changed:
                self._ended += 1
                self._changed.notify()

    def wait(self) -> None:
        """Wait for the threads until the time is over; raises the error of a task."""
        # The clock may stand still, as in a test: the real time that was waited counts as well.
        waited = 0.0
        began = self._clock()
        with self._changed:
            while self._ended < self.working:
                until = self._until()
                remaining = min(until - self._clock(), until - began - waited)
                if remaining <= 0:
                    break
                if not self._changed.wait(min(LOOK_SECONDS, remaining)):
                    waited += min(LOOK_SECONDS, remaining)
            self._closed = True
            if self._error is not None:
                raise self._error

    def _next(self) -> Task | None:
        with self._changed:
            if self._closed or not self._tasks or self._clock() >= self._until():
                return None
            return self._tasks.popleft()


def check_concurrency(concurrency: int) -> None:
    """Raises ValueError for a number of handlers at the same time that is not allowed."""
    if type(concurrency) is not int or not 1 <= concurrency <= MOST_AT_ONCE:
        raise ValueError(
            f"concurrency is {concurrency!r}; allowed: a whole number from 1 to {MOST_AT_ONCE}"
        )


def lanes(keys: Sequence[object], concurrency: int) -> list[list[int]]:
    """The positions of each lane, in their order; a message whose key is None is a lane.

    With a concurrency of 1 all are one lane: then the records are handled in their order.
    """
    if concurrency == 1:
        return [list(range(len(keys)))]
    found: dict[tuple[bool, object], list[int]] = {}
    for position, key in enumerate(keys):
        found.setdefault((key is None, position if key is None else key), []).append(position)
    return list(found.values())
