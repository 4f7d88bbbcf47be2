"""The status of a replay run's letters in DynamoDB: one row for each part of the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import MALFORMED, Conflict, ours, row_name
from deadletter.aws.table import PARTITION, SORT, Key, absent, begins, equals
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.replay.progress import DIGITS, PartStatus, StatusUnavailable, merged
from deadletter.replay.run import bad_run_row
from deadletter.replay.ticket import ReplayOutcome

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_MOST_CONFLICTS = 5
"""Tries to write a row that another process writes at the same time."""

_DIGITS = frozenset(DIGITS)
_TEXTS = ("outcomes", "returns", "late")
"""The attributes of a row with a character for each letter."""

_OUTCOMES = frozenset(ReplayOutcome)


class DynamoDBStatuses:
    """The rows of one run. The sort key is `<shard>#<part in six digits>`."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        *,
        pipeline: str,
        run: str,
        clock: Callable[[], float],
    ) -> None:
        self._table = DynamoDBTable(client, table)
        self._partition = Partition.RUN.of(pipeline, run, "status")
        self._clock = clock

    def read(self, shard: int) -> Mapping[int, PartStatus]:
        with ours(StatusUnavailable):
            items = self._table.query(self._partition, begins(SORT, f"{shard}#"))
        return dict(map(self._part, items))

    def _part(self, item: Mapping[str, Any]) -> tuple[int, PartStatus]:
        """The number of a row's part, and its status. Raises BadRunRow."""
        try:
            outcomes, returns = item["outcomes"], item["returns"]
            status = PartStatus(outcomes, returns, item.get("late", ""))
            is_known = _OUTCOMES.issuperset(outcomes) and _DIGITS.issuperset(
                f"{returns}{status.late}"
            )
            if not is_known or int(item["v"]) < 1:
                raise ValueError("no outcomes of messages")
            return int(item[SORT].rpartition("#")[2]), status
        except MALFORMED as error:
            name = row_name(self._table.name, self._partition, item[SORT])
            raise bad_run_row(name) from error

    def write(self, shard: int, parts: Mapping[int, PartStatus]) -> None:
        for part, status in parts.items():
            with ours(StatusUnavailable):
                self._write((self._partition, f"{shard}#{part:06d}"), status)

    def _write(self, key: Key, status: PartStatus) -> None:
        #  row v4 ──a reads 4, writes 5──► 5
        #           └─ b has read 4 too: its write is refused, it reads 5 and merges again
        for _ in range(_MOST_CONFLICTS):
            row = self._table.get_many([key]).get(key, {})
            stored = self._part(row)[1] if row else PartStatus()
            version, after = int(row.get("v", 0)), merged(stored, status)
            if row and after == stored:
                return
            try:
                self._table.put(
                    {
                        PARTITION: key[0],
                        SORT: key[1],
                        **{name: getattr(after, name) for name in _TEXTS},
                        "v": version + 1,
                        "ttl": int(self._clock() + ROWS_KEPT),
                    },
                    equals("v", version) if version else absent("v"),
                )
            except Conflict:
                continue
            return
        raise StatusUnavailable("a status row of the run changes too often at once")
