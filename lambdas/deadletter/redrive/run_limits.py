"""The limits of one run: how long, how fast, and when it has to end."""

from __future__ import annotations

import math
from collections.abc import Callable

from deadletter.message.queue import Queue
from deadletter.redrive.token_bucket import RateLimiter

LOCK_PAST_DEADLINE = 60
"""Seconds a letter stays locked after the run that took it must have ended."""

WIND_DOWN = 5.0
"""Seconds before the deadline in which no new chunk is begun."""

BACKLOG_LOOK_EVERY = 5.0
"""Seconds between two looks at the main queue's backlog."""


class RunStopped(Exception):
    """The run ends here in good order; the text says why."""


class RunLimits:
    """One run, shared by its workers.

    `deadline` is epoch seconds; `clock` gives them; `wait` lets seconds pass; `owner`
    is a text nobody else has. `left` collects the handles of letters that were taken and
    not moved: of a whole DLQ, their bodies would not fit into memory.
    """

    def __init__(
        self,
        *,
        owner: str,
        deadline: float,
        clock: Callable[[], float],
        wait: Callable[[float], None],
        main: Queue,
        backlog_limit: int,
        pace: RateLimiter,
    ) -> None:
        self.owner = owner
        self.deadline = deadline
        self.clock = clock
        self.left: list[str] = []
        self.stopped: str | None = None
        self._wait = wait
        self._main = main
        self._backlog_limit = backlog_limit
        self._pace = pace
        self._backlog_seen_at = -math.inf

    @property
    def lock_seconds(self) -> int:
        return math.ceil(max(0.0, self.deadline - self.clock())) + LOCK_PAST_DEADLINE

    @property
    def locked_until(self) -> float:
        """When a lock taken now for `lock_seconds` ends."""
        return self.deadline + LOCK_PAST_DEADLINE

    def permission(self, most: int) -> int:
        """How many letters may be sent now, at least one; waits for the pace where it must.

        Raises Stop at the deadline, while another worker has ended the run, and while
        the main queue has more waiting than its consumer can be asked to bear.
        """
        while True:
            self._go_on()
            granted = self._pace.take(most)
            if granted:
                return granted
            pause = max(self._pace.seconds_until(1), 0.05)
            if self.clock() + pause >= self.deadline - WIND_DOWN:
                raise RunStopped("the pace allows no more before the deadline")
            self._wait(pause)

    def give_back(self, unused: int) -> None:
        """Return what was permitted and not sent."""
        if unused > 0:
            self._pace.give_back(unused)

    def stop(self, why: str) -> None:
        """End the run for all its workers; the first reason is the one reported."""
        self.stopped = self.stopped or why

    def _go_on(self) -> None:
        now = self.clock()
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        if now >= self.deadline - WIND_DOWN:
            raise RunStopped("the deadline is near")
        if now - self._backlog_seen_at >= BACKLOG_LOOK_EVERY:
            self._backlog_seen_at = now
            waiting = self._main.depth().visible
            if waiting > self._backlog_limit:
                raise RunStopped(f"{waiting} messages wait in the main queue already")
