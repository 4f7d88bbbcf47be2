"""Rows that cannot be read: each is noted by its name, left as it is, and stops nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a row raises that is not as we write it."""

MOST_NAMED = 20
"""Rows that are remembered by name at once; of more, the first ones say enough."""

NoteRow = Callable[[str], None]
"""Is told the name of a row that cannot be read."""


def row_name(table: str, partition: object, sort: object) -> str:
    """A row as a person finds it: its table, partition and sort key, with spaces between."""
    return f"{table} {partition} {sort}"


class BadRows:
    """The names of rows that a process could not read and has not told. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, None] = {}

    def note(self, name: str) -> None:
        with self._lock:
            if len(self._names) < MOST_NAMED:
                self._names[name] = None

    def take(self) -> tuple[str, ...]:
        """The names since the last call, each once."""
        with self._lock:
            names, self._names = tuple(self._names), {}
        return names
