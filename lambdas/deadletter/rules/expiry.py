"""When a message expires by itself: the time that its sender wrote into it."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

# Epoch seconds of 2001-09-09. What is earlier is no expiry: a duration such as 3600, a zero, or the
# first day of some calendar.
_FIRST = 1e9

# A number in between is neither seconds (until the year 5138) nor milliseconds (since 2001).
_LAST_SECONDS, _FIRST_MILLISECONDS, _LAST_MILLISECONDS = 1e11, 1e12, 1e14

_LONGEST = 40
_NUMBER = re.compile(r"[0-9]{10,13}(\.[0-9]{1,9})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def moment(value: Any) -> float | None:
    """The time that a value means, in epoch seconds; None if it means none. Never raises.

    Read are epoch seconds and milliseconds, as a number or as text, and times in ISO 8601: UTC
    without an offset, and a day alone until its end. A time before 2001 is no expiry.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _of_number(value)
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isascii():
        return None
    if _NUMBER.fullmatch(value):
        return _of_number(float(value))
    try:
        time = _of_text(value)
    except (ValueError, OverflowError):
        return None
    return time if time >= _FIRST else None


def _of_number(number: float) -> float | None:
    if _FIRST <= number < _LAST_SECONDS:
        return float(number)
    return number / 1000 if _FIRST_MILLISECONDS <= number < _LAST_MILLISECONDS else None


def _of_text(text: str) -> float:
    if _DAY.fullmatch(text):
        ends = date.fromisoformat(text) + timedelta(days=1)
        return datetime(ends.year, ends.month, ends.day, tzinfo=UTC).timestamp()
    if ":" not in text and "T" not in text:
        raise ValueError(text)
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
