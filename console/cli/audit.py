"""`dlq audit`: who changed what, when and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from ..operations import rule_text
from ..operations.audit_lines import OUTSIDE, AuditLine
from ..operations.audit_trail import AuditQuestion, AuditTrail, read
from ..operations.duration import seconds
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import clock, count
from .command import (
    PipelineArguments,
    SomePipelines,
    command,
    plain_typer,
    some_pipelines,
)
from .output import Block, Reply, Styled, line

typer_app = plain_typer()

Since = Annotated[
    str, typer.Option("--since", metavar="WHEN", help="From then on: 12h, 7d, or ISO 8601.")
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Before then: 12h, 7d, or ISO 8601."),
]
By = Annotated[
    str, typer.Option("--by", metavar="TEXT", help="Only by callers whose ARN has this in it.")
]
What = Annotated[
    str,
    typer.Option(
        "--what", metavar="WORDS", help="Only commands that begin so: rules, 'circuit open' …"
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=1_000, help="At most so many changes.")
]


@command(
    typer_app,
    "audit",
    example=[
        "dlq audit orders --since 2d",
        "dlq audit --by ann --what circuit",
        "dlq audit --what rules --jsonl",
    ],
)
def audit(
    session: Session,
    pipelines: PipelineArguments = None,
    pipeline: SomePipelines = None,
    since: Since = "7d",
    until: Until = None,
    by: By = "",
    what: What = "",
    limit: Limit = 50,
) -> Reply[AuditTrail]:
    """Who changed what, when and why: the newest first.

    A change is recorded before it is made, with the caller's ARN and session, the reason, and
    how things were; then how it ended. A change of a rule or of an endpoint that was made
    elsewhere, such as in the DynamoDB console, is listed as outside dlq: there the author is
    unknown.

    Without a pipeline, all of them. What belongs to no single pipeline, such as an endpoint or a
    rule of '*', is always listed.
    """
    question = AuditQuestion(
        since=past(since, session.now),
        # Another person's clock may be ahead.
        until=session.now + timedelta(minutes=5) if until is None else past(until, session.now),
        pipelines=some_pipelines(pipelines, pipeline),
        by=by,
        what=what,
        limit=limit,
    )
    return Reply(read(session, question), _show)


def past(text: str, now: datetime) -> datetime:
    """The time of an option such as --since; Problem for any other text."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - timedelta(seconds=seconds(text))
        except OverflowError as error:
            raise Problem(f"{text} ago is before all time.", Cause.INPUT) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


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
        yield line(f"For older ones add --until {answer.more.isoformat()}")


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
        yield from rule_text.changes(known if before else {}, after or {})
