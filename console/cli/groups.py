"""`dlq groups`: what is failing, and why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from ..operations import groups as operation
from ..operations.grouping import By, Trend
from ..operations.groups import GroupList, LetterGroup
from ..operations.queue import MOST_OF_BARE_QUEUE
from ..operations.session import Session
from ..operations.words import clock, count, duration
from .command import OnePipeline, PipelineArgument, command, one_pipeline, plain_typer
from .output import Block, Line, Part, Reply, Styled, line

typer_app = plain_typer()

MOST_SHOWN = 20
"""Groups on a screen; the JSON has all."""

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

_NONE = "No letter is failing"
_EMPTY = "No message"

Dimension = Annotated[By, typer.Option("--by", help="What the letters are grouped by.")]
Queue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="URL",
        help="Any queue, by URL, name or ARN: a sample of it; no app is needed.",
    ),
]
Sample = Annotated[
    int | None,
    typer.Option(
        "--sample",
        metavar="N",
        min=1,
        max=500,
        help=f"Receive so many messages of the DLQ ({MOST_OF_BARE_QUEUE} with --queue).",
    ),
]


@command(
    typer_app,
    "groups",
    example=[
        "dlq groups",
        "dlq groups orders --by tenant",
        "dlq groups --queue payments-dlq --sample 200",
        "dlq groups orders --json --query 'groups[0].next.command'",
    ],
)
def groups(
    session: Session,
    argument: PipelineArgument = None,
    pipeline: OnePipeline = None,
    by: Dimension = By.CAUSE,
    queue: Queue = None,
    sample: Sample = None,
) -> Reply[GroupList]:
    """What is failing, and why: letters by cause, tenant and more, with what to type.

    The largest group is first. It reads the index that the consumer library keeps, for 5 seconds
    and 20,000 letters at most; beyond that the figures are "at least", and the exit status is 1 if
    nothing was read. Nothing is received from a queue. A letter is in the index from its first
    failure until it is processed, parked or discarded.

    With --queue or --sample, and for a pipeline whose index is empty while its DLQ is not, a
    sample of the queue is received and given back at once. SQS counts such looks.
    """
    chosen = one_pipeline(argument, pipeline)
    answer = operation.groups(session, chosen, by=by, queue=queue, sample=sample)
    return Reply(answer, show)


def show(answer: GroupList) -> Iterator[Block]:
    """The groups for a person: how many letters and causes there are is the first line."""
    says = headline(answer)
    where = f" in pipeline {answer.pipeline}" if answer.pipeline else ""
    if answer.queue:
        where = f" in a sample of queue {answer.queue}"
    yield line(
        Styled(says, "good" if says in (_NONE, _EMPTY) else "strong"),
        f"{where}, account {answer.account}, {answer.region}, at {clock(answer.at, answer.at)}",
    )
    if (tried := answer.attempts) is not None:
        over = f"{tried.share_over:.0%} had more than {tried.threshold}"
        yield line(f"Attempts: {tried.mean:.1f} on average; {over}")
    for group in answer.groups[:MOST_SHOWN]:
        yield Line()
        yield from _group(group, By(answer.by), answer.at)
    if len(answer.groups) > MOST_SHOWN:
        yield Line()
        _, several = _WORDS[By(answer.by)]
        more = len(answer.groups) - MOST_SHOWN
        yield line(f"and {more:,} more {several}: --json has all of them")
    for note in answer.notes:
        yield Line()
        yield line(Styled("Note: ", "alarm"), note)


def headline(answer: GroupList) -> str:
    """Such as "4,000 letters, 3 causes"."""
    if not answer.letters:
        unknown = answer.in_queues or 0
        if unknown:
            return f"No cause is known of {count(unknown, 'letter')}"
        return _EMPTY if answer.queue else _NONE
    found, (one, several) = len(answer.groups), _WORDS[By(answer.by)]
    letters = count(answer.letters, "letter")
    kinds = f"{found:,} {one if found == 1 else several}"
    return f"At least {letters}, at least {kinds}" if answer.is_at_least else f"{letters}, {kinds}"


def _group(group: LetterGroup, by: By, now: datetime) -> Iterator[Block]:
    at_least = "at least " if group.is_at_least else ""
    what = _failure(group)
    name = what if by is By.CAUSE else group.name
    if by is By.ATTEMPTS:
        name = count(int(group.name), "attempt")
    yield line(f"{at_least}{count(group.letters, 'letter')}  ", Styled(name, "strong"), indent=2)
    facts: list[Part] = []
    if by is By.CAUSE:
        facts += [f"cause {group.name}" + (f", {group.category}" if group.category else "")]
    elif what:
        facts += [f"newest: {what}"]
    yield line(*facts, *_times(group, now, bool(facts)), indent=4)
    yield line(f"sample {group.sample}", indent=4)
    yield line("next: ", Styled(group.next.command, "strong"), f"  {group.next.effect}", indent=4)


def _failure(group: LetterGroup) -> str:
    """The failure of the newest letter, in words."""
    status = "" if group.http_status is None else f" {group.http_status}"
    unknown = "no failure on record" if group.is_read else "its failure was not read"
    words = f": {group.message}" if group.message else ""
    return f"{group.error_type}{status}{words}" or unknown


def _times(group: LetterGroup, now: datetime, follows: bool) -> Iterator[Part]:
    first, last = (_ago(at, now) for at in (group.first_seen, group.last_seen))
    yield f"{'; ' if follows else ''}first {first}, last {last}; "
    yield Styled(group.trend, "alarm") if group.trend == Trend.RISING else group.trend
    yield f" ({group.new:,} new in 10 min, {group.new_before:,} in the 10 min before)"


def _ago(at: datetime | None, now: datetime) -> str:
    return "unknown" if at is None else f"{duration((now - at).total_seconds())} ago"
