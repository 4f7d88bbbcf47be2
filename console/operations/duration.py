"""Lengths of time, and ends, as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from .problem import Cause, Problem

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
# Nine digits of seconds are thirty years.
_WRITTEN = re.compile(r"(\d{1,9})\s*([smhd]?)", re.ASCII)


def seconds(text: str) -> int:
    """The seconds in "90s", "15m", "2h", "4d" or "900"; Problem for anything else."""
    written = _WRITTEN.fullmatch(text.strip().lower())
    if written is None:
        raise Problem(f"{text!r} is not a length of time: write 90s, 15m, 2h or 4d.", Cause.INPUT)
    return int(written[1]) * _UNITS[written[2]]


NEVER = "never"
"""What is typed for an end that a person makes."""


def ending(text: str, now: datetime, subject: str, *, never: bool = False) -> datetime | None:
    """The end of `subject` ("the rule"): after a length of time, or at a time of ISO 8601 (UTC).

    None for "never", where that is allowed. Raises Problem for a time in the past.
    """
    if never and text.lower() == NEVER:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = now + timedelta(seconds=seconds(text))
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if at <= now:
        raise Problem(f"{subject.capitalize()} would have ended at {text} already.", Cause.INPUT)
    return at.astimezone(UTC)
