"""`dlq forget`: all that is kept of a letter, or of letters with a key, is erased."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations import forget as operation
from ..operations.forget import ForgottenLetters, LettersToForget
from ..operations.session import Session
from ..operations.words import clock, count
from . import asking, replay_options
from .asking import Confirm
from .command import OnePipeline, command, plain_typer
from .output import Block, Line, Reply, Styled, TextTable, line
from .replay_options import Why

typer_app = plain_typer()

What = Annotated[
    str,
    typer.Argument(
        metavar="ID|KEY",
        help="MessageId of the letter, now or in its first life; or NAME=VALUE, a name of the "
        "pipeline's context and its value.",
    ),
]
OnlyPlan = Annotated[
    bool, typer.Option("--plan", help="Only say what is kept, and where; change nothing.")
]
Everywhere = Annotated[
    bool,
    typer.Option("--everywhere", help="Go through every queue and lane, wherever it is known."),
]
Look = Annotated[
    bool, typer.Option("--look", help="With a KEY: count in the queues too; SQS counts the looks.")
]


@command(
    typer_app,
    "forget",
    example=[
        "dlq forget 6f6e1bd2-6f2b-4a53-8a10-0f4f9c1f5b7e --plan",
        'dlq forget 6f6e1bd2-6f2b-4a53-8a10-0f4f9c1f5b7e --why "request 4711"',
        'dlq forget tenantId=t-17 --pipeline orders --everywhere --why "request 4712"',
    ],
)
def forget(
    session: Session,
    what: What,
    pipeline: OnePipeline = None,
    plan: OnlyPlan = False,
    everywhere: Everywhere = False,
    look: Look = False,
    why: Why = None,
    confirm_app: Confirm = None,
) -> Reply[ForgottenLetters]:
    """Erase what is kept of a letter, for a data protection request.

    Of one letter by its id, or of all letters with a key. They are thrown away without a
    copy, wherever runs find them: in DLQs, parking queues and lanes. Then their rows of the
    ledger are deleted, and copies that earlier discards and edits have left. Replay runs do
    that, one for each queue and lane: a run takes what it goes through, so other letters of
    a DLQ wait for their delay in the waiting room, and parked ones in lane `parked`.

    With a key, runs also look through what runs have kept, and forget letters that were
    processed. In a FIFO pipeline they take no letter and erase only what is kept.

    It says until when point-in-time copies still hold it, and what it can't reach. The
    audit keeps the id, who and why; of a key it keeps that there was one. It can't be
    undone: type the app's name when asked, or give it with --confirm.

    Interrupted, type it again. Afterwards --plan says whether anything is left.
    """
    letters = LettersToForget(
        session,
        what,
        pipeline,
        everywhere=everywhere,
        look=look,
        progress=replay_options.progress,
    )
    replay_options.end_progress()
    if plan:
        return Reply(letters.plan(), _show)
    because = asking.reason(why, "To forget letters", option="--why")
    if letters.is_known:
        shown = letters.plan()
        asking.confirm_by_name(session, confirm_app, session.app_name, *_question(shown))
    return Reply(letters.start(because), _show)


def _question(answer: ForgottenLetters) -> Iterator[str]:
    what = f"letter {answer.id}" if answer.id else "all letters with this key"
    yield f"Forget {what} of {answer.pipeline}: {operation.in_words(answer.sources)}."
    for trace in answer.kept:
        yield f"{_place(trace.place, trace.letters)}: {trace.says}"
    for note in answer.notes:
        yield f"Note: {note}"


def _place(place: str, letters: int | None) -> str:
    return place if letters is None else f"{place}, {count(letters, 'letter')}"


def _show(answer: ForgottenLetters) -> Iterator[Block]:
    what = answer.id or "letters with this key"
    where = f" in account {answer.account}, {answer.region}"
    yield line(Styled(f"{what} of {answer.pipeline}", "strong"), where)
    if not answer.kept:
        yield line("Nothing is on record of it where it was looked for.")
    for trace in answer.kept:
        yield line(f"{_place(trace.place, trace.letters)}: {trace.says}", indent=2)
    if answer.runs:
        rows = [(run.run, run.source, run.state) for run in answer.runs]
        yield TextTable(("RUN", "GOES THROUGH", "STATE"), rows)
    elif answer.sources:
        yield line(f"It would take {operation.in_words(answer.sources)}.")
    yield Line()
    if answer.copies_until is not None:
        until = clock(answer.copies_until, answer.at)
        yield line(f"Point-in-time copies of the table hold it until {until}.")
    yield line("Not reached:")
    for place in answer.not_reached:
        yield line(place, indent=2)
    for note in answer.notes:
        yield line(f"Note: {note}")
    for run in answer.runs:
        yield line(f"Follow it: dlq show {run.run} --watch")
