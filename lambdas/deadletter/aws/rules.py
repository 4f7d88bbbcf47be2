"""The rules in DynamoDB, as on-call engineers edit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, refusal
from deadletter.aws.table import DynamoDBTable
from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.rulebook import RulesUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

REMEMBERED = 5.0
"""Seconds that rules are used before the table is read again."""


class DynamoDBRules:
    """The stored rules, read consistently, at most once in five seconds for each pipeline."""

    def __init__(self, client: DynamoDBClient, table: str, clock: Callable[[], float]) -> None:
        self._table = DynamoDBTable(client, table)
        self._clock = clock
        self._read: dict[str, tuple[float, Sequence[Mapping[str, Any]]]] = {}

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        now = self._clock()
        read_at, items = self._read.get(pipeline, (float("-inf"), ()))
        if not 0 <= now - read_at < REMEMBERED:
            items = self._query(pipeline)
            self._read[pipeline] = (now, items)
        return items

    def _query(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        try:
            return [
                item
                for key in (pipeline, EVERY_PIPELINE)
                for item in self._table.query("pipeline = :p", {":p": key}, ConsistentRead=True)
            ]
        except AWS_ERRORS as error:
            raise RulesUnavailable(refusal(error, "dynamodb", self._table.name)) from error
