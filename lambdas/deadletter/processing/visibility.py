"""How long a message stays hidden between two receives of one life, and which is the last one."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from threading import Lock
from typing import Protocol

from deadletter.circuit.state import Circuit
from deadletter.contract import MINUTE
from deadletter.settings.backoff import Backoff

LONGEST_SECONDS = 43_200.0
"""SQS hides a message for at most twelve hours, counted from its receive."""

GATHERING_SECONDS = 600.0
"""How much time may have passed between a message's receive and the start of its batch: Lambda
gathers a batch for up to five minutes, and does not say when it received which message."""

LONGEST_REFUSAL = 60.0
"""A refused message asks again after this many seconds at the latest."""

HEAD_OF_LINE = (1.0, 2.0)
"""Seconds that a message of a FIFO group waits that fails by its own fault: all behind it wait too,
and time does not heal it."""

PROBE_SECONDS = 20.0
"""How long after its cooldown a circuit is closed, if the dependency is well: two canaries."""


REMEMBERED = 20
"""First receives that a process remembers."""

FEW_SHARE, FEW = 0.1, 1
"""Failures among them that are no trouble yet: a blip is over in seconds."""


class Visibility(Protocol):
    """A queue that can keep its messages hidden. It never raises."""

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide messages, by receipt handle, for seconds from now. Returns how many failed."""


class FirstTries:
    """What became of the last messages that a process received for the first time.

    It is a retry budget, with the queue as the fallback: while retries are a small share they go
    soon, and in trouble no sooner than plain SQS would give the message back.
    """

    def __init__(self) -> None:
        # Appending to a bounded deque needs no lock.
        self._failed: deque[bool] = deque(maxlen=REMEMBERED)

    def tried(self, *, failed: bool) -> None:
        """Remember a message that was received for the first time."""
        self._failed.append(failed)

    @property
    def show_trouble(self) -> bool:
        """Whether more of them have failed than a blip would explain."""
        tries = tuple(self._failed)
        return sum(tries) > max(FEW, FEW_SHARE * len(tries))


def after_failure(
    backoff: Backoff, receive: int, retry_after: float | None, random: Random
) -> float:
    """Seconds until the next receive, after the failure of receive number `receive` (from 1).

    The backoff's delay, with full jitter, but at least `retry_after` (seconds): a dependency
    that says when to come back is not called earlier. The backoff's `cap` is the longest delay
    all the same, because a header must not hide a message for as long as it likes.
    """
    return max(backoff.delay(receive, random), min(retry_after or 0.0, backoff.cap))


def while_open(circuits: Sequence[Circuit], now: float, random: Random) -> float:
    """Seconds that a letter waits which these circuits refuse: until they may be closed.

    The letters of an outage come back one after the other, after the next probe.
    """
    if any(circuit.held_since is not None or circuit.unreadable for circuit in circuits):
        # A person may end that at any time, and no queue tells a hidden message.
        return LONGEST_REFUSAL
    until = max(circuit.open_until for circuit in circuits)
    after_probe = PROBE_SECONDS * (1 + random.random()) / 2
    return min(LONGEST_REFUSAL, max(0.0, until - now) + after_probe)


def in_reach(seconds: float, elapsed: float) -> int:
    """The wait in whole seconds that SQS accepts `elapsed` seconds after the batch began."""
    remaining = LONGEST_SECONDS - GATHERING_SECONDS - max(0.0, elapsed)
    return max(0, math.ceil(min(seconds, remaining)))


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
