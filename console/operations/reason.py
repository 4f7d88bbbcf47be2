"""The reason that a person gives for a change."""

from __future__ import annotations

from .problem import Cause, Problem

MAX_REASON = 1_000
"""Characters of a reason; the router refuses a rule with a longer one."""


def checked_reason(text: str | None, change: str, *, option: str = "--reason") -> str:
    """The reason without spaces around it; `change` needs it ("A rule").

    `option` is the command's option for it.

    Raises Problem if it is empty or too long.
    """
    reason = (text or "").strip()
    if not reason:
        raise Problem(f"{change} needs a reason: add {option}.", Cause.INPUT)
    return _not_too_long(reason)


def optional_reason(text: str | None) -> str:
    """As `checked_reason`, where a change needs none; it is empty then."""
    return _not_too_long((text or "").strip())


def _not_too_long(reason: str) -> str:
    if len(reason) > MAX_REASON:
        raise Problem(f"A reason has at most {MAX_REASON:,} characters.", Cause.INPUT)
    return reason
