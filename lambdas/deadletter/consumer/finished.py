"""Calls a team's handler, plain or async, and returns when its work is done."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutine
from typing import Any


def finished(
    each: Callable[[Any], object], seconds_left: Callable[[], float | None]
) -> Callable[[Any], object]:
    """A plain function that does all the work of `each`.

    `seconds_left` is how long an async handler may take from now on; None for no limit. Raises
    what `each` raises, and OutOfTime if an async handler was cancelled.
    """

    def call(record: Any) -> object:
        result = each(record)
        if not iscoroutine(result):
            return result
        # Loaded with the first async handler: asyncio takes long to load.
        from deadletter.consumer.async_handlers import LOOP

        seconds = seconds_left()
        return LOOP.run(result, None if seconds is None else max(0.0, seconds))

    return call
