"""Options that choose the letters of a replay run, and how progress is shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from deadletter.contract import Reason as Parked

from ..operations.duration import seconds
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from . import completion
from .asking import interactive
from .text_file import read_text

Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this letter; may be given several times."),
]
Causes = Annotated[
    list[str] | None,
    typer.Option(
        "--cause", metavar="FINGERPRINT", help="Only letters that last failed so; repeatable."
    ),
]
Reasons = Annotated[
    list[str] | None,
    typer.Option(
        "--reason",
        metavar="REASON",
        help=f"Only letters parked for it: {', '.join(Parked)}; repeatable.",
    ),
]
Tenants = Annotated[
    list[str] | None,
    typer.Option("--tenant", metavar="ID", help="Only letters of this tenant; repeatable."),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="First sent then or later: 2h, 4d, ISO 8601."),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="First sent before then: 2h, 4d, ISO 8601."),
]
Pattern = Annotated[
    str | None,
    typer.Option("--pattern", metavar="JSON|@FILE", help="An event pattern, as in rules."),
]
Where = Annotated[
    str | None,
    typer.Option("--jmespath", metavar="EXPR", help="An expression over the body that is true."),
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="REASON",
        help="Take letters that automation would park for it: POISON, EXHAUSTED …; repeatable.",
    ),
]
Why = Annotated[
    str | None, typer.Option("--why", metavar="TEXT", help="Why; asked for if not given.")
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate", metavar="N", min=0.01, max=1_000.0, help="Letters per second at full pace."
    ),
]
AcceptCollision = Annotated[
    bool,
    typer.Option(
        "--accept-collision",
        help="Process them although another message with their key was processed.",
    ),
]


Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The run's id, or the first four characters or more.",
        autocompletion=completion.runs,
    ),
]


def selection(
    session: Session,
    *,
    ids: Sequence[str] | None = None,
    causes: Sequence[str] | None = None,
    reasons: Sequence[str] | None = None,
    tenants: Sequence[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    pattern: str | None = None,
    where: str | None = None,
    include: Sequence[str] | None = None,
) -> Any:
    """The letters that options choose; Problem for an option that is not understood."""
    from deadletter.routing.selection import Selection
    from deadletter.routing.selector import Selector
    from deadletter.settings.json_fields import BadSettings

    chosen = Selection(
        pattern=_pattern(pattern),
        ids=tuple(ids or ()),
        fingerprints=tuple(causes or ()),
        reasons=tuple(
            parked_reason(text, "--reason chooses letters; why you do it is --why.")
            for text in reasons or ()
        ),
        tenants=tuple(tenants or ()),
        since=_past(since, session.now),
        until=_past(until, session.now),
        where=where or "",
        include=tuple(map(parked_reason, include or ())),
    )
    try:
        Selector(chosen)
    except BadSettings as error:
        raise Problem(f"These letters can't be chosen so: {error}.", Cause.INPUT) from error
    return chosen


def parked_reason(text: str, hint: str = "") -> Parked:
    """The reason with this name, in any case; Problem with the known ones for another.

    The message ends with `hint`.
    """
    reason = Parked.__members__.get(text.upper())
    if reason is None:
        raise Problem(
            f"There is no reason {text!r}: the reasons are {', '.join(Parked)}. {hint}".rstrip(),
            Cause.INPUT,
        )
    return reason


def _pattern(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        pattern = json.loads(read_text(text[1:]) if text.startswith("@") else text)
    except ValueError as error:
        raise Problem(
            f"--pattern is not JSON ({error}): see docs/rules.md.", Cause.INPUT
        ) from error
    if not isinstance(pattern, dict):
        raise Problem("--pattern must be a JSON object: see docs/rules.md.", Cause.INPUT)
    return pattern


def _past(text: str | None, now: datetime) -> float | None:
    """A time in the past, as epoch seconds."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return (now - timedelta(seconds=seconds(text))).timestamp()
        except Problem as error:
            raise Problem(
                f"{text!r} is no time: write how long ago (2h, 4d), or 2026-01-31T09:00 in UTC.",
                Cause.INPUT,
            ) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def progress(says: str) -> None:
    """Shows what is being counted, on a terminal alone."""
    if interactive() and sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{says}")
        sys.stderr.flush()


def end_progress() -> None:
    """Ends the line of progress."""
    if interactive() and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
