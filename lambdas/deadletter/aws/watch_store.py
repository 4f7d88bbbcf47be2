"""The watch's row in DynamoDB, beside the lease items of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadletter.aws.dynamodb import PipelineRows
from deadletter.aws.errors import NoteRow, ignore, ours, row_name
from deadletter.aws.lease import is_bad_lease, memories_by_source
from deadletter.aws.table import SORT, stored_number
from deadletter.contract import WATCH_ROW, Partition
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.source_memory import SourceMemory
from deadletter.watch.row import WatchRow, row_from_json, row_to_json


@dataclass(eq=False, repr=False)
class DynamoDBWatchStore(PipelineRows):
    """The row of one pipeline's watch, in `state` as JSON; `ran_at` is beside it, for people."""

    note_bad_row: NoteRow = ignore

    @property
    def _partition(self) -> str:
        return Partition.LEASE.of(self.pipeline)

    def read(self) -> tuple[WatchRow | None, Mapping[str, SourceMemory]]:
        with ours(LeaseUnavailable):
            items = self._table.query(self._partition)
        by_source = {item[SORT]: item for item in items}
        bad = {source for source, item in by_source.items() if is_bad_lease(item)}
        watch = by_source.pop(WATCH_ROW, None)
        state = None if watch is None else watch.get("state")
        row = row_from_json(state) if isinstance(state, str) else None
        if watch is not None and row is None:
            bad.add(WATCH_ROW)
        for source in sorted(bad):
            self.note_bad_row(row_name(self._table.name, self._partition, source))
        return row, memories_by_source(by_source.values())

    def write(self, row: WatchRow) -> None:
        with ours(LeaseUnavailable):
            self._table.change(
                (self._partition, WATCH_ROW),
                {"state": row_to_json(row), "ran_at": stored_number(row.ran_at)},
            )
