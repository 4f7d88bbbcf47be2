"""How long a message stays hidden between two receives of one life."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Protocol

from deadletter.settings.backoff import Backoff

LONGEST_SECONDS = 43_200.0
"""SQS hides a message for at most twelve hours, counted from its receive."""

GATHERING_SECONDS = 600.0
"""How much time may have passed between a message's receive and the start of its batch: Lambda
gathers a batch for up to five minutes, and does not say when it received which message."""


class Visibility(Protocol):
    """A queue that can keep its messages hidden. It never raises."""

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide messages, by receipt handle, for seconds from now. Returns how many failed."""


def after_failure(
    backoff: Backoff, receive: int, retry_after: float | None, random: Random
) -> float:
    """Seconds until the next receive, after the failure of receive number `receive` (from 1).

    The backoff's delay, with full jitter, but at least `retry_after` (seconds): a dependency
    that says when to come back is not called earlier.
    """
    return max(backoff.delay(receive, random), retry_after or 0.0)


def until(moment: float, now: float, otherwise: float) -> float:
    """Seconds until `moment` (epoch seconds); `otherwise` if it is past or unknown (0)."""
    return moment - now if moment > now else otherwise


def in_reach(seconds: float, elapsed: float) -> int:
    """The wait in whole seconds that SQS accepts `elapsed` seconds after the batch began."""
    remaining = LONGEST_SECONDS - GATHERING_SECONDS - max(0.0, elapsed)
    return max(0, math.ceil(min(seconds, remaining)))
