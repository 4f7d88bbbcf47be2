"""`dlq circuit`: what is held up is seen, and a person's word holds until it expires."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from console.operations import item
from console.operations.problem import Exit


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` whose circuit was never touched."""
    cloud.deploy("orders")
    return cloud


def answered(dlq: Any, *arguments: str, status: Exit = Exit.DONE) -> Any:
    done = dlq("circuit", *arguments, "--json")
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_a_circuit_that_nothing_ever_happened_to_is_closed(orders: Any, dlq: Any) -> None:
    (one,) = answered(dlq, "list")["circuits"]
    assert (one["pipeline"], one["key"], one["state"]) == ("orders", "orders", "CLOSED")
    assert (one["since"], one["forced"], one["consumer_paused"]) == (None, None, False)


def test_a_circuit_opened_by_hand_says_who_why_and_until_when(orders: Any, dlq: Any) -> None:
    found = answered(dlq, "open", "--reason", "bank down", "--expires", "2h", "--yes")
    assert (found["before"]["state"], found["after"]["state"]) == ("CLOSED", "OPEN")
    (one,) = answered(dlq, "list", status=Exit.ATTENTION)["circuits"]
    assert (one["state"], one["forced"], one["forced_reason"]) == ("OPEN", "OPEN", "bank down")
    assert one["forced_by"].startswith("arn:aws:")
    assert one["open_until"] == one["forced_until"]


def test_the_routers_of_the_pipeline_obey_what_was_said(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "--reason", "x", "--expires", "1h", "--yes")
    stored = orders.dynamodb.scan(TableName="circuits")["Items"]
    assert [item.plain(one)["state"] for one in stored] == ["OPEN"]


def test_a_dependency_of_its_own_is_held_apart_from_the_others(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "hooks.acme", "--reason", "x", "--expires", "1h", "--yes")
    found = answered(dlq, "list", status=Exit.ATTENTION)["circuits"]
    assert [(one["key"], one["state"]) for one in found] == [
        ("orders", "CLOSED"),
        ("hooks.acme", "OPEN"),
    ]


def test_what_was_held_open_is_left_to_itself_and_tried_at_once(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "--reason", "x", "--expires", "9h", "--yes")
    after = answered(dlq, "auto", "--yes")["after"]
    assert (after["state"], after["forced"]) == ("OPEN", None)
    due = answered(dlq, "show", status=Exit.ATTENTION)["circuits"][0]["open_until"]
    assert due <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))


def test_a_circuit_closed_by_hand_is_closed_and_held(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "--reason", "x", "--expires", "1h", "--yes")
    after = answered(dlq, "close", "--reason", "false alarm", "--expires", "30m", "--yes")["after"]
    assert (after["state"], after["forced"]) == ("CLOSED", "CLOSED")


def test_a_record_that_nobody_understands_is_shown_and_begun_anew(orders: Any, dlq: Any) -> None:
    orders.put("circuits", item.stored(
        {"pipeline": "orders", "circuit_key": "orders", "state": "AJAR"}))  # fmt: skip
    (one,) = answered(dlq, "show", status=Exit.ATTENTION)["circuits"]
    assert one["state"] == "UNREADABLE"
    assert answered(dlq, "auto", "--yes")["after"]["state"] == "OPEN"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["open", "--expires", "1h", "--yes"], "needs a reason"),
        (["open", "--reason", "x", "--yes"], "--expires"),
        (["open", "--reason", "x", "--expires", "soon", "--yes"], "'soon' is not a length of time"),
        (["open", "--reason", "x", "--expires", "2020-01-01", "--yes"], "already"),
    ],
)
def test_a_hold_needs_a_reason_and_an_end(
    orders: Any, dlq: Any, arguments: list[str], said: str
) -> None:
    done = dlq("circuit", *arguments)
    assert done.exit_code == Exit.USAGE
    assert said in done.output
    assert orders.dynamodb.scan(TableName="circuits")["Count"] == 0


def test_nothing_changes_unless_somebody_agrees(
    orders: Any, dlq: Any, somebody_there: None
) -> None:
    done = dlq("circuit", "open", "--reason", "x", "--expires", "1h", answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    assert "in account 123456789012, eu-west-1" in done.output
    assert "Hold circuit orders of orders OPEN" in done.output
    assert orders.dynamodb.scan(TableName="circuits")["Count"] == 0


def test_a_person_reads_one_line_a_circuit(orders: Any, dlq: Any) -> None:
    dlq("circuit", "open", "--reason", "bank down", "--expires", "2h", "--yes")
    listed, shown = dlq("circuit", "list"), dlq("circuit", "show")
    assert "orders    orders   OPEN" in listed.output
    assert "bank down" in shown.output


def test_leaving_alone_what_nobody_holds_says_so(orders: Any, dlq: Any) -> None:
    done = dlq("circuit", "auto", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert "the circuit has no manual override" in done.output
