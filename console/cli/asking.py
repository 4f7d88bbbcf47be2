"""Questions to the person at the terminal: go on, why, and until when; and their options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Annotated, Any

import typer

from ..operations.audit import checked_reason
from ..operations.errors import Cause, Problem
from ..operations.session import Session
from ..operations.words import NEVER, ending, printable
from . import output
from .output import said

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Don't ask; needed where there is no terminal.")
]
Confirm = Annotated[
    str | None,
    typer.Option(
        "--confirm",
        metavar="APP",
        help="The app's name: for a severe change where there is no terminal.",
    ),
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; asked for if not given.")
]

Why = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")]
"""The reason of a change that asks nothing."""

# The suggested end: long enough for the night, and over before it is forgotten.
SUGGESTED = "24h"


def interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def ask(question: str) -> str | None:
    """The answer of the person; None if standard input is not a terminal."""
    if not interactive():
        return None
    sys.stderr.write(f"{printable(question)} ")
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def confirm(session: Session, *question: str) -> None:
    """Asks before something changes, and names the account and region.

    Raises Problem if the answer is not yes, or if standard input is not a terminal.
    """
    if not interactive():
        raise Problem(
            "There is no terminal to ask at, so nothing was done: add --yes.", Cause.INPUT
        )
    _show(session, question)
    if (ask("Go on? [y/N]") or "").lower() not in ("y", "yes"):
        raise Problem("Nothing was done.", Cause.FAILED)


def _show(session: Session, question: Sequence[str]) -> None:
    where = f"App {session.app_name} in account {session.aws.account}, {session.aws.region}."
    output.show(chain(*map(said, (where, *question))), sys.stderr)


def confirm_by_name(session: Session, given: str | None, *question: str) -> None:
    """Asks before a severe change: the person has to type the app's name, or to give it.

    Raises Problem if the name is another, or if there is neither the option nor a terminal.
    """
    name = session.app_name
    if given is None and not interactive():
        raise Problem(
            f"This can't be undone, so --yes does not do: add --confirm {name}.", Cause.INPUT
        )
    if given is None:
        _show(session, question)
        given = ask(f"This can't be undone. Type {name} to go on:") or ""
        if given != name:
            raise Problem("Nothing was done.", Cause.FAILED)
    if given != name:
        raise Problem(f"--confirm is {given!r}, and not {name}: nothing was done.", Cause.INPUT)


def reason(given: str | None, change: str) -> str:
    """The reason for a change, asked for if `change` needs one ("A rule") and none was given."""
    text = ask("Why? (for later readers)") if change and given is None else given
    return checked_reason(text, change)


def dated(
    plan: Any, now: datetime, subject: str, *, suggested: str = SUGGESTED, never: bool = True
) -> Any:
    """The plan with the end of `subject` ("the rule"), which a person is asked for if it has none.

    Raises Problem for a text that is not a time, for a time in the past, and without a terminal.
    """
    if plan.is_dated:
        return plan
    allowed = f"7d, an ISO 8601 time, {NEVER}" if never else "2h, an ISO 8601 time"
    given = ask(f"When does it end? {allowed} [{suggested}]")
    if given is None:
        also = f", or --expires {NEVER}" if never else ""
        raise Problem(f"Say when {subject} ends: --expires {suggested}{also}.", Cause.INPUT)
    return plan.ending(ending(given or suggested, now, subject, never=never))
