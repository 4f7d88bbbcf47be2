"""What Lambda says of one invocation: its event's records, its end, and a probe's permit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PERMIT = "deadletter_permit"
"""The key in the client context under which a probe's permit travels."""

LONGEST = 900.0
"""Seconds that Lambda lets a function run at most: what is taken where nobody says."""


def records_of(event: Any) -> Sequence[Mapping[str, Any]]:
    """The records of an SQS event; raises ValueError for any other event."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise ValueError("the event has no list of Records; allowed: the event of an SQS queue")
    return records


def seconds_left(context: Any) -> float:
    """Seconds until Lambda ends the invocation; the longest there is if `context` can't say."""
    ask = getattr(context, "get_remaining_time_in_millis", None)
    return LONGEST if ask is None else float(ask()) / 1000


def permit_of(context: Any) -> str | None:
    """The permit of the probe that made this invocation; None if it is an ordinary one."""
    custom = getattr(getattr(context, "client_context", None), "custom", None)
    permit = custom.get(PERMIT) if isinstance(custom, Mapping) else None
    return permit if isinstance(permit, str) and permit else None
