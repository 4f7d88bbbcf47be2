"""`dlq circuit`: circuits are listed, and a manual override lasts until it expires."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import item


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` with a new circuit."""
    cloud.deploy("orders")
    return cloud


def answered(dlq: Any, *arguments: str, status: Exit = Exit.DONE) -> Any:
    done = dlq("circuit", *arguments, "--json")
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_a_new_circuit_is_closed(orders: Any, dlq: Any) -> None:
    (circuit,) = answered(dlq, "list")["circuits"]
    assert (circuit["pipeline"], circuit["key"], circuit["state"]) == ("orders", "orders", "CLOSED")
    assert (circuit["since"], circuit["forced"], circuit["consumer_paused"]) == (None, None, False)


def test_a_circuit_opened_by_hand_says_who_why_and_until_when(orders: Any, dlq: Any) -> None:
    answer = answered(dlq, "open", "--reason", "bank down", "--expires", "2h", "--yes")
    assert (answer["before"]["state"], answer["after"]["state"]) == ("CLOSED", "OPEN")
    (circuit,) = answered(dlq, "list", status=Exit.ATTENTION)["circuits"]
    assert (circuit["state"], circuit["forced"], circuit["forced_reason"]) == (
        "OPEN",
        "OPEN",
        "bank down",
    )
    assert circuit["forced_by"].startswith("arn:aws:")
    assert circuit["open_until"] == circuit["forced_until"]


def test_the_override_is_stored_for_the_pipelines_routers(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "--reason", "x", "--expires", "1h", "--yes")
    stored = orders.dynamodb.scan(TableName="circuits")["Items"]
    assert [item.plain(circuit)["state"] for circuit in stored] == ["OPEN"]


def test_circuits_of_a_pipeline_are_overridden_separately(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "hooks.acme", "--reason", "x", "--expires", "1h", "--yes")
    answer = answered(dlq, "list", status=Exit.ATTENTION)["circuits"]
    assert [(circuit["key"], circuit["state"]) for circuit in answer] == [
        ("orders", "CLOSED"),
        ("hooks.acme", "OPEN"),
    ]


def test_a_circuit_whose_override_ends_is_tried_at_once(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "--reason", "x", "--expires", "9h", "--yes")
    after = answered(dlq, "auto", "--yes")["after"]
    assert (after["state"], after["forced"]) == ("OPEN", None)
    due = answered(dlq, "show", status=Exit.ATTENTION)["circuits"][0]["open_until"]
    assert due <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))


def test_a_circuit_closed_by_hand_is_closed_and_overridden(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "--reason", "x", "--expires", "1h", "--yes")
    after = answered(dlq, "close", "--reason", "false alarm", "--expires", "30m", "--yes")["after"]
    assert (after["state"], after["forced"]) == ("CLOSED", "CLOSED")


def test_a_malformed_record_is_shown_and_replaced(orders: Any, dlq: Any) -> None:
    orders.put("circuits", item.stored(
        {"pipeline": "orders", "circuit_key": "orders", "state": "AJAR"}))  # fmt: skip
    (circuit,) = answered(dlq, "show", status=Exit.ATTENTION)["circuits"]
    assert circuit["state"] == "UNREADABLE"
    assert answered(dlq, "auto", "--yes")["after"]["state"] == "OPEN"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["open", "--expires", "1h", "--yes"], "needs a reason"),
        (["open", "--reason", "x", "--yes"], "--expires"),
        (["open", "--reason", "x", "--expires", "soon", "--yes"], "'soon' is not a length of time"),
        (["open", "--reason", "x", "--expires", "2020-01-01", "--yes"], "already"),
    ],
)
def test_an_override_needs_a_reason_and_an_end(
    orders: Any, dlq: Any, arguments: list[str], text: str
) -> None:
    done = dlq("circuit", *arguments)
    assert done.exit_code == Exit.USAGE
    assert text in done.output
    assert orders.dynamodb.scan(TableName="circuits")["Count"] == 0


def test_nothing_changes_without_a_yes(orders: Any, dlq: Any, at_a_terminal: None) -> None:
    done = dlq("circuit", "open", "--reason", "x", "--expires", "1h", answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    assert "in account 123456789012, eu-west-1" in done.output
    assert "Keep circuit orders of orders OPEN" in done.output
    assert orders.dynamodb.scan(TableName="circuits")["Count"] == 0


def test_an_override_without_a_reason_is_refused_before_the_circuit_is_read(
    orders: Any, dlq: Any
) -> None:
    orders.dynamodb.delete_table(TableName="circuits")
    assert dlq("circuit", "open", "--expires", "1h", "--yes").exit_code == Exit.USAGE


def test_the_list_has_a_line_for_each_circuit(orders: Any, dlq: Any) -> None:
    dlq("circuit", "open", "--reason", "bank down", "--expires", "2h", "--yes")
    listed, shown = dlq("circuit", "list"), dlq("circuit", "show")
    assert "orders    orders   OPEN" in listed.output
    assert "bank down" in shown.output


def test_ending_an_override_that_does_not_exist_is_refused(orders: Any, dlq: Any) -> None:
    done = dlq("circuit", "auto", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert "the circuit has no manual override" in done.output
