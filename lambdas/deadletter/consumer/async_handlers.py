"""Runs async handlers in one event loop, which the process keeps from batch to batch.

A client that is made once for a process belongs to the loop in which it was made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent import futures
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any

from deadletter.failure.signals import OutOfTime

GRACE_SECONDS = 0.2
"""How long a cancelled handler has to end: to close what it has opened."""

_LATER_SECONDS = 0.1
"""How much later than the loop a caller gives up: a handler that blocks the loop cannot be
cancelled."""

Handling = Coroutine[Any, Any, object]


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a handler ended: with a result, or with an error."""

    result: object = None
    error: BaseException | None = None


class Loop:
    """An event loop in a thread of its own, which does not keep the process alive."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def run(self, handling: Handling, seconds: float | None = None) -> object:
        """The result of a coroutine, which runs in a copy of the caller's context.

        Raises OutOfTime if it is not done within `seconds`: then it is cancelled.
        """
        loop = self._running()
        future = asyncio.run_coroutine_threadsafe(_within(handling, seconds), loop)
        most = None if seconds is None else seconds + GRACE_SECONDS + _LATER_SECONDS
        try:
            ended = future.result(most)
        except futures.TimeoutError:
            future.cancel()
            raise OutOfTime(ended=False) from None
        if ended.error is not None:
            raise ended.error
        return ended.result

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
            return self._loop


LOOP = Loop()
"""The loop of this process."""


async def _within(handling: Handling, seconds: float | None) -> _Ended:
    """How the coroutine ended; it is cancelled after `seconds`."""
    task = asyncio.ensure_future(_kept(handling))
    if not (await asyncio.wait({task}, timeout=seconds))[0]:
        task.cancel()
        if not (await asyncio.wait({task}, timeout=GRACE_SECONDS))[0]:
            return _Ended(error=OutOfTime(ended=False))
        if task.cancelled():
            return _Ended(error=OutOfTime(ended=True))
    if task.cancelled():
        return _Ended(error=asyncio.CancelledError())
    return task.result()


async def _kept(handling: Handling) -> _Ended:
    """How the coroutine ended: an exception that ends a process must not end the loop."""
    try:
        return _Ended(await handling)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return _Ended(error=error)
