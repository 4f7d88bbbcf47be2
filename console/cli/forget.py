"""`dlq forget`: all that is kept of a message, or of messages with a value, is erased."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations.forget import VERB, ForgottenMessages, in_words
from ..operations.words import clock
from . import runs
from .command import plain_typer
from .output import Block, Styled, line

typer_app = plain_typer()


def _show(answer: ForgottenMessages) -> Iterator[Block]:
    yield line(
        Styled(f"{answer.id or 'Messages with this value'} of {answer.pipeline}", "strong"),
        f" in account {answer.account}, {answer.region}: {in_words(answer.sources)}",
    )
    for run in answer.runs:
        yield from runs.show_run(run)
    if answer.copies_until is not None:
        until = clock(answer.copies_until, answer.at)
        yield line(f"Point-in-time copies of the table hold it until {until}.")


runs.add_runs(typer_app, VERB, _show)
