"""Tells a pipeline's own rows from foreign ones: an index shows all rows that name its key.

Who may write one row of the letters table can give it any attribute that a policy lets it, and so
put it into any lane or under any cause. Readers rebuild the key from the one partition kind that
such rows have, ignore the others, and count them as `ForeignRow`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from deadletter.aws.table import PARTITION, SORT, Key
from deadletter.contract import EDITED, Partition, body_object

NO_GROUP = "letter"
"""Sort key of a waiting letter's row without a FIFO group."""

FAILURES = "ledger"
"""Sort key of a letter's row in the ledger."""

# `<home>#<hash of the group>`, and `<place in the queue>#<copy id>`.
_OF_GROUP = re.compile(r"[^#]+#[0-9a-f]{32}")
_IN_GROUP = re.compile(r"\d{32,}#([^#]+)")


def key_of_row(row: Mapping[str, Any]) -> Key:
    """The key of a row, given as plain data."""
    return (str(row[PARTITION]), str(row[SORT]))


def waiting_copy(pipeline: str, key: Key) -> str | None:
    """The copy that a waiting letter's row is for; None if the key is of another kind of row."""
    partition, sort = key
    if sort == NO_GROUP:
        copy = partition.removeprefix(Partition.LETTER.of(pipeline, ""))
        is_own = copy and "#" not in copy and partition == Partition.LETTER.of(pipeline, copy)
        return copy if is_own else None
    place = _IN_GROUP.fullmatch(sort)
    group = partition.removeprefix(Partition.GROUP.of(pipeline, ""))
    is_own = group != partition and _OF_GROUP.fullmatch(group) is not None
    return place[1] if place is not None and is_own else None


def is_own_letter(pipeline: str, row: Mapping[str, Any]) -> bool:
    """Whether a row is a waiting letter's, and names the objects of no other one."""
    copy = waiting_copy(pipeline, key_of_row(row))
    if copy is None or row.get("copy") != copy:
        return False
    body = body_object(pipeline, copy)
    edited = str(row.get("edit_object", f"{body}.0{EDITED}"))
    made_at = edited.removeprefix(f"{body}.").removesuffix(EDITED)
    return (
        row.get("object", body) == body
        and f"{body}.{made_at}{EDITED}" == edited
        and made_at.isdigit()
    )


def failing_origin(pipeline: str, key: Key) -> str | None:
    """The letter that a row of the ledger is about; None if the key is of another kind of row."""
    partition, sort = key
    origin = partition.removeprefix(Partition.LEDGER.of(pipeline, ""))
    return origin if origin not in ("", partition) and sort == FAILURES else None


MOST_NAMED = 100
"""Foreign rows that a reader keeps in mind: one who can write a row can write a million."""


class ForeignRows:
    """The keys of foreign rows that a reader has met; `note` is told each of them once.

    Beyond MOST_NAMED they are ignored without a count.
    """

    def __init__(self, note: Callable[[Key], None] = lambda key: None) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._keys: list[Key] = []

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys, in the order in which they were met."""
        with self._lock:
            return tuple(self._keys)

    def add(self, key: Key) -> None:
        """Add a key; readers in several threads may meet the same row."""
        with self._lock:
            if key in self._keys or len(self._keys) == MOST_NAMED:
                return
            self._keys.append(key)
        self._note(key)
