"""The kill switch of the default pipeline, a webhook with a circuit for each endpoint."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from tests.e2e.deployed import Deployed, event
from tests.e2e.receiver import Receiver

CONSUMER = "deadletter-orders-consumer"

MOST_POSTS = 2
"""To one dead endpoint while the circuit is not closed."""

MOST_WAITS = 60.0
"""Seconds that the execution waits from its start to CLOSED, by the deployment's own clock. The
minute of the watch that starts it is beside it."""


def circuit(orders: Deployed) -> dict[str, Any]:
    """The pipeline's own circuit as it is stored."""
    found = orders.aws("dynamodb").get_item(
        TableName=orders.app["circuits_table"],
        Key={"pipeline": {"S": "orders"}, "circuit_key": {"S": "orders"}},
        ConsistentRead=True,
    )
    item: dict[str, Any] = found.get("Item", {"state": {"S": "CLOSED"}})
    return item


def mapping(orders: Deployed) -> dict[str, Any]:
    [found] = orders.aws("lambda").list_event_source_mappings(FunctionName=CONSUMER)[
        "EventSourceMappings"
    ]
    return dict(found)


def waited(orders: Deployed, outputs: Mapping[str, str]) -> float:
    """Seconds that the latest execution was told to wait before its probes."""
    functions = orders.aws("stepfunctions")
    executions = functions.list_executions(stateMachineArn=outputs["OrdersCircuitBreakerArn"])
    latest = max(executions["executions"], key=lambda execution: execution["startDate"])
    pages = functions.get_paginator("get_execution_history").paginate(
        executionArn=latest["executionArn"]
    )
    entered = [
        entry["stateEnteredEventDetails"]
        for page in pages
        for entry in page["events"]
        if "stateEnteredEventDetails" in entry
    ]
    inputs = [json.loads(item["input"]) for item in entered if item["name"] == "Cooldown"]
    return float(sum(data["circuit"]["wait_seconds"] for data in inputs))


def test_the_switch_pauses_live_traffic_and_ends_though_endpoints_are_dead(
    orders: Deployed, receiver: Receiver, outputs: Mapping[str, str]
) -> None:
    orders.settle()
    well, dead, held = (f"s-{kind}-{uuid.uuid4().hex[:6]}" for kind in ("well", "dead", "held"))
    for name in (well, dead, held):
        orders.register(name, receiver.url(name))
    before = mapping(orders)
    posted: list[float] = []

    def refuse(_: bytes) -> int:
        posted.append(orders.sandbox.time())
        return 503

    receiver.judges[dead] = refuse
    letters = [orders.send(event(dead, orderId=f"{dead}-{turn}")) for turn in range(3)]
    for letter in letters:
        orders.until(lambda name=letter: orders.dead(name), "what was posted in vain is dead")

    key = f"{held}/default"
    said = ("--reason", "a test", "--expires", "1h", "--pipeline", "orders", "--yes")
    orders.dlq("circuit", "open", key, "--new", *said)
    orders.hold()
    orders.until(lambda: mapping(orders)["State"] == "Disabled", "live traffic is paused")
    for turn in range(3):
        for name in (dead, held, well):
            orders.send(event(name, orderId=f"{name}-live-{turn}"))
    assert orders.redrive()["stopped"] == "circuit orders is OPEN"
    assert receiver.posts[well] == receiver.posts[held] == []

    let_go = orders.sandbox.time()
    orders.dlq("circuit", "release", "--pipeline", "orders", "--reason", "a test", "--yes")
    orders.until(lambda: circuit(orders)["state"]["S"] == "CLOSED", "the circuit closes")
    assert waited(orders, outputs) <= MOST_WAITS
    closed = float(circuit(orders)["closed_at"]["N"])
    assert len([at for at in posted if let_go <= at <= closed]) <= MOST_POSTS
    assert receiver.posts[held] == []

    def as_before() -> bool:
        now = mapping(orders)
        ours = "paused" in circuit(orders)
        return not ours and all(now.get(n) == before.get(n) for n in ("State", "ScalingConfig"))

    orders.until(as_before, "live traffic goes on")
    del receiver.judges[dead]
    orders.let_go(key)

    def delivered() -> bool:
        orders.redrive()
        bodies = [len(receiver.bodies[name]) for name in (well, dead, held)]
        return bodies == [3, len(letters) + 3, 3]

    orders.until(delivered, "everything is delivered, and once")
