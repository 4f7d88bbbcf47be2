"""`dlq forget`: all that is kept of a message, or of messages with a value, is erased."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..operations.forget import VERB, ForgottenLetters, in_words
from ..operations.session import Session
from ..operations.words import clock
from . import runs
from .command import plain_typer
from .exit import Exit
from .output import Block, Styled, line
from .verb import add

typer_app = plain_typer()


def _followed(session: Session, answer: ForgottenLetters) -> ForgottenLetters:
    return replace(answer, runs=runs.followed(session, answer.pipeline, answer.runs))


def _status(answer: ForgottenLetters) -> Exit:
    return runs.needs_person(answer.runs)


def _show(answer: ForgottenLetters) -> Iterator[Block]:
    yield line(
        Styled(f"{answer.id or 'Messages with this value'} of {answer.pipeline}", "strong"),
        f" in account {answer.account}, {answer.region}: {in_words(answer.sources)}",
    )
    for run in answer.runs:
        yield from runs.show_run(run)
    if answer.copies_until is not None:
        until = clock(answer.copies_until, answer.at)
        yield line(f"Point-in-time copies of the table hold it until {until}.")


add(typer_app, VERB, _show, follow=_followed, status=_status)
