"""The index of causes in DynamoDB, for reading: the letters that fail now, by their cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deadletter.aws.dynamodb import PipelineRows
from deadletter.aws.errors import ours
from deadletter.aws.rows import FAILURES, MetRows, failing_origin, key_of_row
from deadletter.aws.table import PARTITION, SORT, Condition, Key, above, begins, equals
from deadletter.contract import CAUSES, Partition, cause_partition
from deadletter.failure.cause_index import CauseEntry, entry_from_item, shard_of
from deadletter.failure.ledger import LedgerUnavailable, row_from_item


@dataclass(frozen=True, slots=True)
class CausePage:
    """Entries in the order of their fingerprints; malformed and foreign ones are left out.

    `read` is the number of rows, `last` the key of the last one (None at the end of the shard)
    and `last_fingerprint` its sort key as it is stored.
    """

    entries: Sequence[CauseEntry]
    read: int
    last: Mapping[str, Any] | None = None

    @property
    def last_fingerprint(self) -> str:
        return "" if self.last is None else str(self.last[str(CAUSES.sort)])


@dataclass(eq=False, repr=False)
class DynamoDBCauseEntries(PipelineRows):
    """The entries of one pipeline, a page of a shard at a time. Raises LedgerUnavailable.

    `foreign` are the rows in there that are no rows of its ledger: `note_foreign` is told each of
    them once.
    """

    note_foreign: Callable[[Key], None] = lambda key: None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.foreign = MetRows(self.note_foreign)

    def page(
        self,
        shard: int,
        most: int,
        names: Sequence[str],
        *,
        after: Mapping[str, Any] | None = None,
        beyond: str = "",
        of: str = "",
    ) -> CausePage:
        """At most so many entries of a shard, with the attributes `names` beside keys and times.

        Those after a key, of one stored fingerprint (`of`), or of the fingerprints `beyond` it.
        """
        by, sort = str(CAUSES.sort), None
        if beyond or of:
            sort = equals(by, of) if of else above(by, beyond)
        asked = {"only": _shown(names), "after": after}
        rows, last = self._rows(shard, sort, limit=most, **asked)
        own = [row for row in rows if self._is_own(row, shard)]
        if len(own) < len(rows):
            # However many foreign rows there are, letters behind them are found.
            rows, last = self._rows(shard, sort, keep=self._of_ledger, **asked)
            own = [row for row in rows if self._is_own(row, shard)]
            if len(own) > most:
                own = own[:most]
                keys = (PARTITION, SORT, str(CAUSES.sort))
                of_last = {name: own[-1][name] for name in keys}
                last = {**of_last, CAUSES.partition: cause_partition(self.pipeline, shard)}
        entries = [entry for row in own if (entry := entry_from_item(row)) is not None]
        return CausePage(entries, len(own), last)

    def find_foreign(self, shard: int) -> None:
        """Note foreign rows of a shard: those among as many as one answer reads, up to 1 MB."""
        rows, _ = self._rows(shard, keep=~self._of_ledger, only=_shown(()))
        for row in rows:
            self._is_own(row, shard)

    @property
    def _of_ledger(self) -> Condition:
        """The condition that the key of a row begins as in the pipeline's ledger."""
        return begins(PARTITION, Partition.LEDGER.of(self.pipeline, ""))

    def _rows(
        self, shard: int, sort: Condition | None = None, **asked: Any
    ) -> tuple[list[dict[str, Any]], Mapping[str, Any] | None]:
        """The rows of one answer, and the key of the last one if others follow."""
        partition = cause_partition(self.pipeline, shard)
        with ours(LedgerUnavailable):
            return self._table.page(partition, sort, index=CAUSES, **asked)

    def _is_own(self, row: Mapping[str, Any], shard: int) -> bool:
        """Whether a row is of the pipeline's ledger and in its own shard; notes another."""
        key = key_of_row(row)
        origin = failing_origin(self.pipeline, key)
        is_own = origin is not None and shard_of(origin) == shard
        if not is_own:
            self.foreign.add(key)
        return is_own

    def whole(self, origins: Sequence[str]) -> Mapping[str, CauseEntry]:
        """The entries of these letters with all that their rows keep, by their origins.

        DynamoDB reads a row as a whole, whatever is asked of it: the failures cost nothing more.
        """
        keys = [(Partition.LEDGER.of(self.pipeline, origin), FAILURES) for origin in origins]
        with ours(LedgerUnavailable):
            items = self._table.get_many(keys)
        return {
            entry.origin: replace(entry, failures=row_from_item(item).failures)
            for item in items.values()
            if (entry := entry_from_item(item)) is not None
        }


def _shown(names: Sequence[str]) -> tuple[str, ...]:
    """The attributes that are asked for: these, and the keys and times."""
    return (*dict.fromkeys((PARTITION, SORT, str(CAUSES.sort), "seen", "first_at", *names)),)
