"""`dlq groups`: what is failing, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ..operations.causes import CauseRow
from ..operations.grouping import By, Trend
from ..operations.groups import VERB, GroupList, MessageGroup
from ..operations.words import clock, count, duration
from .list import not_searched
from .output import Block, Line, Part, Styled, TextTable, line, typed
from .verb import VerbView

MOST_SHOWN = 20
"""Groups on a screen; the JSON has all."""

_MOST_STEPS = 3
"""Groups whose next command stands below the table."""

_MOST_MARKED = 5

# Characters of a tenant's name in the table.
_LONGEST_TENANT = 12

_WORDS = {
    By.CAUSE: ("cause", "causes"),
    By.CATEGORY: ("category", "categories"),
    By.TENANT: ("tenant", "tenants"),
    By.TYPE: ("type", "types"),
    By.ENDPOINT: ("endpoint", "endpoints"),
    By.STATUS: ("status", "statuses"),
    By.SIZE: ("class of sizes", "classes of sizes"),
    By.AGE: ("class of ages", "classes of ages"),
    By.ATTEMPTS: ("number of attempts", "numbers of attempts"),
}
"""One group, and several."""

_NONE, _NO_MESSAGE = "No message is failing", "No message found"


def show(answer: GroupList) -> Iterator[Block]:
    """The groups for a person: how many messages and causes there are is the first line."""
    says = headline(answer)
    where = f" in pipeline {answer.pipeline}" if answer.pipeline else ""
    yield line(
        Styled(says, "good" if says == _NONE and not answer.not_searched else "strong"),
        f"{where}, account {answer.account}, {answer.region}, at {clock(answer.at, answer.at)}",
    )
    if (tried := answer.attempts) is not None:
        over = f"{tried.share_over:.0%} had more than {tried.threshold}"
        yield line(f"Attempts: {tried.mean:.1f} on average; {over}")
    by, shown = By(answer.by), answer.groups[:MOST_SHOWN]
    if shown:
        yield Line()
        yield table(shown, by, answer.at)
    if (more := len(answer.groups) - MOST_SHOWN) > 0:
        yield line(f"and {more:,} more {_WORDS[by][1]}: --json has all of them")
    yield from (marked(cause, answer.at) for cause in (answer.causes or ())[:_MOST_MARKED])
    for group in shown[:_MOST_STEPS]:
        yield Line()
        yield line(Styled(_name(group, by), "strong"), f": {group.next.effect}{in_versions(group)}")
        yield from typed(group.next.command)
    for near in answer.did_you_mean:
        yield line(Styled(f"Did you mean {near}?", "alarm"))
    for note in answer.notes:
        yield Line()
        yield line(Styled("Note: ", "alarm"), note)
    yield from not_searched(answer.not_searched, is_found=bool(answer.messages))


def table(groups: Sequence[MessageGroup], by: By, now: datetime) -> TextTable:
    """Groups, a row each."""
    headings = (by.upper(), ">MESSAGES", "LAST", "TENANTS", "NOW", "FAILS WITH")
    return TextTable(headings, [_row(group, by, now) for group in groups])


def in_versions(group: MessageGroup) -> str:
    """In which versions of the consumer it fails, as far as they are on record."""
    if not group.version and not group.last_version:
        return ""
    first, last = group.version or "unknown", group.last_version or "unknown"
    return f"; on record first in version {first}, last in {last}"


def headline(answer: GroupList) -> str:
    """Such as "4,000 messages, 3 causes"."""
    if not answer.messages and answer.in_queues:
        return f"No cause is known of {count(answer.in_queues, 'message')}"
    if not answer.messages and answer.is_at_least:
        return f"{_NO_MESSAGE} among those that were read"
    if not answer.messages:
        return _NO_MESSAGE if answer.in_queues is None else _NONE
    found, (one, several) = len(answer.groups), _WORDS[By(answer.by)]
    messages = count(answer.messages, "message")
    kinds = f"{found:,} {one if found == 1 else several}"
    least = f"At least {messages}, at least {kinds}"
    return least if answer.is_at_least else f"{messages}, {kinds}"


def _row(group: MessageGroup, by: By, now: datetime) -> tuple[Part, ...]:
    tenants = "" if group.tenants is None else f"{group.tenants:,}"
    if group.tenant:
        tenants = f"1 {group.tenant[:_LONGEST_TENANT]}"
    least = "≥ " if group.is_at_least else ""
    last = "" if group.last_seen is None else duration(now - group.last_seen)
    return (
        Styled(_name(group, by), "strong"),
        f"{least}{group.messages:,}",
        last,
        tenants,
        _now(group),
        _failure(group),
    )


def _name(group: MessageGroup, by: By) -> str:
    if by is By.ATTEMPTS:
        return count(int(group.name), "attempt")
    if by is By.CAUSE and set(group.name) <= _HEX:
        # They are enough for a condition. A cause without digits is named by its error.
        return group.name[:8]
    return group.name


_HEX = set("0123456789abcdef")


def _now(group: MessageGroup) -> Styled:
    """What is decided about it, else whether it grows."""
    if group.mark:
        return Styled(group.mark, "alarm" if group.mark == "HELD" else "good")
    if group.trend == Trend.FLAT:
        return Styled("", "")
    return Styled(group.trend, "alarm" if group.trend == Trend.RISING else "")


def _failure(group: MessageGroup) -> str:
    """The failure of the newest message, in words."""
    status = "" if group.http_status is None else f" {group.http_status}"
    unknown = "no failure on record" if group.is_read else "its failure was not read"
    words = f": {group.text}" if group.text else ""
    return f"{group.error_type}{status}{words}" or unknown


def marked(cause: CauseRow, now: datetime) -> Line:
    """A cause's mark: since when it stands and until when, and by whom it was ended."""
    since = f" for {duration(now - cause.since)}" if cause.since else ""
    is_ahead = cause.until is not None and cause.until > now
    until = f" until {clock(cause.until, now)}" if is_ahead and cause.until else ""
    error = f" ({cause.error_type})" if cause.error_type else ""
    by = f", by {cause.by}: {cause.reason}" if cause.by else ""
    return line(f"Cause {cause.cause[:8]}{error} is {cause.state}{since}{until}{by}")


VIEWS = (VerbView(VERB, show),)
