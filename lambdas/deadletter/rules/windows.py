"""Times of day at which a rule acts, such as `22:00-06:00 Europe/Berlin`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""The days of a week, as they are written in a window."""

MOST_WINDOWS = 20
"""Windows of one rule: each is looked at for each letter that the rule matches."""

_FORMAT = "[DAY[-DAY] ]HH:MM-HH:MM ZONE"
_EXAMPLE = "'22:00-06:00 Europe/Berlin' or 'Mon-Fri 08:00-18:00 UTC'"
_WINDOW = re.compile(
    r"(?:(?P<first>[A-Za-z]{3})(?:\s*-\s*(?P<last>[A-Za-z]{3}))?\s+)?"
    r"(?P<opens>\d{1,2}:\d{2})\s*-\s*(?P<closes>\d{1,2}:\d{2})\s+(?P<zone>[A-Za-z0-9_+/-]{1,64})",
    re.ASCII,
)
_MINUTES_A_DAY = 24 * 60


class WindowRefused(ValueError):
    """The reason why a text is not a window, and what is allowed.

    `gist` is the reason without what was typed.
    """

    def __init__(self, gist: str, typed: str = "") -> None:
        super().__init__(f"{gist}: {typed!r}" if typed else gist)
        self.gist = gist


@dataclass(frozen=True, slots=True)
class Window:
    """A part of each day, or of some days of each week, by the clocks of a time zone.

    `opens` and `closes` are minutes after midnight; one that closes before it opens runs past
    midnight, and belongs to the day on which it opens. `days` are 0 (Monday) to 6.

    It is open while the clocks there show a time in it. In the night in which they go forward
    the hour that is left out is missing; in the one in which they go back the hour that comes
    twice counts twice.
    """

    opens: int
    closes: int
    zone: ZoneInfo
    days: frozenset[int]

    def is_open(self, now: float) -> bool:
        """Whether it is open at `now` (epoch seconds)."""
        local = datetime.fromtimestamp(now, UTC).astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        today = local.weekday()
        if self.opens < self.closes:
            return today in self.days and self.opens <= minute < self.closes
        yesterday = (local.date() - timedelta(days=1)).weekday()
        opened_today = today in self.days and minute >= self.opens
        opened_yesterday = yesterday in self.days and minute < self.closes
        return opened_today or opened_yesterday


def read_windows(value: object) -> tuple[Window, ...]:
    """The windows in a text, separated by commas. Raises WindowRefused with the reason."""
    if not isinstance(value, str) or not value.strip():
        raise WindowRefused(f"must be text such as {_EXAMPLE}")
    texts = [text.strip() for text in value.split(",")]
    if len(texts) > MOST_WINDOWS:
        raise WindowRefused(f"has more than {MOST_WINDOWS} windows")
    return tuple(map(_read_window, texts))


def any_open(windows: Iterable[Window], now: float) -> bool:
    """Whether one of the windows is open at `now` (epoch seconds)."""
    return any(window.is_open(now) for window in windows)


def _read_window(text: str) -> Window:
    parts = _WINDOW.fullmatch(text)
    if parts is None:
        raise WindowRefused(f"must be {_FORMAT}, such as {_EXAMPLE}", text[:80])
    opens, closes = _minutes(parts["opens"]), _minutes(parts["closes"])
    if opens == closes:
        raise WindowRefused("has a window without length; the whole day is 00:00-24:00", text)
    if opens == _MINUTES_A_DAY:
        raise WindowRefused("has a window that opens at 24:00; midnight is 00:00", text)
    return Window(opens, closes, _zone(parts["zone"]), _days(parts["first"], parts["last"]))


def _minutes(text: str) -> int:
    hours, minutes = map(int, text.split(":"))
    total = hours * 60 + minutes
    if minutes > 59 or total > _MINUTES_A_DAY:
        raise WindowRefused("has a time outside 00:00 to 24:00", text)
    return total


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    start = _day(first)
    length = (_day(last) - start) % 7 if last is not None else 0
    return frozenset((start + days) % 7 for days in range(length + 1))


def _day(text: str) -> int:
    name = text.capitalize()
    if name not in DAYS:
        raise WindowRefused(f"has an unknown day; allowed are {', '.join(DAYS)}", text)
    return DAYS.index(name)


def _zone(name: str) -> ZoneInfo:
    # Few rules have windows: a cold start does without.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        why = "has an unknown time zone; allowed are IANA names such as Europe/Berlin, and UTC"
        raise WindowRefused(why, name) from None
