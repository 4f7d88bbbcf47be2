"""A line on standard error that shows that `dlq` waits, and for what."""

from __future__ import annotations

import sys
import time

from ..operations.words import printable


def pause(seconds: float) -> None:
    """Waits between two looks; tests do not."""
    time.sleep(seconds)


_SHOWN: list[str] = []


def say(says: str) -> None:
    """Shows how far a long look is, on a terminal alone."""
    if sys.stderr.isatty():
        _SHOWN[:] = [says]
        sys.stderr.write(f"\r\x1b[K{printable(says)}")
        sys.stderr.flush()


def end() -> None:
    """Takes the line of `say` away, if there is one."""
    if _SHOWN and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
    _SHOWN.clear()
