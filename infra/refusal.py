"""Why settings are refused: one sentence that names the key, its value and what is allowed."""

from __future__ import annotations

import json

# Characters of a wrong value that are shown.
LONGEST_VALUE = 80


class Refused(ValueError):
    """The settings cannot be deployed; the message says why, in one sentence."""


def refused(owner: str, key: str, value: object, allowed: str) -> Refused:
    """The refusal of a value, for the owner of the settings that hold it."""
    return Refused(f"{owner}: {value_refused(key, value, allowed)}.")


def value_refused(key: str, value: object, allowed: str) -> str:
    """`key is value; allowed: ...`, the body of every sentence."""
    return f"{key} is {shown(value)}; allowed: {allowed}"


def shown(value: object) -> str:
    """A value as JSON, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
