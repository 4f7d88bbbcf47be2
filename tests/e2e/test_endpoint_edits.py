"""A write to the endpoints table that bypasses `dlq` leaves a row of the audit, by its stream."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.progress import until
from sandbox.server import Sandbox
from tests.e2e.deployed import Deployed
from tests.e2e.test_on_call import OnCall, client


def test_an_endpoint_that_is_typed_in_the_console_is_a_row_of_the_audit(
    sandbox: Sandbox, aws: Callable[[str], Any], outputs: Mapping[str, str]
) -> None:
    orders = Deployed(sandbox, aws, outputs)
    people = OnCall(orders, "", {})
    tenant = f"t-{uuid.uuid4().hex[:8]}"
    row = {
        "tenant": {"S": tenant},
        "endpoint": {"S": "default"},
        "url": {"S": "https://hooks.example/in?token=hunter2"},
        "enabled": {"BOOL": True},
        "secrets": {"L": [{"S": f"deadletter/webhooks/{tenant}"}]},
    }
    typed = client(people, "dynamodb", ("EndpointEditor",), "typed")
    table = orders.app["endpoints_table"]
    typed.put_item(TableName=table, Item=row)
    typed.put_item(TableName=table, Item={**row, "url": {"S": "https://evil.example/in"}})

    def changes() -> list[Mapping[str, Any]]:
        found = orders.dlq("audit", "-f", "text~endpoint edit", "-f", "since=1h")["changes"]
        return [change for change in found if change["target"] == f"endpoint {tenant}/default"]

    later, first = until(
        lambda: found if len(found := changes()) == 2 else None,
        "both writes are on record",
        marks=lambda: len(changes()),
    )
    assert (first["before"], first["via"], first["who"]) == (None, "outside dlq", None)
    assert later["before"]["url"] == "https://hooks.example"
    assert later["after"]["url"] == "https://evil.example"
    assert "hunter2" not in str((later, first))
