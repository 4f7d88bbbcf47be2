"""The lease on a source in DynamoDB: one item, acquired and given back by conditional writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, condition_failed
from deadletter.aws.table import DynamoDBTable, Key, conflicting_item, plain, stored_number
from deadletter.contract import Partition
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.report import Report
from deadletter.redrive.token_bucket import TokenBucket

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def read_last_run(
    client: DynamoDBClient, table: str, pipeline: str, home: str
) -> Mapping[str, Any] | None:
    """The report of a source's last run that had work, with its end `at` in epoch seconds.

    None if no run is recorded. Numbers are Decimal. Raises LeaseUnavailable.
    """
    try:
        item = DynamoDBTable(client, table).get(_key(pipeline, home)) or {}
    except AWS_ERRORS as error:
        raise LeaseUnavailable from error
    report = item.get("last_run")
    return report if isinstance(report, dict) else None


class DynamoDBLease:
    """The lease of one source of a pipeline, and the tokens that its last run left.

    `rate` is in letters per second, `burst` in letters.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        pipeline: str,
        home: str,
        rate: float,
        burst: float,
    ) -> None:
        self._table = DynamoDBTable(client, table)
        self._key = _key(pipeline, home)
        self._rate = rate
        self._burst = burst

    def acquire(self, owner: str, now: float, until: float) -> TokenBucket | None:
        try:
            answer = self._table.change(
                self._key,
                {"own": owner, "until": stored_number(until)},
                condition="attribute_not_exists(#until) OR #until <= :now",
                values={":now": stored_number(now)},
                ReturnValues="ALL_OLD",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except AWS_ERRORS as error:
            item = conflicting_item(error)
            if item is None:
                raise LeaseUnavailable from error
            # The holder may be ourselves, by a first try whose answer was lost.
            return self._bucket(item, now) if item.get("own") == owner else None
        return self._bucket(plain(answer.get("Attributes", {})), now)

    def give_back(self, owner: str, bucket: TokenBucket, report: Report, now: float) -> None:
        try:
            self._table.change(
                self._key,
                {
                    "until": 0,
                    "tokens": stored_number(bucket.tokens),
                    "at": stored_number(bucket.at),
                    "last_run": {**report.to_json(), "at": int(now)},
                },
                condition="own = :own",
                values={":own": owner},
            )
        except AWS_ERRORS as error:
            if not condition_failed(error):
                raise LeaseUnavailable from error

    def _bucket(self, item: Mapping[str, Any], now: float) -> TokenBucket:
        tokens = min(float(item.get("tokens", self._burst)), self._burst)
        return TokenBucket(self._rate, self._burst, tokens, float(item.get("at", now)))


def _key(pipeline: str, home: str) -> Key:
    return (Partition.LEASE.of(pipeline), home)
