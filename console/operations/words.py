"""Numbers, sizes and times in words, and lengths of time and ends as people type them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from shlex import quote

from deadletter.contract import (
    DUE_LANE,
    PARKED_LANE,
    circuit_lane,
    dedicated_lane,
    delay_lane,
    rule_lane,
    run_lane,
)
from deadletter.signals.commands import with_options

from .errors import Cause, Problem


def count(number: int, noun: str) -> str:
    """A number and its noun: "1 letter", "1,204 letters"."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def duration(span: float | timedelta) -> str:
    """A span of time in its two largest units: "45 s", "58 min", "2 h 05 min", "3 d 4 h".

    A number is of seconds.
    """
    whole = max(0, int(span.total_seconds() if isinstance(span, timedelta) else span))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60:02} min"
    return f"{minutes} min" if minutes else f"{whole} s"


def some(texts: Sequence[str], most: int) -> str:
    """The first of these texts, and how many more there are."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def size(number: int) -> str:
    """A number of bytes: "812 B", "1.2 KiB", "1.0 MiB"."""
    if number < 1024:
        return f"{number} B"
    if number < 1024 * 1024:
        return f"{number / 1024:.1f} KiB"
    return f"{number / 1024 / 1024:.1f} MiB"


def clock(at: datetime, now: datetime) -> str:
    """A time of day, with its date unless it is today: "03:40 UTC", "19 Nov 03:40 UTC"."""
    when = at.astimezone(UTC)
    today = when.date() == now.astimezone(UTC).date()
    return when.strftime("%H:%M UTC" if today else "%d %b %H:%M UTC")


def moment(epoch: object) -> datetime | None:
    """The time of epoch seconds; None for anything but a number in the range of dates."""
    if not isinstance(epoch, int | float) or isinstance(epoch, bool):
        return None
    try:
        return datetime.fromtimestamp(epoch, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def printable(text: str) -> str:
    """The text with every unprintable character written as an escape.

    That covers terminal escapes, line breaks, bidirectional overrides and zero-width
    characters.
    """
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
# Nine digits of seconds are thirty years.
_WRITTEN = re.compile(r"(\d{1,9})\s*([smhd]?)", re.ASCII)


def seconds(text: str) -> int:
    """The seconds in "90s", "15m", "2h", "4d" or "900"; Problem for anything else."""
    written = _WRITTEN.fullmatch(text.strip().lower())
    if written is None:
        raise Problem(f"{text!r} is not a length of time: write 90s, 15m, 2h or 4d.", Cause.INPUT)
    return int(written[1]) * _UNITS[written[2]]


def typed_time(text: str, now: datetime, way: int = 1) -> datetime:
    """A time of ISO 8601 (UTC without a zone), or so long after now, or before it if `way` is -1.

    In UTC. Raises Problem for anything else, and for a time that no calendar has.
    """
    try:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            return now + way * timedelta(seconds=seconds(text))
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (Problem, OverflowError) as error:
        raise Problem(
            f"{text!r} is no time: write how long{' ago' * (way < 0)} (2h, 4d), or "
            "2026-01-31T09:00 in UTC, of the years 1 to 9999.",
            Cause.INPUT,
        ) from error


NEVER = "never"
"""What is typed for an end that a person makes."""


def ending(text: str, now: datetime, subject: str, *, never: bool = False) -> datetime | None:
    """The end of `subject` ("the rule"): after a length of time, or at a time of ISO 8601 (UTC).

    None for "never", where that is allowed. Raises Problem for a time in the past.
    """
    if never and text.lower() == NEVER:
        return None
    at = typed_time(text, now)
    if at <= now:
        raise Problem(f"{subject.capitalize()} would have ended at {text} already.", Cause.INPUT)
    return at


def waits_for(lane: str) -> str:
    """What the letters of a lane wait for, in words."""
    name = lane.partition(":")[2]
    for prefix, words in (
        (rule_lane(""), f"rule {name} to end, or to let them go"),
        (delay_lane(""), f"the delay that rule {name} gave them"),
        (circuit_lane(""), f"circuit {name} to close"),
        (run_lane(""), f"run {name}"),
        (dedicated_lane(""), f"the schedule of dedicated DLQ {name}, or a person"),
    ):
        if lane.startswith(prefix):
            return words
    return {
        DUE_LANE: "their backoff",
        PARKED_LANE: "a person: they are parked",
    }.get(lane, "something that this version of dlq does not know")


GIVEN: dict[str, str | None] = {}
"""The options by which the person has said where to look: a command that is printed has them."""


def here(command: str) -> str:
    """The command as it looks where this one has looked."""
    return with_options(command, **GIVEN)


def way_out(lane: str, pipeline: str) -> str | None:
    """The command that takes letters out of a lane that no time opens; None for any other."""
    name = lane.partition(":")[2]
    if lane.startswith(run_lane("")):
        return f"dlq run abort {quote(name)}"
    if lane.startswith(dedicated_lane("")):
        return f"dlq retry --auto --in dedicated:{quote(name)} -p {quote(pipeline)}"
    return f"dlq retry --in parked --all -p {quote(pipeline)}" if lane == PARKED_LANE else None
