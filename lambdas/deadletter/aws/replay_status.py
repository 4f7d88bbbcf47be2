"""The status of a replay run's letters in DynamoDB: one row for each part of the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from deadletter.aws.errors import AWS_ERRORS, StillUnprocessed, refusal
from deadletter.aws.table import PARTITION, SORT, DynamoDBTable
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.replay.progress import PartStatus, StatusUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ERRORS = (*AWS_ERRORS, StillUnprocessed)


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
        try:
            items = self._table.query(
                f"{PARTITION} = :p AND begins_with({SORT}, :shard)",
                {":p": self._partition, ":shard": f"{shard}#"},
                ConsistentRead=True,
            )
            return {
                int(item[SORT].rpartition("#")[2]): PartStatus(
                    str(item["outcomes"]), str(item["returns"])
                )
                for item in items
            }
        except (KeyError, ValueError) as error:
            raise StatusUnavailable("a status row of the run is malformed") from error
        except _ERRORS as error:
            raise self._unavailable(error) from error

    def write(self, shard: int, parts: Mapping[int, PartStatus]) -> None:
        expires = int(self._clock() + ROWS_KEPT)
        rows = [
            {
                PARTITION: self._partition,
                SORT: f"{shard}#{part:06d}",
                "outcomes": status.outcomes,
                "returns": status.returns,
                "ttl": expires,
            }
            for part, status in parts.items()
        ]
        try:
            self._table.write_many(puts=rows)
        except _ERRORS as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> StatusUnavailable:
        return StatusUnavailable(refusal(error, "dynamodb", self._table.name))
