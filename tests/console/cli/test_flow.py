"""`dlq status --flow`: this deployment as nodes and edges."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

from console.cli.exit import Exit
from console.operations import flow as operation
from console.operations.errors import Cause, Problem
from deadletter.circuit.state import State
from deadletter.contract import circuit_lane
from tests.console.conftest import Cloud, Dlq

LIBRARY = {"consumer_library": True, "parking": {"schema": "fix", "POISON": "fix"}}


def drawn(dlq: Dlq, *names: str) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """The nodes by id, and the edges; each edge joins two of the nodes."""
    answer = json.loads(dlq("status", *names, "--flow", "--json").stdout)["flow"]
    nodes = {node["id"]: node for node in answer["nodes"]}
    assert len(nodes) == len(answer["nodes"])
    for edge in answer["edges"]:
        assert {edge["start"], edge["end"]} <= nodes.keys()
        assert edge["is_open"] is (edge["because"] is None)
    return nodes, answer["edges"]


def between(edges: list[dict[str, Any]], start: str, end: str) -> dict[str, Any]:
    [edge] = [edge for edge in edges if (edge["start"], edge["end"]) == (start, end)]
    return edge


def test_the_queues_of_this_deployment_are_drawn_with_live_counts(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", parking=("default", "fix"), dedicated=("vip",), settings=LIBRARY)
    for _ in range(3):
        cloud.letter("{}")
    cloud.waiting("orders", "due", 2)
    nodes, edges = drawn(dlq)
    counts = {id_: node["messages"] for id_, node in nodes.items() if node["messages"] is not None}
    empty = ("orders/main", "orders/parking:default", "orders/parking:fix", "orders/vip")
    assert counts == {**dict.fromkeys(empty, 0), "orders/dlq": 3, "orders/waiting:due": 2}
    assert between(edges, "orders/retry", "orders/main")["is_open"]
    some = between(edges, "orders/retry", "orders/parking:fix")["does"]
    assert some == "parks POISON, schema in"
    rest = between(edges, "orders/retry", "orders/parking:default")["does"]
    assert rest == "parks all but POISON, schema in"
    assert between(edges, "orders/consumer", "orders/parking:fix")["is_open"]


def test_rules_in_force_point_at_what_they_do_and_others_are_not_drawn(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", dedicated=("vip",), context=["tenantId"])
    rules: dict[str, dict[str, Any]] = {
        "stop": {"action": "QUARANTINE"}, "apart": {"action": "DEDICATED_DLQ", "queue": "vip"},
        "wait": {"action": "HOLD"}, "look": {"action": "HOLD", "mode": "shadow"},
        "off": {"action": "HOLD", "enabled": False}, "typo": {"action": "QUARANTENE"},
    }  # fmt: skip
    for name, columns in rules.items():
        cloud.rule(name, tenantId=name, **columns)
    cloud.waiting("orders", "rule:wait", 4)
    nodes, edges = drawn(dlq)
    drew = {node["name"]: node["state"] for node in nodes.values() if node["kind"] == "rule"}
    assert drew == {**dict.fromkeys(("stop", "apart", "wait"), "enforced"), "look": "shadow"}
    for name, to in (("stop", "parking:default"), ("apart", "vip"), ("wait", "waiting:rule:wait")):
        assert between(edges, f"orders/rule:{name}", f"orders/{to}")["is_open"]
    # Nothing waits for it: its lane does not exist.
    shadow = between(edges, "orders/rule:look", "orders/retry")
    assert shadow["because"] == "it only counts, as a shadow"


def test_an_open_circuit_closes_the_ways_back_and_says_so(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    cloud.circuit("orders", "orders", State.OPEN)
    cloud.waiting("orders", circuit_lane("orders"), 5)
    nodes, edges = drawn(dlq)
    assert nodes["orders/circuit:orders"]["state"] == "OPEN"
    assert nodes["orders/waiting:circuit:orders"]["messages"] == 5
    ends = ("orders/main", "orders/parking:default")
    for way in (("orders/dlq", "orders/retry"), *(("orders/retry", end) for end in ends)):
        assert "until circuit orders closes" in between(edges, *way)["because"]
    assert between(edges, "orders/circuit:orders", "orders/consumer")["is_open"]
    assert between(edges, "orders/circuit:orders", "orders/waiting:circuit:orders")["is_open"]
    waits = between(edges, "orders/waiting:circuit:orders", "orders/retry")
    assert not waits["is_open"]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("OPEN", "circuit orders#config waits until its configuration is repaired"),
        ("ajar", "the record of circuit orders#config is malformed"),
        ("held", "circuit orders#config is held OPEN by "),
    ],
)
def test_the_circuit_for_configuration_closes_the_ways_back_as_it_stops_the_runs(
    cloud: Cloud, dlq: Dlq, state: str, says: str
) -> None:
    cloud.deploy("orders")
    cloud.letter("{}")
    key = {"pipeline": {"S": "orders"}, "circuit_key": {"S": "orders#config"}}
    cloud.put("circuits", {**key, "state": {"S": state.replace("held", "CLOSED")}})
    if state == "held":
        dlq("circuit open orders#config --reason x --expires never --yes", ends=Exit.DONE)
    because = between(drawn(dlq)[1], "orders/retry", "orders/main")["because"]
    outlook = json.loads(dlq("status --json").stdout)["pipelines"][0]["outlook"]
    assert says in because
    assert (outlook["next"], outlook["dlq_empty_because"]) == ([because], f"unknown: {because}")


def test_observe_moves_nothing(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", mode="observe", dedicated=("vip",))
    _, edges = drawn(dlq)
    of_redriver = [edge for edge in edges if edge["start"] == "orders/retry"]
    assert of_redriver
    assert not any(edge["is_open"] for edge in of_redriver)


def test_each_pipeline_is_drawn_by_itself(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", "invoices")
    nodes, edges = drawn(dlq)
    assert {node["pipeline"] for node in nodes.values()} == {"orders", "invoices"}
    for edge in edges:
        assert edge["start"].partition("/")[0] == edge["end"].partition("/")[0]
    assert {node["pipeline"] for node in drawn(dlq, "invoices")[0].values()} == {"invoices"}


@pytest.mark.parametrize("lost", ["list_rules", "list_circuits"])
def test_what_could_not_be_read_is_named_and_not_drawn_as_none(
    cloud: Cloud, dlq: Dlq, monkeypatch: Any, lost: str
) -> None:
    cloud.deploy("orders")
    refused = Mock(side_effect=Problem("AccessDenied", Cause.FAILED))
    monkeypatch.setattr(operation, lost, refused)
    result = dlq("status --flow --json", ends=Exit.ATTENTION)
    [says] = json.loads(result.stdout)["flow"]["unread"]
    assert "could not be read: AccessDenied" in says
    dlq("status --flow", says="could not be read: AccessDenied")
