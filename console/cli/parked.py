"""`dlq parked`: the letters that automation has given up and a person has to judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from deadletter.contract import Reason

from ..operations import parked as operation
from ..operations import parked_letters
from ..operations.life_steps import release_of
from ..operations.parked import ParkedFilter, ParkedLetter, ParkedSample
from ..operations.parked_letters import ParkedDetails, ParkedExport, RecordedFailure
from ..operations.session import Session
from ..operations.words import clock, count, duration, size
from .command import OnePipeline, PipelineArgument, command, group, one_pipeline
from .exit import Exit
from .letters import ShowBody, not_given_back
from .output import Block, Line, Reply, Styled, TextTable, line
from .parked_release import discard, release, restore
from .replay_options import parked_reason

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
LetterId = Annotated[
    str,
    typer.Argument(metavar="ID", help="MessageId of the letter, now or in its first life."),
]
SomeIds = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this letter; may be given several times."),
]
SomeReasons = Annotated[
    list[str] | None,
    typer.Option(
        "--reason",
        metavar="REASON",
        help=f"Only letters parked for it: {', '.join(Reason)}; may be given several times.",
    ),
]
ExportFile = Annotated[
    str, typer.Option("--out", metavar="FILE", help="A new file: one letter a line, as JSON.")
]


@command(
    typer_app,
    "list",
    example=[
        "dlq parked list orders",
        "dlq parked list orders --reason POISON --limit 3 --show-body",
        "dlq parked list orders --json --query 'letters[].message_id'",
    ],
)
def list_(
    session: Session,
    argument: PipelineArgument = None,
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
    wanted = ParkedFilter(limit, parked_reason(reason) if reason else None, show_body)
    return Reply(operation.read(session, one_pipeline(argument, pipeline), wanted), show)


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


@command(
    typer_app,
    "export",
    example=[
        "dlq parked export orders --out parked.jsonl",
        "dlq parked export orders --reason POISON --out poison.jsonl",
    ],
)
def export(
    session: Session,
    out: ExportFile,
    argument: PipelineArgument = None,
    pipeline: OnePipeline = None,
    id_: SomeIds = None,
    reason: SomeReasons = None,
) -> Reply[ParkedExport]:
    """Copy parked letters into a file, bodies and attributes included. Nothing is moved.

    The file holds your customers' data: only you can read it. In a FIFO queue only the
    head of each group is seen. The exit status is 1 if the queues were not looked at to
    their end.
    """
    chosen = one_pipeline(argument, pipeline)
    answer = parked_letters.export(
        session, chosen, out, ids=id_ or (), reasons=parked_reasons(reason)
    )
    return Reply(answer, _show_export, Exit.DONE if answer.complete else Exit.ATTENTION)


def parked_reasons(texts: Sequence[str] | None) -> tuple[Reason, ...]:
    """The reasons with these names."""
    return tuple(map(parked_reason, texts or ()))


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


def _show_export(answer: ParkedExport) -> Iterator[Block]:
    yield line(
        Styled(f"{count(answer.exported, 'letter')} of {answer.pipeline}", "strong"),
        f" copied into {answer.file}; {count(answer.looked_at, 'letter')} looked at.",
    )
    if not answer.complete:
        yield line(
            Styled("The look ended before the queue did: ", "alarm"),
            "more letters are parked. Run it again with --reason or --id.",
        )
    if answer.not_given_back:
        letters = count(answer.not_given_back, "letter")
        yield line(f"{letters} could not be given back at once: hidden for 11 minutes at most.")


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
