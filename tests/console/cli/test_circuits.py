"""`dlq circuit`: circuits are listed, and what a person says holds until its end or a release."""

from __future__ import annotations

import json
import time
from typing import Any
from unittest.mock import Mock

import pytest

from console.cli.exit import Exit
from console.operations import item
from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.circuit.state import CircuitsUnavailable
from deadletter.testing.fakes import client_error
from tests.each_row import each_row

SAID = ("--reason", "bank down", "--yes")
HELD = (*SAID, "--expires", "1h")
NEVER = (*SAID, "--expires", "never")


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` with a circuit for each tenant, and none on record."""
    cloud.deploy("orders", settings={"circuit_key": "body.tenantId"})
    return cloud


def reported(cloud: Any, *keys: str, **more: Any) -> None:
    """Circuits of these keys, as consumers report them."""
    for key in keys:
        stored = {"pipeline": "orders", "circuit_key": key, "state": "CLOSED", **more}
        cloud.put("circuits", item.stored(stored))


def count(cloud: Any) -> int:
    """How many circuits are on record."""
    number: int = cloud.dynamodb.scan(TableName="circuits")["Count"]
    return number


def listed(dlq: Any, status: Exit = Exit.DONE, *arguments: str) -> Any:
    done = dlq("circuit list", *arguments, "--json", ends=status)
    return json.loads(done.stdout)["circuits"]


def after(dlq: Any, *arguments: str) -> Any:
    """A circuit after it was changed."""
    done = dlq("circuit", *arguments, "--json", ends=Exit.DONE)
    return json.loads(done.stdout)["after"]


def test_a_new_circuit_is_closed_and_known_without_a_record(orders: Any, dlq: Any) -> None:
    (circuit,) = listed(dlq, Exit.DONE, "--check")
    assert (circuit["pipeline"], circuit["key"], circuit["state"]) == ("orders", "orders", "CLOSED")
    assert (circuit["since"], circuit["forced"], circuit["consumer_paused"]) == (None, None, False)
    assert json.loads(dlq("show circuit:orders --json").stdout)["circuits"] == [circuit]


def test_a_circuit_tells_what_it_has_counted_since_when(orders: Any, dlq: Any) -> None:
    totals = {"calls": 900, "failed": 41, "refused": 7}
    counted = {f"total_{name}": number for name, number in totals.items()}
    reported(orders, "orders", **counted, openings=2, counted_since=1_790_000_000)
    said = "21 Sep 14:13 UTC: 41 of 900 calls failed, opened 2 times, 7 messages given back"
    assert said in dlq("show circuit:orders").stdout
    [circuit] = listed(dlq)
    assert circuit["totals"] == {"since": "2026-09-21T14:13:20Z", **totals, "openings": 2}


def test_a_circuit_is_opened_and_closed_by_hand_and_once_released_tried_at_once(
    orders: Any, dlq: Any
) -> None:
    assert after(dlq, "open", *HELD)["state"] == "OPEN"
    (circuit,) = listed(dlq, Exit.ATTENTION, "--check")
    said = (circuit["state"], circuit["forced"], circuit["forced_reason"])
    assert said == ("OPEN", "OPEN", "bank down")
    assert circuit["forced_by"].startswith("arn:aws:")
    assert circuit["open_until"] == circuit["forced_until"]
    # As the pipeline's routers read it.
    stored = orders.dynamodb.scan(TableName="circuits")["Items"]
    assert [item.plain(circuit)["state"] for circuit in stored] == ["OPEN"]
    # As `status`: looking succeeds, and --check asks for the exit status.
    dlq("circuit list", ends=Exit.DONE, says="orders    orders   OPEN")
    dlq("show circuit:orders", ends=Exit.DONE, says="bank down")
    released = after(dlq, "release", *SAID)
    assert (released["state"], released["forced"]) == ("OPEN", None)
    due = listed(dlq)[0]["open_until"]
    assert due <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    closed = after(dlq, "close", *HELD)
    assert (closed["state"], closed["forced"]) == ("CLOSED", "CLOSED")


def test_a_malformed_record_is_shown_and_replaced(orders: Any, dlq: Any) -> None:
    reported(orders, "orders", state="AJAR")
    assert listed(dlq)[0]["state"] == "UNREADABLE"
    assert (
        "this replaces it:\n    dlq circuit release orders -p orders\n"
        in dlq("show circuit:orders").stdout
    )
    assert after(dlq, "release", *SAID)["state"] == "OPEN"


def test_an_override_without_an_end_says_so_everywhere(orders: Any, dlq: Any) -> None:
    assert "until a person ends it: bank down" in dlq("circuit open", *NEVER).output
    (circuit,) = listed(dlq)
    said = (circuit["forced"], circuit["forced_until"], circuit["open_until"])
    assert (said, circuit["forced_since"] is None) == (("OPEN", None, None), False)
    assert ", until a person ends it" in dlq("circuit list").output
    assert "until a person ends it: bank down" in dlq("show circuit:orders").output


@each_row(
    ("typed", "says"),
    [
        ("open --expires 1h --yes", "needs a reason"),
        ("release --yes", "needs a reason"),
        ("open --reason x --yes", "--expires"),
        ("open --reason x --expires soon --yes", "'soon' is no time: write how long (2h, 4d)"),
        ("open --reason x --expires 2020-01-01 --yes", "already"),
        ("open --reason x --expires 31d --yes", "ends within 30 days"),
        ("close --reason x --expires 31d --yes", "ends within 30 days"),
        ("close --reason x --expires never --yes", "'never' is no time"),
        ("open '' --reason x --expires 1h --yes", "KEY is empty"),
        ("open --reason x --expires 1h", "add --yes"),
    ],
)
def test_a_change_that_lacks_something_is_refused(
    orders: Any, dlq: Any, typed: str, says: str
) -> None:
    dlq(f"circuit {typed}", ends=Exit.USAGE, refuses=says)
    assert count(orders) == 0


def test_an_override_without_a_reason_is_refused_before_the_circuit_is_read(
    orders: Any, dlq: Any
) -> None:
    orders.dynamodb.delete_table(TableName="circuits")
    dlq("circuit open --expires 1h --yes", ends=Exit.USAGE)


@pytest.mark.parametrize(
    ("pauses", "key", "warned"), [(True, [], True), (False, [], False), (True, ["acme"], False)]
)
def test_a_dry_run_says_whether_live_traffic_pauses_too_and_changes_nothing(
    cloud: Any, dlq: Any, pauses: bool, key: list[str], warned: bool
) -> None:
    circuit = {"pause_consumer": pauses}
    cloud.deploy("orders", settings={"circuit_key": "body.tenantId", "circuit": circuit})
    reported(cloud, "acme")
    done = dlq("circuit open", *key, "--expires", "never", "--dry-run", "--json")
    first, *paused, now = json.loads(done.stdout)["would"]
    name = key[0] if key else "orders"
    assert first == f"Keep circuit {name} of orders OPEN until a person ends it."
    assert ["live messages wait in the main queue" in text for text in paused] == [True] * warned
    assert now == "It is CLOSED now."
    assert listed(dlq)[0]["forced"] is None


def test_a_person_is_asked_why_until_when_and_whether(
    orders: Any, dlq: Any, at_a_terminal: None
) -> None:
    done = dlq("circuit open", answers="bank down\nnever\nn\n", ends=Exit.ATTENTION)
    assert ("in account 123456789012, eu-west-1" in done.output, count(orders)) == (True, 0)
    dlq("circuit open", answers="bank down\nnever\ny\n", ends=Exit.DONE)
    refused = dlq("circuit release", answers="it answers\nn\n").output
    assert "Leave circuit orders of orders to itself again." in refused
    assert "held OPEN by" in refused
    assert listed(dlq)[0]["forced"] == "OPEN"


def test_releasing_what_nobody_holds_is_refused(orders: Any, dlq: Any) -> None:
    refuses = "the circuit has no manual override"
    dlq("circuit release", *SAID, ends=Exit.ATTENTION, refuses=refuses)


def test_an_unknown_key_is_refused_and_the_known_ones_are_named(orders: Any, dlq: Any) -> None:
    reported(orders, "zeta", "hooks.acme", "hooks.bank")
    says = ("no circuit 'hooks.amce': it has hooks.acme, hooks.bank, ", "zeta", "add --new")
    for command, more in (("open", HELD), ("close", HELD), ("release", SAID)):
        dlq(f"circuit {command} hooks.amce", *more, ends=Exit.ABSENT, refuses=says)
    dlq("show circuit:hooks.amce", ends=Exit.ABSENT, refuses=says)
    assert count(orders) == 3


def test_at_most_twenty_known_keys_are_named_the_nearest_first(orders: Any, dlq: Any) -> None:
    reported(orders, *(f"tenant-{number:03}" for number in range(60)), "acme-corp")
    done = dlq("circuit open acme-crop", *HELD)
    named = done.output.partition("it has ")[2].partition(" and ")[0].split(", ")
    assert (len(named), named[0]) == (20, "acme-corp")
    assert "and 42 more." in done.output


def test_a_new_key_is_held_if_the_person_says_that_it_is_right(orders: Any, dlq: Any) -> None:
    held = after(dlq, "open", "hooks.new", "--new", *HELD)
    assert (held["key"], held["state"]) == ("hooks.new", "OPEN")
    states = [(circuit["key"], circuit["state"]) for circuit in listed(dlq)]
    assert states == [("orders", "CLOSED"), ("hooks.new", "OPEN")]
    assert after(dlq, "release", "hooks.new", *SAID)["forced"] is None


def test_without_circuit_key_only_a_named_dependency_has_a_circuit_of_its_own(
    cloud: Any, dlq: Any
) -> None:
    cloud.deploy("orders", settings={"fixed_rate": 10})
    held = after(dlq, "open", "dependency/bank", "--new", "-p", "orders", *HELD)
    assert (held["key"], held["state"]) == ("dependency/bank", "OPEN")
    reported(cloud, "of-earlier-settings")
    for options in (("--new",), ()):
        done = dlq("circuit open of-earlier-settings", *options, *HELD, ends=Exit.USAGE)
        assert "no circuit_key in its settings" in done.output


def test_without_the_permission_to_query_known_keys_are_held_and_others_refused(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = CircuitsUnavailable()
    denied.__cause__ = client_error("Query", "AccessDeniedException", "not authorized")
    monkeypatch.setattr(DynamoDBBreaker, "keys", Mock(side_effect=denied))
    reported(orders, "hooks.acme")
    after(dlq, "open", "hooks.acme", *HELD)
    done = dlq("circuit open hooks.amce", *HELD, ends=Exit.ABSENT)
    assert "the known ones could not be read (AWS refuses Query" in done.output
