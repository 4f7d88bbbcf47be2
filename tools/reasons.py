"""Lists of what stays as it is, in TOML, each entry with its reason."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

# A reason is a sentence about this project, which takes at least this many words.
MIN_REASON_WORDS = 5


class BadEntry(ValueError):
    """An entry with unknown or missing keys, or without a reason."""


class Reasoned(Protocol):
    """An entry of such a list."""

    @property
    def reason(self) -> str:
        """Why it stays."""


Entry = TypeVar("Entry", bound=Reasoned)


def read_reasoned(path: Path, table: str, entry: Callable[..., Entry]) -> list[Entry]:
    """The entries of a TOML file's array `table`, each built from its keys; raises BadEntry."""
    entries = []
    for row in tomllib.loads(path.read_text()).get(table, []):
        try:
            each = entry(**row)
        except TypeError as error:
            raise BadEntry(f"{row}: {error}") from error
        if len(each.reason.split()) < MIN_REASON_WORDS:
            raise BadEntry(
                f"{row}: {each.reason!r} is no reason; allowed: a sentence of {MIN_REASON_WORDS}"
                " words or more"
            )
        entries.append(each)
    return entries
