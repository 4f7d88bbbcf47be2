"""The ledger in DynamoDB: one row a letter, by its origin id."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from deadletter import stamp as stamps
from deadletter.aws.answers import AWS_ERRORS
from deadletter.aws.table import SORT, Key, StillUnprocessed, Table
from deadletter.ledger import LedgerUnavailable, RecordsUnavailable, Row, row_from_item
from deadletter.stamp import Stamp

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ERRORS = (*AWS_ERRORS, StillUnprocessed)
_ROW = "ledger"


class DynamoDBLedger:
    """The rows of one pipeline, read consistently; `keep_seconds` is how long a new one stays."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        pipeline: str,
        clock: Callable[[], float],
        keep_seconds: float,
    ) -> None:
        self._table = Table(client, table)
        self._pipeline = pipeline
        self._clock = clock
        self._keep_seconds = keep_seconds

    def rows(self, origins: Sequence[str]) -> Mapping[str, Row]:
        keys = {self._key(origin): origin for origin in origins}
        return {keys[key]: row_from_item(item) for key, item in self._get(list(keys)).items()}

    def matches(self, rules: Sequence[str]) -> Mapping[str, int]:
        found = self._get([self._matches_key(rule) for rule in rules])
        return {item[SORT]: _count(item.get("matches", 0)) for item in found.values()}

    def keep_stamps(self, stamps_by_id: Mapping[str, Stamp]) -> None:
        expires = int(self._clock() + self._keep_seconds)
        for message_id, mark in stamps_by_id.items():
            # The consumer may have written a failure into this row already: add to it.
            self._update(
                self._key(message_id),
                "SET stamp = :stamp, #ttl = :ttl",
                {":stamp": stamps.attribute(mark).value, ":ttl": expires},
                ExpressionAttributeNames={"#ttl": "ttl"},
            )

    def count_matches(self, matches: Mapping[str, int]) -> None:
        for rule, number in matches.items():
            self._update(self._matches_key(rule), "ADD matches :n", {":n": number})

    def _get(self, keys: Sequence[Key]) -> dict[Key, dict[str, Any]]:
        try:
            return self._table.get_many(keys)
        except _ERRORS as error:
            raise LedgerUnavailable("the ledger gave no answer") from error

    def _update(self, key: Key, expression: str, values: Mapping[str, Any], **options: Any) -> None:
        try:
            self._table.update(key, expression, values, **options)
        except _ERRORS as error:
            raise RecordsUnavailable from error

    def _key(self, origin: str) -> Key:
        return (f"{self._pipeline}#ledger#{origin}", _ROW)

    def _matches_key(self, rule: str) -> Key:
        return (f"{self._pipeline}#matches", rule)


def _count(value: Any) -> int:
    """How often a rule has matched; a count that is none is taken for the limit, whatever it is."""
    return int(value) if isinstance(value, int | Decimal) else sys.maxsize
