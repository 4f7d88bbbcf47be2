"""The letters that a person has counted: sixteen bytes for each origin, sorted, in rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from deadletter.redrive.journal import KEY_BYTES, key_of


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
