"""`dlq circuit`: circuits are listed, and a manual override lasts until it expires."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import item
from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.circuit.state import CircuitsUnavailable
from deadletter.testing.fakes import client_error

HELD = ("--reason", "x", "--expires", "1h", "--yes")
RELEASED = ("--reason", "x", "--yes")


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` with a circuit for each tenant, and none on record."""
    cloud.deploy("orders", settings={"circuit_key": "body.tenantId"})
    return cloud


def reported(cloud: Any, *keys: str) -> None:
    """Circuits of these keys, as consumers report them."""
    for key in keys:
        stored = {"pipeline": "orders", "circuit_key": key, "state": "CLOSED"}
        cloud.put("circuits", item.stored(stored))


def count(cloud: Any) -> int:
    """How many circuits are on record."""
    number: int = cloud.dynamodb.scan(TableName="circuits")["Count"]
    return number


def answered(dlq: Any, *arguments: str, status: Exit = Exit.DONE) -> Any:
    done = dlq("circuit", *arguments, "--json")
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_a_new_circuit_is_closed(orders: Any, dlq: Any) -> None:
    (circuit,) = answered(dlq, "list")["circuits"]
    assert (circuit["pipeline"], circuit["key"], circuit["state"]) == ("orders", "orders", "CLOSED")
    assert (circuit["since"], circuit["forced"], circuit["consumer_paused"]) == (None, None, False)


def test_a_circuit_tells_what_it_has_counted_since_when(orders: Any, dlq: Any) -> None:
    orders.dynamodb.put_item(
        TableName="circuits",
        Item={
            "pipeline": {"S": "orders"},
            "circuit_key": {"S": "orders"},
            "state": {"S": "CLOSED"},
            "total_calls": {"N": "900"},
            "total_failed": {"N": "41"},
            "total_refused": {"N": "7"},
            "openings": {"N": "2"},
            "counted_since": {"N": "1790000000"},
        },
    )
    said = "21 Sep 14:13 UTC: 41 of 900 calls failed, opened 2 times, 7 messages given back"
    assert said in dlq("show", "circuit:orders").stdout
    [circuit] = json.loads(dlq("show", "circuit:orders", "--json").stdout)["circuits"]
    assert circuit["totals"] == {
        "since": "2026-09-21T14:13:20Z",
        "calls": 900,
        "failed": 41,
        "refused": 7,
        "openings": 2,
    }


def test_a_circuit_opened_by_hand_says_who_why_and_until_when(orders: Any, dlq: Any) -> None:
    answer = answered(dlq, "open", "--reason", "bank down", "--expires", "2h", "--yes")
    assert (answer["before"]["state"], answer["after"]["state"]) == ("CLOSED", "OPEN")
    (circuit,) = answered(dlq, "list", "--check", status=Exit.ATTENTION)["circuits"]
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
    reported(orders, "hooks.acme")
    answered(dlq, "open", "hooks.acme", "--reason", "x", "--expires", "1h", "--yes")
    answer = answered(dlq, "list", "--check", status=Exit.ATTENTION)["circuits"]
    assert [(circuit["key"], circuit["state"]) for circuit in answer] == [
        ("orders", "CLOSED"),
        ("hooks.acme", "OPEN"),
    ]


def test_a_circuit_whose_override_ends_is_tried_at_once(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "--reason", "x", "--expires", "9h", "--yes")
    after = answered(dlq, "release", *RELEASED)["after"]
    assert (after["state"], after["forced"]) == ("OPEN", None)
    due = answered(dlq, "list", "--check", status=Exit.ATTENTION)["circuits"][0]["open_until"]
    assert due <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))


def test_a_circuit_closed_by_hand_is_closed_and_overridden(orders: Any, dlq: Any) -> None:
    answered(dlq, "open", "--reason", "x", "--expires", "1h", "--yes")
    after = answered(dlq, "close", "--reason", "false alarm", "--expires", "30m", "--yes")["after"]
    assert (after["state"], after["forced"]) == ("CLOSED", "CLOSED")


def test_a_malformed_record_is_shown_and_replaced(orders: Any, dlq: Any) -> None:
    orders.put("circuits", item.stored(
        {"pipeline": "orders", "circuit_key": "orders", "state": "AJAR"}))  # fmt: skip
    (circuit,) = answered(dlq, "list", "--check", status=Exit.ATTENTION)["circuits"]
    assert circuit["state"] == "UNREADABLE"
    assert answered(dlq, "release", *RELEASED)["after"]["state"] == "OPEN"


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
    assert count(orders) == 0


def test_a_dry_run_says_what_would_be_held_and_holds_nothing(orders: Any, dlq: Any) -> None:
    done = dlq("circuit", "open", "--expires", "never", "--dry-run", "--json")
    assert done.exit_code == Exit.DONE, done.output
    held, now = json.loads(done.stdout)["would"]
    assert held == "Keep circuit orders of orders OPEN until a person ends it."
    assert now == "It is CLOSED now."
    assert count(orders) == 0


def test_a_person_is_asked_before_a_circuit_is_left_to_itself(
    orders: Any, dlq: Any, at_a_terminal: None
) -> None:
    answered(dlq, "open", *HELD)
    done = dlq("circuit", "release", answers="it answers\nn\n")
    assert done.exit_code == Exit.ATTENTION
    assert "Leave circuit orders of orders to itself again." in done.output
    assert "held OPEN by" in done.output
    assert answered(dlq, "list")["circuits"][0]["forced"] == "OPEN"


def test_nothing_changes_without_a_yes(orders: Any, dlq: Any, at_a_terminal: None) -> None:
    done = dlq("circuit", "open", "--reason", "x", "--expires", "1h", answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    assert "in account 123456789012, eu-west-1" in done.output
    assert "Keep circuit orders of orders OPEN" in done.output
    assert count(orders) == 0


@pytest.mark.parametrize(
    ("pauses", "key", "warned"), [(True, [], True), (False, [], False), (True, ["acme"], False)]
)
def test_a_person_is_told_that_live_traffic_pauses_too(
    cloud: Any, dlq: Any, at_a_terminal: None, pauses: bool, key: list[str], warned: bool
) -> None:
    circuit = {"pause_consumer": pauses}
    cloud.deploy("orders", settings={"circuit_key": "body.tenantId", "circuit": circuit})
    reported(cloud, "acme")
    said = ("--reason", "x", "--expires", "1h")
    done = dlq("circuit", "open", *key, *said, answers="n\n")
    assert ("live messages wait in the main queue" in " ".join(done.output.split())) is warned


def test_an_override_without_a_reason_is_refused_before_the_circuit_is_read(
    orders: Any, dlq: Any
) -> None:
    orders.dynamodb.delete_table(TableName="circuits")
    assert dlq("circuit", "open", "--expires", "1h", "--yes").exit_code == Exit.USAGE


def test_the_list_has_a_line_for_each_circuit(orders: Any, dlq: Any) -> None:
    dlq("circuit", "open", "--reason", "bank down", "--expires", "2h", "--yes")
    listed, shown = dlq("circuit", "list"), dlq("show", "circuit:orders")
    assert "orders    orders   OPEN" in listed.output
    assert "bank down" in shown.output
    # As `status`: looking succeeds, and --check asks for the exit status.
    assert (listed.exit_code, shown.exit_code) == (Exit.DONE, Exit.DONE)


def test_ending_an_override_that_does_not_exist_is_refused(orders: Any, dlq: Any) -> None:
    done = dlq("circuit", "release", *RELEASED)
    assert done.exit_code == Exit.ATTENTION
    assert "the circuit has no manual override" in done.output


@pytest.mark.parametrize(
    "command",
    [
        *(("circuit", verb, "hooks.amce", *HELD) for verb in ("open", "close")),
        ("circuit", "release", "hooks.amce", *RELEASED),
        ("show", "circuit:hooks.amce"),
    ],
)
def test_an_unknown_key_is_refused_and_the_known_ones_are_named(
    orders: Any, dlq: Any, command: tuple[str, ...]
) -> None:
    reported(orders, "zeta", "hooks.acme", "hooks.bank")
    done = dlq(*command)
    assert done.exit_code == Exit.ABSENT
    assert "no circuit 'hooks.amce': it has hooks.acme, hooks.bank, " in done.output
    assert "zeta" in done.output
    assert "add --new" in done.output
    assert count(orders) == 3


def test_at_most_twenty_known_keys_are_named_the_nearest_first(orders: Any, dlq: Any) -> None:
    reported(orders, *(f"tenant-{number:03}" for number in range(60)), "acme-corp")
    done = dlq("circuit", "open", "acme-crop", *HELD)
    named = done.output.partition("it has ")[2].partition(" and ")[0].split(", ")
    assert len(named) == 20
    assert named[0] == "acme-corp"
    assert "and 42 others." in done.output


def test_a_new_key_is_held_if_the_person_says_that_it_is_right(orders: Any, dlq: Any) -> None:
    after = answered(dlq, "open", "hooks.new", "--new", *HELD)["after"]
    assert (after["key"], after["state"]) == ("hooks.new", "OPEN")
    assert answered(dlq, "release", "hooks.new", *RELEASED)["after"]["forced"] is None


def test_the_pipelines_own_circuit_is_known_without_a_record(orders: Any, dlq: Any) -> None:
    shown = json.loads(dlq("show", "circuit:orders", "--json").stdout)
    assert shown["circuits"][0]["state"] == "CLOSED"
    assert answered(dlq, "open", "orders", *HELD)["after"]["state"] == "OPEN"


def test_an_empty_key_is_not_the_pipelines_own(orders: Any, dlq: Any) -> None:
    done = dlq("circuit", "open", "", *HELD)
    assert done.exit_code == Exit.USAGE
    assert "KEY is empty" in done.output
    assert count(orders) == 0


def test_the_circuit_of_a_named_dependency_needs_no_circuit_key(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", settings={"fixed_rate": 10})
    after = answered(dlq, "open", "dependency/bank", "--new", "--pipeline", "orders", *HELD)[
        "after"
    ]
    assert (after["key"], after["state"]) == ("dependency/bank", "OPEN")


@pytest.mark.parametrize("options", [("--new",), ()])
def test_no_key_is_opened_in_a_pipeline_whose_letters_have_none(
    cloud: Any, dlq: Any, options: tuple[str, ...]
) -> None:
    cloud.deploy("orders", settings={"fixed_rate": 10})
    reported(cloud, "of-earlier-settings")
    done = dlq("circuit", "open", "of-earlier-settings", *options, *HELD)
    assert done.exit_code == Exit.USAGE
    assert "no circuit_key in its settings" in done.output


def test_without_the_permission_to_query_known_keys_are_held_and_others_refused(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: object) -> None:
        cause = client_error("Query", "AccessDeniedException", "not authorized")
        raise CircuitsUnavailable from cause

    monkeypatch.setattr(DynamoDBBreaker, "keys", denied)
    reported(orders, "hooks.acme")
    answered(dlq, "open", "hooks.acme", *HELD)
    done = dlq("circuit", "open", "hooks.amce", *HELD)
    assert done.exit_code == Exit.ABSENT
    assert "the known ones could not be read (AWS refuses Query" in done.output


def test_an_override_without_an_end_says_so_everywhere(orders: Any, dlq: Any) -> None:
    done = dlq("circuit", "open", "--expires", "never", "--reason", "bank down", "--yes")
    assert "until a person ends it: bank down" in done.output
    (circuit,) = answered(dlq, "list", "--check", status=Exit.ATTENTION)["circuits"]
    assert (circuit["forced"], circuit["forced_until"], circuit["open_until"]) == (
        "OPEN",
        None,
        None,
    )
    assert circuit["forced_since"] is not None
    assert ", until a person ends it" in dlq("circuit", "list").output
    assert "until a person ends it: bank down" in dlq("show", "circuit:orders").output
    assert answered(dlq, "close", *HELD)["after"]["state"] == "CLOSED"


def test_never_is_an_end_to_open_until_and_none_to_close(orders: Any, dlq: Any) -> None:
    assert dlq("circuit", "open", "--reason", "x", "--expires", "never", "-y").exit_code == 0
    done = dlq("circuit", "close", "--reason", "x", "--expires", "never", "-y")
    assert done.exit_code == Exit.USAGE


@pytest.mark.parametrize("verb", ["open", "close"])
def test_an_end_that_is_as_good_as_none_is_refused(orders: Any, dlq: Any, verb: str) -> None:
    done = dlq("circuit", verb, "--reason", "x", "--expires", "31d", "--yes")
    assert done.exit_code == Exit.USAGE
    assert "ends within 30 days" in done.output
    assert count(orders) == 0


def test_a_person_is_asked_about_an_override_without_an_end(
    orders: Any, dlq: Any, at_a_terminal: None
) -> None:
    done = dlq("circuit", "open", answers="bank down\nnever\ny\n")
    assert done.exit_code == Exit.DONE
    assert "Keep circuit orders of orders OPEN until a person ends it." in done.output
