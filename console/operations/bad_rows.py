"""Rows of our tables that cannot be read: which they are, and what repairs each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from deadletter.contract import CIRCUITS, LETTERS, Partition, Table
from deadletter.signals.troubles import Fact, Seen, TroubleKind

from .words import duration

if TYPE_CHECKING:
    from .app import App
    from .watched import Memories


def met_by_runs(memories: Memories | None) -> Mapping[str, float]:
    """The rows that runs of a pipeline have met, and when they last did."""
    met: dict[str, float] = {}
    for memory in () if memories is None else memories.by_source.values():
        for row, at in memory.bad_rows.items():
            met[row] = max(at, met.get(row, at))
    return met


def bad_row(app: App, pipeline: str, row: str, met: float, now: datetime) -> Seen:
    """The trouble of a row, which was last met at `met` (epoch seconds; 0 for just now).

    It keeps its own letter, lane, circuit or run, and no other.
    """
    table, partition, sort = (*row.split(" ", 2), "", "")[:3]
    ago = duration(now.timestamp() - met) if met else ""
    facts: dict[str, Fact] = {"row": row, "ago": ago}
    if table == app.circuits_table and not sort.startswith("#"):
        return Seen(TroubleKind.BAD_CIRCUIT, facts | {"key": sort}, met)
    if partition == Partition.LEASE.of(pipeline):
        return Seen(TroubleKind.BAD_LEASE, facts, met)
    names: Table = CIRCUITS if table == app.circuits_table else LETTERS
    key = {names.partition: {"S": partition}, names.sort: {"S": sort}}
    return Seen(TroubleKind.BAD_ROW, facts | {"table": table, "item": json.dumps(key)}, met)
