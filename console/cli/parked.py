"""`dlq parked`: the letters that automation has given up and a person has to judge."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from ..operations import parked_letters
from ..operations.life_steps import release_of
from ..operations.parked_letters import ParkedDetails, RecordedFailure
from ..operations.session import Session
from ..operations.words import clock, duration, size
from .command import OnePipeline, command, group
from .letters import ShowBody
from .output import Block, Line, Reply, Styled, TextTable, line
from .parked_release import discard, release, restore

# Characters of a body that a terminal is given; JSON has all of it.
_MAX_BODY = 2_000


typer_app = group("Letters that automation gave up and a person has to judge.")

LetterId = Annotated[
    str,
    typer.Argument(metavar="ID", help="MessageId of the letter, now or in its first life."),
]


def _when(at: datetime, now: datetime) -> str:
    return f"{clock(at, now)}, {_age(at, now)} ago"


def _age(at: datetime, now: datetime) -> str:
    return duration((now - at).total_seconds())


@command(
    typer_app,
    "show",
    example=[
        "dlq parked show 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --pipeline orders",
        "dlq parked show 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --show-body --json",
    ],
)
def show_(
    session: Session,
    id_: LetterId,
    pipeline: OnePipeline = None,
    show_body: ShowBody = False,
) -> Reply[ParkedDetails]:
    """Show one parked letter: why it is parked, and each failure that the ledger has.

    It looks through the waiting room, then through the parking queues until it finds the
    letter. Every letter that it received on the way is given back.
    """
    answer = parked_letters.details(session, pipeline, id_, body=show_body)
    return Reply(answer, _show_details)


def _show_details(letter: ParkedDetails) -> Iterator[Block]:
    yield line(
        Styled(letter.message_id, "strong"),
        f" of {letter.pipeline} in account {letter.account}, {letter.region}",
    )
    yield line(Styled(letter.reason or "reason unknown", "alarm"), f": {letter.because or '?'}")
    facts = {
        "in": f"lane parked, rescued from queue {letter.queue}"
        if letter.rescued
        else f"parking queue {letter.queue}",
        "origin": letter.origin,
        "attempts": letter.attempts,
        "rule": letter.rule,
        "replay run": letter.run,
        "FIFO group": letter.group,
        "parked": _when(letter.parked_at, letter.at) if letter.parked_at else None,
        "first sent": _when(letter.first_sent, letter.at) if letter.first_sent else None,
        "size": size(letter.size),
        "processed": _when(letter.recovered_at, letter.at) if letter.recovered_at else None,
    }
    yield TextTable((), [(f"  {name}", str(fact)) for name, fact in facts.items() if fact])
    yield Line()
    if letter.failures:
        headings = ("FAILED", ">LIFE", ">RECEIVE", "CATEGORY", "ERROR")
        yield TextTable(headings, [_failure(failure, letter.at) for failure in letter.failures])
    else:
        yield line("The ledger has no failure of it.")
    if letter.body is not None:
        yield Line()
        yield line(letter.body[:_MAX_BODY], indent=4)
    yield Line()
    yield line(f"To try it again: {release_of(letter.message_id, letter.pipeline)}")


def _failure(failure: RecordedFailure, now: datetime) -> tuple[str, ...]:
    error = ": ".join(text for text in (failure.error_type, failure.message) if text)
    status = f" (HTTP {failure.http_status})" if failure.http_status else ""
    place = f" at {failure.place}" if failure.place else ""
    return (
        clock(failure.at, now) if failure.at else "",
        str(failure.life),
        str(failure.receive),
        failure.category,
        f"{error or 'no text'}{status}{place}",
    )


command(
    typer_app,
    "release",
    example=[
        "dlq parked release orders --id 8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
        'dlq parked release orders --reason POISON --why "fixed in 4.2.1"',
        "dlq parked release orders --tenant acme --since 2d",
        'dlq parked release orders --all --why "fixed in 4.2.1"',
    ],
)(release)

command(
    typer_app,
    "discard",
    example=[
        'dlq parked discard orders --reason EXPIRED --why "the sale is over"',
        "dlq parked discard orders --id 8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
    ],
)(discard)

command(
    typer_app,
    "restore",
    example=[
        'dlq parked restore orders --run 4f0c1b2a3d4e5f60 --why "the wrong filter"',
        "dlq parked restore orders --id 8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
        "dlq parked restore orders --reason POISON --tenant acme",
    ],
)(restore)
