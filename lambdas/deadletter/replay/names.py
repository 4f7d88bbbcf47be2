"""The names of a run's letters in its snapshot, and of those that a person has counted."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deadletter.redrive.journal import KEY_BYTES, key_of
from deadletter.routing.ordering import key_hash as key_hash
from deadletter.routing.ordering import shard_of_hash

PART = 500
"""Lines of one part of a manifest: the status of a part is one small row."""

SortKey = tuple[int, str, str, int, str]


class NotAName(ValueError):
    """The text is not a name that `to_line` wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """One letter of a replay run: enough to find it in the waiting room and to order it.

    place       partition and sort key of its item in the waiting room
    key         `key_hash` of its ordering key; of its origin if it has none
    sequence    its place within the key: texts compare as Python compares them
    attempt     its attempts before the run
    size        bytes as SQS counts them
    first_sent  epoch milliseconds
    """

    copy: str
    origin: str
    place: tuple[str, str]
    key: str
    sequence: str = ""
    tenant: str = ""
    cause: str = ""
    category: str = ""
    attempt: int = 0
    size: int = 0
    first_sent: int = 0

    @property
    def shard(self) -> int:
        """The shard of the manifest, and of the run's lane, that it belongs to."""
        return shard_of_hash(self.key)

    @property
    def is_ordered(self) -> bool:
        """Whether it has an ordering key: letters with the same key go one after the other."""
        return self.key != key_hash(self.origin)

    @property
    def sort_key(self) -> SortKey:
        """The order of the manifest: by shard and key, and within a key by sequence."""
        return (self.shard, self.key, self.sequence, self.first_sent, self.copy)

    def to_line(self) -> str:
        """One line of JSON without its end; `from_line` is the inverse.

        ASCII alone: bytes and characters are the same for readers of a part of an object.
        """
        data = {short: getattr(self, field) for field, short in _OF_LINE.items()}
        return json.dumps(data, separators=(",", ":"))


_OF_LINE = {
    "copy": "c",
    "origin": "o",
    "place": "p",
    "key": "y",
    "sequence": "q",
    "tenant": "t",
    "cause": "f",
    "category": "g",
    "attempt": "a",
    "size": "b",
    "first_sent": "e",
}
"""What the fields of a name are called in its line: a manifest has as many as messages."""


def from_line(line: str | bytes) -> Name:
    """The name in a line. Raises NotAName."""
    try:
        data: Any = json.loads(line)
    except ValueError as error:
        raise NotAName("this line of a page or a manifest is no name of a message") from error
    return from_data(data)


def from_data(data: Any) -> Name:
    """The name in the decoded JSON of a line. Raises NotAName."""
    try:
        fields = {field: data[short] for field, short in _OF_LINE.items()}
        partition, sort = fields["place"]
        name = Name(**{**fields, "place": (partition, sort)})
        # A key that is no hash has no shard.
        shard_of_hash(name.key)
    except (ValueError, KeyError, TypeError) as error:
        raise NotAName("this line of a page or a manifest is no name of a message") from error
    return name


def to_lines(names: Iterable[Name]) -> bytes:
    """The names as lines in the order of the manifest."""
    ordered = sorted(names, key=lambda name: name.sort_key)
    return "".join(f"{name.to_line()}\n" for name in ordered).encode()


def from_lines(lines: bytes) -> Sequence[Name]:
    """The names in the lines of an object. Raises NotAName."""
    return tuple(map(from_line, lines.splitlines()))


class CountedOrigins:
    """The origins that a plan has counted, at 16 bytes each in memory.

    `rows` are the stored ones in their order. Raises ValueError if a row is cut off.
    """

    def __init__(self, rows: Sequence[bytes]) -> None:
        self._rows = [row for row in rows if row]
        if any(len(row) % KEY_BYTES for row in self._rows):
            raise ValueError("a row of counted messages is cut off")
        self._first = [row[:KEY_BYTES] for row in self._rows]

    def __contains__(self, origin: str) -> bool:
        key = key_of(origin)
        number = bisect_right(self._first, key) - 1
        if number < 0:
            return False
        keys = _Keys(self._rows[number])
        place = bisect_left(keys, key)
        return place < len(keys) and keys[place] == key

    def __len__(self) -> int:
        return sum(map(len, self._rows)) // KEY_BYTES


class _Keys(Sequence[bytes]):
    """The keys of one row."""

    def __init__(self, row: bytes) -> None:
        self._row = row

    def __len__(self) -> int:
        return len(self._row) // KEY_BYTES

    def __getitem__(self, place: int) -> bytes:  # type: ignore[override]  # bisect needs no slice
        return self._row[place * KEY_BYTES : (place + 1) * KEY_BYTES]
