"""`dlq peek`: which letters there are, without taking one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from ..operations import letter_peek as operation
from ..operations.letter_peek import LetterPeek, PeekedLetter
from ..operations.session import Session
from ..operations.words import clock, count, duration, size
from .command import OnePipeline, PipelineArgument, command, one_pipeline, plain_typer
from .letters import not_given_back
from .output import Block, Line, Reply, Styled, line

# Characters of a body that a terminal is given; JSON has all of it.
_MAX_BODY = 2_000

typer_app = plain_typer()

Lane = Annotated[
    str | None,
    typer.Option("--lane", metavar="NAME", help="Only this lane, such as due or circuit:orders."),
]
AnyQueue = Annotated[
    str | None,
    typer.Option(
        "--queue", metavar="URL", help="Any queue, by URL, name or ARN; no app is needed."
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=500, help="How many to show.")
]
ShowBody = Annotated[
    bool,
    typer.Option(
        "--show-body",
        help="Show bodies too, control characters escaped. It looks into the DLQ for them.",
    ),
]


@command(
    typer_app,
    "peek",
    example=[
        "dlq peek orders",
        "dlq peek orders --lane circuit:orders --show-body",
        "dlq peek --queue billing-dlq --limit 5 --show-body",
    ],
)
def peek(
    session: Session,
    argument: PipelineArgument = None,
    pipeline: OnePipeline = None,
    lane: Lane = None,
    queue: AnyQueue = None,
    limit: Limit = 20,
    show_body: ShowBody = False,
) -> Reply[LetterPeek]:
    """Which letters there are, without taking one.

    It reads the waiting room and the ledger: nothing is received, hidden or counted. A
    letter in a queue of SQS is shown as the ledger knows it.

    With --show-body, and with --queue, messages are received from a queue and given back at
    once. SQS counts each look: after three, a message drops out of the queue's own age
    metric, and a maxReceiveCount counts them too.
    """
    chosen = one_pipeline(argument, pipeline)
    operation.one_place(chosen, queue, lane)
    if queue is not None:
        answer = operation.peek_at_queue(session, queue, limit=limit, body=show_body)
    else:
        answer = operation.peek_at_pipeline(session, chosen, limit=limit, lane=lane, body=show_body)
    return Reply(answer, show)


def show(answer: LetterPeek) -> Iterator[Block]:
    """The letters for a person: for each a line of facts, then why it is there."""
    what = f"Letters of {answer.pipeline}" if answer.pipeline else f"Messages of {answer.queue}"
    yield line(Styled(what, "strong"), f" in account {answer.account}, {answer.region}")
    received = f", {answer.looked_at:,} received" if answer.queue else ", none received"
    yield line(f"{count(len(answer.letters), 'letter')}{received}.")
    for note in answer.notes:
        yield line(Styled(note, "alarm" if answer.queue else "faint"))
    if answer.not_given_back:
        yield line(not_given_back(answer.not_given_back))
    for letter in answer.letters:
        yield Line()
        yield from _letter(letter, answer.at)
    if answer.pipeline and answer.letters:
        yield Line()
        yield line(f"One letter's life: dlq explain {answer.letters[0].origin}")


def _letter(letter: PeekedLetter, now: datetime) -> Iterator[Block]:
    facts = [
        f"for {duration((now - letter.since).total_seconds())}" if letter.since else "",
        f"judged again by {clock(letter.due, now)}" if letter.due else "",
        count(letter.attempts, "re-drive") if letter.attempts is not None else "",
        f"received {count(letter.received, 'time')}" if letter.received is not None else "",
        size(letter.size) if letter.size is not None else "",
    ]
    yield line(
        Styled(letter.message_id or letter.origin, "strong"),
        f"  {letter.place}  ",
        ", ".join(fact for fact in facts if fact),
    )
    error = ": ".join(text for text in (letter.error_type, letter.because) if text)
    if error:
        category = f" [{letter.category}]" if letter.category else ""
        yield line(f"{error}{category}", indent=4)
    if letter.body is not None:
        yield line(letter.body[:_MAX_BODY], indent=4)
        if (more := len(letter.body) - _MAX_BODY) > 0:
            yield line(Styled(f"{count(more, 'more character')}: see --json", "faint"), indent=4)
        for name, value in (letter.attributes or {}).items():
            yield line(f"{name} = {value}", indent=4)
