"""Whether a process is in trouble: more than a few of the messages received first have failed."""

from __future__ import annotations

from collections import deque

REMEMBERED = 20
"""First receives that a process remembers."""

FEW_SHARE, FEW = 0.1, 1
"""Failures among them that are no trouble yet: a blip is over in seconds."""


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
