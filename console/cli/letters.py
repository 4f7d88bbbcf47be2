"""Options that choose letters, and a sentence about letters that stay hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ..operations.letters import Sample, pasted
from ..operations.peek import HIDDEN
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import count
from .text_file import read_text

Source = Annotated[
    str,
    typer.Option(
        "--source", metavar="ID", help="Which queue: dlq, parking, or the id of a dedicated DLQ."
    ),
]
Body = Annotated[
    str | None,
    typer.Option(
        "--body",
        metavar="FILE",
        help="A body, or what `aws sqs receive-message` printed, instead of a queue; - is stdin.",
    ),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute", metavar="NAME=VALUE", help="With --body: a message attribute of the message."
    ),
]


def letters_in_file(session: Session, path: str, attributes: Sequence[str]) -> Sample:
    """The letters in a file or on standard input, with the attributes of --attribute."""
    text = read_text(path)
    return pasted(path, text, dict(map(_attribute, attributes)), session.clock())


def _attribute(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise Problem(f"--attribute takes NAME=VALUE, not {text!r}.", Cause.INPUT)
    return name, value


def not_given_back(number: int) -> str:
    """A sentence about letters that are still hidden."""
    return f"{count(number, 'message')} could not be given back: hidden for {HIDDEN} s at most."
