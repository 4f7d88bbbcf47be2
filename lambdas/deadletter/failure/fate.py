"""The fate of one message, and the evidence that it gives about the dependency."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from deadletter.contract import CONFIG_SUFFIX, DEPENDENCY_PREFIX, Blame, is_config_key
from deadletter.signals.figures import Count, Figure

if TYPE_CHECKING:
    from deadletter.failure.failure import Failure


class Fate(StrEnum):
    """What happened to one message; the value is the metric's name."""

    PROCESSED = Figure.PROCESSED
    SKIPPED = Figure.SKIPPED
    DUPLICATE = Figure.DEDUPLICATED
    PARKED = Figure.MOVED_TO_PARKING
    FAILED = Figure.PROCESSING_FAILURE
    BUSY = Count.BUSY_ELSEWHERE
    UNGUARDED = Count.IDEMPOTENCY_UNAVAILABLE
    REFUSED = Figure.REFUSED_WHILE_OPEN
    HELD_BACK = Count.GROUP_HELD_BACK
    BEHIND = Count.BEHIND_ANOTHER
    SUPERSEDED = Count.SUPERSEDED
    LATE = Count.TOO_LATE_TO_PROCESS
    UNFINISHED = Count.UNFINISHED
    BROKEN = Count.CONSUMER_LIBRARY_ERROR


ACKNOWLEDGED = frozenset(
    {Fate.PROCESSED, Fate.SKIPPED, Fate.DUPLICATE, Fate.SUPERSEDED, Fate.PARKED}
)
"""Fates of a message that may leave its queue: it was processed, a later one of its ordering key
was, or it is confirmed as parked."""

UNTRIED = frozenset(
    {Fate.BUSY, Fate.UNGUARDED, Fate.REFUSED, Fate.HELD_BACK, Fate.BEHIND, Fate.LATE}
)
"""Fates of a message that comes back without having reached its handler."""

UNBLAMED = UNTRIED | {Fate.BROKEN}
"""Fates of a message that comes back through no fault of its own."""

COLLIDED = "collision"
"""The fingerprint of a letter that was not processed because its idempotency key belongs to
another message; of no exception."""

GIVEN_BACK = "given back untried"
"""The ledger's message for the fates in UNBLAMED, in place of an error message."""


class Evidence(StrEnum):
    """What the fate of a message shows about the dependency.

    THROTTLED: it works, and wants fewer requests.
    """

    SUCCESS = "success"
    FAILURE = "failure"
    THROTTLED = "throttled"
    NEUTRAL = "neutral"


def shown_by(failure: Failure, key: str) -> Evidence:
    """What a letter's failure shows about the circuit `key`, one of those the letter depends on.

    A circuit for configuration counts failures of the configuration, any other those of the
    dependency. A failure within a named dependency speaks of that one, and of no other.
    """
    of_dependency = key.removesuffix(CONFIG_SUFFIX)
    named = of_dependency if of_dependency.startswith(DEPENDENCY_PREFIX) else ""
    if failure.circuit != named:
        return Evidence.NEUTRAL
    counted = Blame.CONFIGURATION if is_config_key(key) else Blame.DEPENDENCY
    if failure.blame is not counted:
        return Evidence.NEUTRAL
    return Evidence.THROTTLED if failure.http_status == _TOO_MANY_REQUESTS else Evidence.FAILURE


_TOO_MANY_REQUESTS = 429


def was_tried(failure: Failure) -> bool:
    """True if the message had reached the handler when it failed."""
    return failure.message != GIVEN_BACK or failure.error_type not in UNBLAMED
