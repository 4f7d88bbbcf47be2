"""`dlq discard`, `restore` and `forget`: messages are thrown away, brought back, or erased."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations import discard, forget, restore
from ..operations.forget import ForgottenMessages, in_words
from ..operations.words import clock
from .output import Block, Styled, line
from .run import show_run, view_of_runs


def _forgotten(answer: ForgottenMessages) -> Iterator[Block]:
    yield line(
        Styled(f"{answer.id or 'Messages with this value'} of {answer.pipeline}", "strong"),
        f" in account {answer.account}, {answer.region}: {in_words(answer.sources)}",
    )
    for run in answer.runs:
        yield from show_run(run)
    if answer.copies_until is not None:
        until = clock(answer.copies_until, answer.at)
        yield line(f"Point-in-time copies of the table hold it until {until}.")


VIEWS = (
    *(view_of_runs(verb) for verb in (discard.VERB, restore.VERB)),
    view_of_runs(forget.VERB, _forgotten),
)
