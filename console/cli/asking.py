"""What a person has to say before something changes: why, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..operations.duration import seconds
from ..operations.problem import Exit, Problem
from .command import ask

# What a person is offered: long enough for the night, and over before it is forgotten.
SUGGESTED = "24h"
NEVER = "never"

MAX_REASON = 1_000
"""Characters of a reason; the router refuses a rule with a longer one."""


def reason(given: str | None, what: str) -> str:
    """Why, asked for if it was not given; `what` needs it ("A rule")."""
    asked = ask("Why? (for whoever finds it later)") if given is None else given
    said = (asked or "").strip()
    if not said:
        raise Problem(f"{what} needs a reason: add --reason.", Exit.USAGE)
    if len(said) > MAX_REASON:
        raise Problem(f"A reason has at most {MAX_REASON:,} characters.", Exit.USAGE)
    return said


def end(given: str | None, now: datetime, what: str, *, suggested: str = SUGGESTED) -> datetime:
    """When it ends, asked for if it was not given; `what` ends ("the rule").

    Raises Problem for a time that is none or has passed.
    """
    found = end_or_never(given, now, what, suggested=suggested, never=False)
    assert found is not None
    return found


def end_or_never(
    given: str | None, now: datetime, what: str, *, suggested: str = SUGGESTED, never: bool = True
) -> datetime | None:
    """As `end`; None for what never ends, where `never` may be said."""
    words = f"7d, an ISO 8601 time, {NEVER}" if never else "2h, an ISO 8601 time"
    if given is None:
        given = ask(f"When does it end? {words} [{suggested}]")
    if given is None:
        also = f", or --expires {NEVER}" if never else ""
        raise Problem(f"Say when {what} ends: --expires {suggested}{also}.", Exit.USAGE)
    text = given.strip() or suggested
    if never and text.lower() == NEVER:
        return None
    at = _moment(text, now)
    if at <= now:
        raise Problem(f"{what.capitalize()} would have ended at {text} already.", Exit.USAGE)
    return at.astimezone(UTC)


def _moment(text: str, now: datetime) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return now + timedelta(seconds=seconds(text))
    return at if at.tzinfo else at.replace(tzinfo=UTC)
