"""`dlq parked`: the letters that automation has given up and a person has to judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated

import typer

from deadletter.contract import Reason

from ..operations import parked as operation
from ..operations.parked import ParkedFilter, ParkedLetter, ParkedSample
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import clock, count, duration, size
from .command import OnePipeline, command, group
from .letters import not_given_back
from .output import Block, Line, Reply, Styled, line

# Characters of a body that a terminal is given; JSON has all of it.
_MAX_BODY = 2_000


typer_app = group("Letters that automation gave up and a person has to judge.")

Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=100, help="How many to list.")
]
Why = Annotated[
    str | None,
    typer.Option("--reason", metavar="REASON", help=f"Only: {', '.join(Reason)}."),
]
ShowBody = Annotated[
    bool, typer.Option("--show-body", help="Show bodies too, control characters escaped.")
]


@command(
    typer_app,
    "list",
    example=[
        "dlq parked list --pipeline orders",
        "dlq parked list --pipeline orders --reason POISON --limit 3 --show-body",
        "dlq parked list --pipeline orders --json --query 'letters[].message_id'",
    ],
)
def list_(
    session: Session,
    pipeline: OnePipeline = None,
    limit: Limit = 10,
    reason: Why = None,
    show_body: ShowBody = False,
) -> Reply[ParkedSample]:
    """Peek at parked letters: which, why, since when.

    This is a sample. Letters that were moved into the waiting room before SQS could drop
    them come first, the oldest first. The others SQS hands out in no order. Each peek
    raises their receive count and hides them from others for a moment, 30 seconds at
    most. In a FIFO queue only the head of each group is seen.

    Bodies are not shown unless you ask: they may hold your customers' data.
    """
    wanted = ParkedFilter(limit, _reason(reason) if reason else None, show_body)
    return Reply(operation.read(session, pipeline, wanted), show)


def _reason(text: str) -> Reason:
    reason = Reason.__members__.get(text.upper())
    if reason is None:
        raise Problem(
            f"There is no reason {text!r}: the reasons are {', '.join(Reason)}.", Cause.INPUT
        )
    return reason


def show(sample: ParkedSample) -> Iterator[Block]:
    """The sample for a person: for each letter a line of facts, then why it is parked."""
    yield line(
        Styled(f"Parked letters of {sample.pipeline}", "strong"),
        f" in account {sample.account}, {sample.region}",
    )
    listed, seen = len(sample.letters), sample.looked_at
    rescued = f", {sample.rescued:,} of them in the waiting room" if sample.rescued else ""
    yield line(f"{listed} listed, {seen} looked at, {sample.parked:,} there{rescued}.")
    if sample.not_given_back:
        yield line(not_given_back(sample.not_given_back))
    for letter in sample.letters:
        yield Line()
        yield from _letter(letter, sample.at)


def _letter(letter: ParkedLetter, now: datetime) -> Iterable[Block]:
    facts = [
        f"after {count(letter.attempts, 'attempt')}" if letter.attempts is not None else "",
        f"by rule {letter.rule}" if letter.rule else "",
        f"parked {_when(letter.parked_at, now)}" if letter.parked_at else "",
        f"{_age(letter.first_sent, now)} old" if letter.first_sent else "",
        size(letter.size) if letter.size is not None else "",
        f"rescued from queue {letter.queue}" if letter.rescued else f"in queue {letter.queue}",
    ]
    yield line(
        Styled(letter.message_id, "strong"),
        "  ",
        Styled(letter.reason or "reason unknown", "alarm"),
        "  ",
        ", ".join(fact for fact in facts if fact),
    )
    because = letter.because or (
        "no reason given"
        if letter.reason
        else "it carries no Redrive attribute; if it had no room for it, the ledger has its history"
    )
    yield line(because, indent=4)
    if letter.body is not None:
        yield line(letter.body[:_MAX_BODY], indent=4)
        if (more := len(letter.body) - _MAX_BODY) > 0:
            yield line(Styled(f"{count(more, 'more character')}: see --json", "faint"), indent=4)


def _when(at: datetime, now: datetime) -> str:
    return f"{clock(at, now)}, {_age(at, now)} ago"


def _age(at: datetime, now: datetime) -> str:
    return duration((now - at).total_seconds())
