"""The rows that production code writes, one example for each attribute of each kind of row.

Nothing here lists a row's attributes: a table in memory is watched while the real functions run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from deadletter import aws
from deadletter.contract import CAUSES_ROW, COLLISIONS_ROW, WATCH_ROW, Partition
from deadletter.testing.fakes.dynamodb_table import FakeTable
from tests.tables import CIRCUITS, LETTERS, RULES

Item = Mapping[str, Any]

ENDPOINTS, AUDIT = "endpoints", "audit"

KEYS: Mapping[str, tuple[str, str]] = {
    LETTERS: ("pk", "sk"),
    CIRCUITS: ("pipeline", "circuit_key"),
    RULES: ("pipeline", "rule_id"),
    ENDPOINTS: ("tenant", "endpoint"),
    AUDIT: ("pk", "sk"),
}

ADAPTERS = Path(aws.__file__).parent
"""Where everything is that knows AWS."""

_NUMBER = re.compile(r"\d+")


class UnknownKind(Exception):
    """A row of a kind that nothing here has a name for."""


@dataclass(frozen=True, slots=True)
class Example:
    """A row as it was written, and the table it lies in."""

    table: str
    item: Item

    @property
    def key(self) -> dict[str, Any]:
        return {name: self.item[name] for name in KEYS[self.table]}

    @property
    def name(self) -> str:
        """The row as a person reads it: table, partition and sort key."""
        return " ".join((self.table, *(str(value["S"]) for value in self.key.values())))


@dataclass
class Recorded:
    """Examples by kind of row, and in each kind by attribute: the last row that had it.

    `writers` are the functions of the adapters that were at work, as module and name.
    """

    kinds: dict[str, dict[str, Example]] = field(default_factory=dict)
    writers: set[tuple[str, str]] = field(default_factory=set)

    def note(self, table: str, item: Item) -> None:
        by_attribute = self.kinds.setdefault(kind_of(table, item), {})
        for name in item:
            if name not in KEYS[table]:
                by_attribute[plain_name(name)] = Example(table, dict(item))


def plain_name(attribute: str) -> str:
    """An attribute's name without the numbers that tell buckets, slots and minutes apart."""
    return _NUMBER.sub("N", attribute)


def kind_of(table: str, item: Item) -> str:
    """The kind of a row, as contract.py tells kinds apart: by its key.

    Waiting letters are told apart by what they wait for too: each lane has readers of its own.
    """
    partition, sort = (str(item[name]["S"]) for name in KEYS[table])
    if table == LETTERS:
        kind = _letters_kind(partition, sort)
        lane = item.get("lane", {}).get("S", "").partition("|")[2]
        return f"{kind} in {re.split('[:|]', lane)[0]}" if lane else kind
    if table == CIRCUITS:
        return {CAUSES_ROW: "causes", COLLISIONS_ROW: "collisions"}.get(sort, "circuit")
    if table in (RULES, ENDPOINTS):
        return table
    if table == AUDIT:
        return "audit"
    raise UnknownKind(f"{table} {partition} {sort}")


def _letters_kind(partition: str, sort: str) -> str:
    _, word, *ids = partition.split("#")
    kind = Partition(word)
    if kind is Partition.RUN:
        return f"run {_part_of_run(ids[-1], sort)}"
    if kind is Partition.LEASE:
        return "watch" if sort == WATCH_ROW else "lease shard" if "~" in sort else "lease"
    return str(kind)


def _part_of_run(part: str, sort: str) -> str:
    if part.isdecimal():
        return "ticket"
    if part not in ("plan", "discard", "approval", "status", "restored"):
        raise UnknownKind(f"run {part}")
    return f"{part} counted" if sort.startswith("counted#") else part


def _callers() -> Iterator[tuple[str, str]]:
    """The functions of the adapters that are under way."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.parent == ADAPTERS:
            yield path.stem, frame.f_code.co_name
        frame = frame.f_back


@contextmanager
def recording(into: Recorded) -> Iterator[None]:
    """Note every row that is written into a table in memory meanwhile."""
    write = FakeTable.write

    def noted(table: FakeTable, primary: Any, row: Any) -> Any:
        if row is not None:
            into.note(table.name, row.item)
            into.writers.update(_callers())
        return write(table, primary, row)

    with patch.object(FakeTable, "write", noted):
        yield
