"""What became of one message, and what that says of the dependency."""

from __future__ import annotations

from enum import StrEnum

from deadletter.contract import Metric
from deadletter.failure.failure import PERMANENT, Category, Failure


class Fate(StrEnum):
    """What became of one message; the value is the metric's name."""

    PROCESSED = Metric.PROCESSED
    SKIPPED = Metric.SKIPPED
    DUPLICATE = Metric.DEDUPLICATED
    PARKED = Metric.MOVED_TO_PARKING
    FAILED = Metric.PROCESSING_FAILURE
    BUSY = Metric.BUSY_ELSEWHERE
    UNGUARDED = Metric.IDEMPOTENCY_UNAVAILABLE
    REFUSED = Metric.REFUSED_WHILE_OPEN
    HELD_BACK = Metric.GROUP_HELD_BACK
    LATE = Metric.TOO_LATE_TO_PROCESS
    BROKEN = Metric.CONSUMER_LIBRARY_ERROR


ACKNOWLEDGED = frozenset({Fate.PROCESSED, Fate.SKIPPED, Fate.DUPLICATE, Fate.PARKED})
"""Fates of a message that may leave its queue: it was processed, or is proved to be parked."""


UNTRIED = frozenset({Fate.BUSY, Fate.UNGUARDED, Fate.REFUSED, Fate.HELD_BACK, Fate.LATE})
"""Fates of a message that comes back without having been handed to its handler."""


UNBLAMED = UNTRIED | {Fate.BROKEN}
"""Fates of a message that comes back for a fault that is not its own, but somebody else's or
ours."""


GIVEN_BACK = "given back untried"
"""What the ledger says of them, in place of why they failed."""


# Of 4xx, answers that go against the caller and not against one message: nobody is let in, or
# nobody now. Every other 4xx shows that the dependency is there and has read the message.
_AGAINST_THE_CALLER = frozenset({401, 403, 407, 408, 425, 429})


class Evidence(StrEnum):
    """What a canary's fate says of the dependency."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


def evidence_of(category: Category, http_status: int | None) -> Evidence:
    """What a failure of this kind says of the dependency."""
    the_letter = category in PERMANENT
    status = http_status or 0
    refused = 400 <= status <= 499 and status not in _AGAINST_THE_CALLER
    return Evidence.NEUTRAL if the_letter or refused else Evidence.FAILURE


def was_tried(failure: Failure) -> bool:
    """Whether the handler had the message when it failed."""
    return failure.message != GIVEN_BACK or failure.error_type not in UNBLAMED
