"""The endpoint registry in DynamoDB: the URL of each tenant's endpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import Conflict, ours
from deadletter.aws.table import Condition, absent, at_most, equals
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
        self._table = DynamoDBTable(client, table, ENDPOINTS)
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
        with ours(RegistryUnavailable):
            item = self._table.get((tenant, endpoint), lagging=True)
        if item is None:
            return None
        row = read_row(item)
        with self._lock:
            # Another thread may have changed the row since it was read.
            if self._rows.get((tenant, endpoint)) is cached:
                self._remember(row, now + REMEMBERED)
        return row

    def disable(self, endpoint: Endpoint, because: str, at: float) -> bool:
        return self._write(
            replace(endpoint, enabled=False, disabled_because=because),
            {"enabled": False, "disabled_because": because, "disabled_at": int(at)},
            absent("enabled") | equals("enabled", True),
        )

    def throttle(self, endpoint: Endpoint, until: float, status: int, at: float) -> bool:
        # Of many workers that get the same answer, one writes. The others would lengthen the
        # pause by a few seconds at most.
        return self._write(
            replace(endpoint, throttled_until=until, throttled_by=status),
            {"throttled_until": int(until), "throttled_by": status},
            absent("throttled_until") | at_most("throttled_until", int(at)),
        )

    @ours(RegistryUnavailable)
    def _write(self, after: Endpoint, sets: dict[str, Any], when: Condition) -> bool:
        """Change the row if it meets the condition, and update or drop the cached row.

        Its URL is still the same: a new one was registered, and has answered nothing yet.
        """
        try:
            self._table.change(
                (after.tenant, after.endpoint), sets, when=equals("url", after.url) & when
            )
        except Conflict:
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
