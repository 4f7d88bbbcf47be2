"""A line on standard error that shows that `dlq` waits, and for what."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from ..operations.words import duration
from .output import printable

# Seconds between two states of the line.
_EVERY = 1.0


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


@contextmanager
def waiting(
    what: str, *, file: IO[str] | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Shows `what` at once, and how long it takes; the line is gone when the answer is there.

    What it hands out is called with another text where something else is waited for. Shows
    nothing where standard error is no terminal.
    """
    stream = file or sys.stderr
    if not stream.isatty():
        yield lambda _: None
        return
    text, began = printable(what), clock()

    def say(something_else: str) -> None:
        nonlocal text
        text = printable(something_else)

    from threading import Event, Thread

    done = Event()

    def show() -> None:
        width = 0
        while True:
            seconds = clock() - began
            line = f"{text} …" if seconds < _EVERY else f"{text} … {duration(seconds)}"
            width = max(width, len(line))
            stream.write(f"\r{line.ljust(width)}")
            stream.flush()
            if done.wait(_EVERY):
                break
        stream.write(f"\r{' ' * width}\r")
        stream.flush()

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield say
    finally:
        done.set()
        thread.join()
