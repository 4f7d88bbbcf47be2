"""Rules and endpoints are listed for people to the last page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from console.operations.endpoints import EndpointTable
from console.operations.rule_table import RuleTable

NAMES = ["a", "b", "c"]


class Pages:
    """A client whose scans answer in pages of one, as AWS may."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = list(rows)
        self.requests: list[dict[str, Any]] = []

    def scan(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        row = self._rows.pop(0)
        return {"Items": [row], "Count": 1, **({"LastEvaluatedKey": row} if self._rows else {})}


def test_every_rule_is_read_and_as_it_was_last_written() -> None:
    rows = [{"pipeline": {"S": "orders"}, "rule_id": {"S": name}} for name in NAMES]
    client: Any = Pages(rows)
    assert [rule.rule_id for rule in RuleTable(client, "rules").read()] == NAMES
    assert all(request["ConsistentRead"] for request in client.requests)


def test_every_endpoint_is_read() -> None:
    rows = [{"tenant": {"S": "acme"}, "endpoint": {"S": name}} for name in NAMES]
    client: Any = Pages(rows)
    assert [row.columns["endpoint"] for row in EndpointTable(client, "endpoints").read()] == NAMES
