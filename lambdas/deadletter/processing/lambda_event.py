"""What Lambda passes to one invocation: the records, the time left, a probe's permit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PERMIT = "deadletter_permit"
"""The key of a probe's permit in the client context."""

LONGEST_INVOCATION_SECONDS = 900.0
"""The longest that Lambda lets a function run; assumed if the context does not say."""


def records_of(event: Any) -> Sequence[Mapping[str, Any]]:
    """The records of an SQS event; raises ValueError for any other event."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise ValueError("the event has no list of Records; allowed: the event of an SQS queue")
    return records


def seconds_left(context: Any) -> float:
    """Seconds until Lambda ends the invocation; LONGEST_INVOCATION_SECONDS without `context`."""
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    return LONGEST_INVOCATION_SECONDS if remaining is None else float(remaining()) / 1000


def permit_of(context: Any) -> str | None:
    """The permit of the probe that made this invocation; None for any other invocation."""
    custom = getattr(getattr(context, "client_context", None), "custom", None)
    permit = custom.get(PERMIT) if isinstance(custom, Mapping) else None
    return permit if isinstance(permit, str) and permit else None
