"""Whether SQS gives a message back once more, or moves it to the DLQ."""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from deadletter.contract import MINUTE

ASKED_AGAIN = 10.0 * MINUTE
"""Seconds after which a process asks the queue again: a person may have changed the number."""


class MortalQueue(Protocol):
    """A queue whose messages die after a number of receives."""

    def max_receives(self) -> int | None:
        """Receives after which a message goes to the DLQ; None if it never does.

        Raises QueueUnavailable.
        """


class LastReceive:
    """Knows which receive of a message is its last one: to hide it after that is time lost.

    It never raises. While the queue gives no answer no receive is the last one: the message is
    hidden once more, and dies when that ends.
    """

    def __init__(self, queue: MortalQueue, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._clock = clock
        self._most: int | None = None
        self._asked_at = -math.inf
        # Several threads may handle the messages of a process: all of them wait for one answer.
        self._lock = Lock()

    def is_it(self, receive: int) -> bool:
        """Whether a message that fails in this receive (from 1) is not received again."""
        with self._lock:
            now = self._clock()
            if not 0 <= now - self._asked_at < ASKED_AGAIN:
                self._asked_at = now
                self._most = self._answer()
            return self._most is not None and receive >= self._most

    def _answer(self) -> int | None:
        # Loaded with the first message that fails.
        from deadletter.message.queue import QueueUnavailable

        try:
            return self._queue.max_receives()
        except QueueUnavailable:
            return None
