"""Rows of our tables that cannot be read: which they are, and what repairs each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import CIRCUITS, LETTERS, Partition, Table

from .words import duration, moment

if TYPE_CHECKING:
    from .app import App
    from .watched import Memories


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read. It keeps its own letter, lane, circuit or run, and no other."""

    row: Annotated[str, "its table, partition and sort key"]
    seen: Annotated[datetime | None, "when it was last met; null if it was read just now"]
    repair: Annotated[str, "the command that repairs it; where none can, the one that shows it"]


def bad_rows(app: App, pipeline: str, met: Mapping[str, float]) -> Sequence[BadRow]:
    """The rows by name, with when they were last met (epoch seconds; 0 for just now)."""
    return tuple(
        BadRow(row, moment(at) if at else None, repair(app, pipeline, row))
        for row, at in sorted(met.items())
    )


def met_by_runs(memories: Memories | None) -> Mapping[str, float]:
    """The rows that runs of a pipeline have met, and when they last did."""
    met: dict[str, float] = {}
    for memory in () if memories is None else memories.by_source.values():
        for row, at in memory.bad_rows.items():
            met[row] = max(at, met.get(row, at))
    return met


def repair(app: App, pipeline: str, row: str) -> str:
    """What to type about a row."""
    table, partition, sort = (*row.split(" ", 2), "", "")[:3]
    if table == app.circuits_table and not sort.startswith("#"):
        key = "" if sort == pipeline else f"{quote(sort)} "
        return f"dlq circuit auto {key}--pipeline {pipeline}"
    if partition == Partition.LEASE.of(pipeline):
        return f"dlq redrive now --pipeline {pipeline}"
    names: Table = CIRCUITS if table == app.circuits_table else LETTERS
    return _shown(table, {names.partition: partition, names.sort: sort})


def _shown(table: str, key: Mapping[str, str]) -> str:
    typed = json.dumps({name: {"S": value} for name, value in key.items()})
    return f"aws dynamodb get-item --table-name {table} --key {quote(typed)}"


def bad_row_says(bad: BadRow, now: datetime) -> str:
    """A sentence about a row."""
    met = f", {duration((now - bad.seen).total_seconds())} ago" if bad.seen else ""
    return f"a row cannot be read{met}: {bad.row}; it keeps nothing but its own"
