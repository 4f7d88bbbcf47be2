"""`dlq logs`: what the consumer logged each time it had one letter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.life_logs import FOUND, LetterLogs, Patience, ReceiveLog, letter_logs
from ..operations.session import Session
from ..operations.words import clock, count
from . import replay_options
from .command import command, plain_typer
from .exit import Exit
from .explain import LetterId, Narrowed
from .output import Block, Line, Reply, Styled, line

typer_app = plain_typer()

LogGroup = Annotated[
    str | None,
    typer.Option(
        "--log-group", metavar="NAME", help="The consumer's log group, if it has an unusual name."
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Lines of each receive.")
]
Wait = Annotated[
    int, typer.Option("--wait", metavar="SECONDS", min=1, max=600, help="Wait so long in all.")
]


@command(
    typer_app,
    "logs",
    example=[
        "dlq logs 8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
        "dlq logs 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --limit 20 --wait 120",
    ],
)
def logs(
    session: Session,
    id_: LetterId,
    pipeline: Narrowed = None,
    log_group: LogGroup = None,
    limit: Limit = 100,
    wait: Wait = 60,
) -> Reply[LetterLogs]:
    """What the consumer logged at each receive of one letter.

    For each failed receive of the ledger it asks CloudWatch Logs Insights for the lines of
    that invocation, by its request id and time. AWS bills a query by the bytes that it reads.
    The lines are those of the whole invocation: of the other messages of its batch too.

    Ctrl-C stops the queries. The exit status is 1 if a receive could not be searched in time.
    """
    patience = Patience(wait, time.sleep, replay_options.progress)
    try:
        answer = letter_logs(
            session, id_, pipeline, patience=patience, log_group=log_group, most=limit
        )
    finally:
        replay_options.end_progress()
    return Reply(answer, show, Exit.DONE if answer.is_whole else Exit.ATTENTION)


def show(answer: LetterLogs) -> Iterator[Block]:
    """The lines for a person, receive by receive."""
    yield line(
        Styled(f"Letter {answer.id}", "strong"),
        f" of {answer.pipeline} in account {answer.account}, {answer.region};"
        f" log group {answer.log_group}",
    )
    if answer.trace:
        yield line(f"trace {answer.trace}")
    for receive in answer.receives:
        yield Line()
        yield from _receive(receive, answer)
    yield Line()
    yield line(f"Its life: dlq explain {answer.origin} --pipeline {answer.pipeline}")


def _receive(receive: ReceiveLog, answer: LetterLogs) -> Iterator[Block]:
    when = f", failed at {clock(receive.at, answer.at)}" if receive.at else ""
    request = f", request {receive.request_id}" if receive.request_id else ""
    yield line(
        Styled(f"Life {receive.life}, receive {receive.receive}", "strong"),
        f"{when}{request}: {count(len(receive.lines), 'line')}",
    )
    if receive.note:
        yield line(Styled(receive.note, "faint" if receive.state == FOUND else "alarm"), indent=2)
    for each in receive.lines:
        at = f"{each.at:%H:%M:%S.%f}"[:-3] if each.at else "?"
        yield line(f"{at}  {each.message}", indent=2)
