"""Rules and endpoints are listed for people to the last page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from console.operations.endpoints import EndpointTable
from console.operations.rule_table import RuleTable

NAMES = ["a", "b", "c"]


class Pages:
    """A client whose paginators give pages of one, as AWS may."""

    def __init__(self, member: str, entries: Sequence[Any]) -> None:
        self._pages = [{member: [entry]} for entry in entries]
        self.requests: list[dict[str, Any]] = []

    def get_paginator(self, _operation: str) -> Any:
        return self

    def paginate(self, **request: Any) -> Sequence[dict[str, Any]]:
        self.requests.append(request)
        return self._pages


def test_every_rule_is_read_and_as_it_was_last_written() -> None:
    rows = [{"pipeline": {"S": "orders"}, "rule_id": {"S": name}} for name in NAMES]
    client: Any = Pages("Items", rows)
    assert [rule.rule_id for rule in RuleTable(client, "rules").read()] == NAMES
    assert client.requests == [{"TableName": "rules", "ConsistentRead": True}]


def test_every_endpoint_is_read() -> None:
    rows = [{"tenant": {"S": "acme"}, "endpoint": {"S": name}} for name in NAMES]
    client: Any = Pages("Items", rows)
    assert [row.columns["endpoint"] for row in EndpointTable(client, "endpoints").read()] == NAMES
