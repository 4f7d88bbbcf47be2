"""The fate of one message, and the evidence that it gives about the dependency."""

from __future__ import annotations

from enum import StrEnum

from deadletter.contract import Metric
from deadletter.failure.failure import PERMANENT, Category, Failure


class Fate(StrEnum):
    """What happened to one message; the value is the metric's name."""

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
"""Fates of a message that may leave its queue: it was processed, or is confirmed as parked."""

UNTRIED = frozenset({Fate.BUSY, Fate.UNGUARDED, Fate.REFUSED, Fate.HELD_BACK, Fate.LATE})
"""Fates of a message that comes back without having reached its handler."""

UNBLAMED = UNTRIED | {Fate.BROKEN}
"""Fates of a message that comes back through no fault of its own."""

GIVEN_BACK = "given back untried"
"""The ledger's message for the fates in UNBLAMED, in place of an error message."""

# The 4xx that refuse the caller, not one message: no access, or not now. Every other 4xx shows
# that the dependency works and has read the message.
_REFUSES_THE_CALLER = frozenset({401, 403, 407, 408, 425, 429})


class Evidence(StrEnum):
    """What the fate of a canary shows about the dependency."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


def evidence_of(category: Category, http_status: int | None) -> Evidence:
    """What a failure of this kind shows about the dependency."""
    letters_fault = category in PERMANENT
    status = http_status or 0
    letter_refused = 400 <= status <= 499 and status not in _REFUSES_THE_CALLER
    return Evidence.NEUTRAL if letters_fault or letter_refused else Evidence.FAILURE


def was_tried(failure: Failure) -> bool:
    """True if the message had reached the handler when it failed."""
    return failure.message != GIVEN_BACK or failure.error_type not in UNBLAMED
