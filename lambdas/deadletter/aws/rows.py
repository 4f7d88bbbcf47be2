"""What a row says, and whose it is: an enemy may write any, and an index shows all of a key.

A decoder raises for a row that is not as we write it. Nothing of that leaves an adapter: `decoded`
makes it `Broken`, a value with the name of the row. Such a row is noted by its name, left as it is,
and stops nothing else.

Who may write one row of the messages table can give it any attribute that a policy lets it, and so
put it into any lane or under any cause. Readers rebuild the key from the one partition kind that
such rows have, ignore the others, and count them as `ForeignRow`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Generic, TypeVar

from deadletter.aws.dynamodb import MANY
from deadletter.aws.errors import row_name
from deadletter.aws.table import PARTITION, SORT, Key
from deadletter.contract import EDITED, END_OF_TIME, Partition, body_object

T = TypeVar("T")
D = TypeVar("D")

_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a row raises that is not as we write it."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A row that is not as we write it; `name` is how a person finds it."""

    name: str


def readable(
    decode: Callable[[Mapping[str, Any]], T], row: Mapping[str, Any], otherwise: D
) -> T | D:
    """What a decoder reads in a row; `otherwise` if it raises because the row is malformed."""
    try:
        return decode(row)
    except _MALFORMED:
        return otherwise


def decoded(
    decode: Callable[[Mapping[str, Any]], T], row: Mapping[str, Any], table: str
) -> T | Broken:
    """What a decoder reads in a row of the messages table, given as plain data."""
    return readable(decode, row, Broken(row_name(table, row.get(PARTITION), row.get(SORT))))


def time_of(value: Any) -> float:
    """A time, a rate or seconds; ValueError for what none of them can be."""
    is_number = isinstance(value, Decimal | int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < END_OF_TIME:
        raise ValueError("a number, 0 or more, that a clock may show")
    return float(value)


def count_of(value: Any) -> int:
    """A count; ValueError for what none can be, or DynamoDB could not store the next one of."""
    is_number = isinstance(value, Decimal | int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < MANY or value != int(value):
        raise ValueError("a whole number, 0 or more, that can be counted")
    return int(value)


def text_of(value: Any) -> str:
    """A text; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError("a text")
    return value


_OF_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "float": time_of,
    "int": count_of,
    "str": text_of,
}
"""What reads a field of a dataclass, by its type."""


def part_of(kind: Callable[..., T], data: Any, /, **known: Any) -> T:
    """A dataclass whose numbers and texts are in a row, or in a map of it, by its fields' names.

    `known` are its other fields. What may be None, or has a default, may be missing; nothing else
    may be null. Raises what `readable` and `decoded` make a value of.
    """
    of: Any = kind
    for field in fields(of):
        of_type = str(field.type)
        may_be_none = of_type.endswith(" | None")
        read = _OF_FIELDS.get(of_type.removesuffix(" | None"))
        if read is None or field.name in known:
            continue
        if may_be_none and data.get(field.name) is None:
            known[field.name] = None
        elif field.name in data:
            known[field.name] = read(data[field.name])
    return kind(**known)


def whole(row: T | Broken, error: Callable[[str], Exception]) -> T:
    """What a row says. Raises the `error` about its name for who can't go on without it."""
    if isinstance(row, Broken):
        raise error(row.name)
    return row


NO_GROUP = "message"
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

MOST_BROKEN = 20
"""Rows that are remembered by name at once; of more, the first ones say enough."""


class MetRows(Generic[T]):
    """Rows that readers have met, by their keys or names; `note` is told each of them once.

    Beyond `most` they are ignored without a count. Threads may share it.
    """

    def __init__(
        self, note: Callable[[T], None] = lambda row: None, most: int = MOST_NAMED
    ) -> None:
        self._note = note
        self._most = most
        self._lock = threading.Lock()
        self._rows: list[T] = []

    @property
    def rows(self) -> tuple[T, ...]:
        """Them, in the order in which they were met."""
        with self._lock:
            return tuple(self._rows)

    def add(self, row: T) -> None:
        with self._lock:
            if row in self._rows or len(self._rows) == self._most:
                return
            self._rows.append(row)
        self._note(row)

    def take(self) -> tuple[T, ...]:
        """Those since the last call."""
        with self._lock:
            rows, self._rows = tuple(self._rows), []
        return rows
