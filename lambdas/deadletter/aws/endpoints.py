"""The endpoint registry in DynamoDB: the URL of each tenant's endpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, condition_failed
from deadletter.aws.table import changes, plain
from deadletter.contract import ENDPOINTS
from deadletter.message.letter import utf8
from deadletter.webhook.endpoint import Endpoint, RegistryUnavailable, read_row

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

REMEMBERED = 5.0
"""Seconds that a row is used: a batch to one endpoint reads it once, and edits apply soon."""

# Bytes that DynamoDB accepts as a partition key and as a sort key.
_LONGEST_TENANT, _LONGEST_ENDPOINT = 2048, 1024

# Rows in the cache; beyond that it is emptied.
_MOST_ROWS = 1000


class DynamoDBEndpoints:
    """The registry's table, keyed by `tenant` and `endpoint`. `clock` returns epoch seconds.

    Threads may share it.
    """

    def __init__(self, client: DynamoDBClient, table: str, clock: Callable[[], float]) -> None:
        self._client: Any = client
        self._table = table
        self._clock = clock
        self._rows: dict[tuple[str, str], tuple[Endpoint, float]] = {}
        self._lock = Lock()

    def find(self, tenant: str, endpoint: str) -> Endpoint | None:
        if not 0 < len(utf8(tenant)) <= _LONGEST_TENANT:
            return None
        if not 0 < len(utf8(endpoint)) <= _LONGEST_ENDPOINT:
            return None
        now = self._clock()
        cached = self._rows.get((tenant, endpoint))
        if cached is not None and now < cached[1]:
            return cached[0]
        try:
            answer = self._client.get_item(TableName=self._table, Key=_key(tenant, endpoint))
        except AWS_ERRORS as error:
            raise RegistryUnavailable(code(error)) from error
        if "Item" not in answer:
            return None
        row = read_row(plain(answer["Item"]))
        with self._lock:
            # Another thread may have changed the row since it was read.
            if self._rows.get((tenant, endpoint)) is cached:
                self._remember(row, now + REMEMBERED)
        return row

    def disable(self, endpoint: Endpoint, because: str, at: float) -> bool:
        # Only if the URL is unchanged: a new URL was registered, and was not refused.
        return self._write(
            replace(endpoint, enabled=False, disabled_because=because),
            {"enabled": False, "disabled_because": because, "disabled_at": int(at)},
            "#url = :url AND (attribute_not_exists(enabled) OR enabled = :on)",
            {":on": True},
        )

    def throttle(self, endpoint: Endpoint, until: float, status: int, at: float) -> bool:
        # Of many workers that get the same answer, one writes. The others would lengthen the
        # pause by a few seconds at most.
        return self._write(
            replace(endpoint, throttled_until=until, throttled_by=status),
            {"throttled_until": int(until), "throttled_by": status},
            "#url = :url AND (attribute_not_exists(throttled_until) OR throttled_until <= :now)",
            {":now": int(at)},
        )

    def _write(
        self, after: Endpoint, sets: dict[str, Any], condition: str, values: dict[str, Any]
    ) -> bool:
        """Change the row if it meets the condition, and update or drop the cached row."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key=_key(after.tenant, after.endpoint),
                **changes(sets, condition=condition, values={":url": after.url, **values}),
            )
        except AWS_ERRORS as error:
            if not condition_failed(error):
                raise RegistryUnavailable(code(error)) from error
            with self._lock:
                self._rows.pop((after.tenant, after.endpoint), None)
            return False
        with self._lock:
            self._remember(after, self._clock() + REMEMBERED)
        return True

    def _remember(self, endpoint: Endpoint, until: float) -> None:
        if len(self._rows) >= _MOST_ROWS:
            self._rows.clear()
        self._rows[endpoint.tenant, endpoint.endpoint] = endpoint, until


def _key(tenant: str, endpoint: str) -> dict[str, Any]:
    return {ENDPOINTS.partition: {"S": tenant}, ENDPOINTS.sort: {"S": endpoint}}
