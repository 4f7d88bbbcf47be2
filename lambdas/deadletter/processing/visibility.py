"""How long a message stays hidden between two receives of one life."""

from __future__ import annotations

import math
from random import Random

from deadletter.settings.backoff import Backoff

LONGEST = 43_200.0
"""Seconds: SQS hides a message for twelve hours at most, counted from its receive."""

UNSEEN = 600.0
"""Seconds that may have passed between the receive and the start of its batch: Lambda gathers
a batch for up to five minutes, and nobody says when it received which message."""


def after_failure(
    backoff: Backoff, receive: int, retry_after: float | None, random: Random
) -> float:
    """Seconds until the next receive, after the failure of receive number `receive` (from 1).

    The backoff's delay, with full jitter; somebody who says when to come again
    (`retry_after`, seconds) is never asked earlier.
    """
    return max(backoff.delay(receive, random), retry_after or 0.0)


def until(moment: float, now: float, otherwise: float) -> float:
    """Seconds until `moment` (epoch seconds); `otherwise` if it has passed or is not known."""
    return moment - now if moment > now else otherwise


def in_reach(seconds: float, elapsed: float) -> int:
    """Whole seconds that SQS takes, `elapsed` seconds after the batch began."""
    rest = LONGEST - UNSEEN - max(0.0, elapsed)
    return max(0, math.ceil(min(seconds, rest)))
