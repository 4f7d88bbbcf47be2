"""`dlq audit`: who changed what, when and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ..operations.audit_trail import OUTSIDE, VERB, AuditLine, AuditTrail
from ..operations.rule_table import column_changes
from ..operations.words import clock, count
from .output import Block, Styled, line
from .verb import VerbView


def _show(answer: AuditTrail) -> Iterator[Block]:
    since = clock(answer.since, answer.at)
    if not answer.changes:
        yield line(f"No such change since {since} in account {answer.account}, {answer.region}.")
    for change in answer.changes:
        yield from show_change(change, answer.at)
    if answer.changes:
        shown = count(len(answer.changes), "change")
        yield line(f"{shown} since {since} in account {answer.account}, {answer.region}.")
    if answer.more is not None:
        yield line(f"For older ones add -f until={answer.more.isoformat()}")


def show_change(change: AuditLine, now: datetime) -> Iterator[Block]:
    """One change for a person: what, who, why, and each column that differs."""
    yield line(
        f"{clock(change.at, now)}  ",
        Styled(f"{change.command}: {change.target}", "strong"),
        "" if change.pipeline == "*" else f" of {change.pipeline}",
        *_outcome(change),
    )
    yield line(_who(change), indent=2)
    for text in _difference(change.before, change.after):
        yield line(text, indent=4)


def _outcome(change: AuditLine) -> Iterator[Styled | str]:
    if change.outcome == "done":
        return
    error = f": {change.error}" if change.error else ""
    text = f"{change.outcome}{error}" if change.outcome == "failed" else "its end is not on record"
    yield " "
    yield Styled(f"({text})", "alarm")


def _who(change: AuditLine) -> str:
    if change.who is None:
        return f"{OUTSIDE}, by an unknown person or program"
    because = f": {change.why}" if change.why else ", no reason given"
    who = change.who if "," in change.who else change.who.rpartition(":")[2]
    return f"by {who}{because}"


def _difference(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[str]:
    """What has changed, in words. What is gone is not listed column by column."""
    if before is not None and after is None:
        yield "removed"
    else:
        known = {name: value for name, value in (before or {}).items() if name in (after or {})}
        yield from column_changes(known if before else {}, after or {})


VIEWS = (VerbView(VERB, _show),)
