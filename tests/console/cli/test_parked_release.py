"""`dlq parked release` and `discard`: what a person sees, and what is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.aws.replay_starts import unpacked
from deadletter.contract import Reason
from deadletter.redrive.journal import key_of
from deadletter.replay.plan import ReplayPlan, plan_from_text

WHY = ("--why", "fixed in 4.2.1")


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    """Pipeline orders with a router that answers."""
    cloud.deploy("orders", settings={"consumer_library": True})
    functions.configure("orders", consumer_library=True)
    functions.routes = True
    return cloud


def plans(cloud: Any) -> dict[str, ReplayPlan]:
    """The stored plans, by their source."""
    rows = [row for row in rows_of(cloud) if row["sk"]["S"] == "plan"]
    texts = [plan_from_text(row["plan"]["S"]) for row in rows]
    return {plan.source: plan for plan in texts}


def rows_of(cloud: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = cloud.dynamodb.scan(TableName="letters")["Items"]
    return rows


def counted(cloud: Any, run: str) -> frozenset[bytes]:
    """The keys of the origins that a person saw counted."""
    keys = [
        row["keys"]["B"]
        for row in rows_of(cloud)
        if f"#run#{run}#plan" in row["pk"]["S"] and row["sk"]["S"].startswith("counted#")
    ]
    return frozenset().union(*map(unpacked, keys))


def test_a_release_stores_a_plan_its_letters_and_a_run_and_starts_it(
    orders: Any, functions: Any, dlq: Any
) -> None:
    for number in range(12):
        orders.park("orders", "POISON", origin=f"poison-{number}")
    orders.park("orders", "EXPIRED", origin="expired")
    done = dlq("parked", "release", "--reason", "poison", *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    assert answer["letters"] == 12
    (run,) = answer["runs"]
    plan = plans(orders)["parking:default"]
    assert plan.run_id == run["run"]
    assert (plan.destination, plan.counted, plan.is_release) == ("main", 12, True)
    assert plan.selection.reasons == (Reason.POISON,)
    assert plan.why == "fixed in 4.2.1"
    assert plan.who.startswith("arn:aws:")
    assert counted(orders, run["run"]) == {key_of(f"poison-{number}") for number in range(12)}
    (execution,) = functions.machine.started
    assert execution["name"] == f"{run['run']}-0"
    assert json.loads(execution["input"]) == {"run": run["run"]}
    assert orders.visible("orders-parking-default") == 13


def test_letters_in_the_queue_and_in_lane_parked_are_released_by_one_run(
    orders: Any, functions: Any, dlq: Any
) -> None:
    """A person need not know where a parked letter is: a run may have moved it meanwhile."""
    orders.park("orders", "POISON", origin="in-queue")
    orders.rescued("orders", "POISON", 1_000)
    answer = json.loads(dlq("parked", "release", "--all", *WHY, "--yes", "--json").stdout)
    (run,) = answer["runs"]
    assert (run["source"], run["letters"]) == ("parking:default", 2)
    assert counted(orders, run["run"]) == {key_of("in-queue"), key_of("first-life")}


def test_what_an_aborted_run_has_left_is_released_by_its_reason(orders: Any, dlq: Any) -> None:
    """The letter carries nothing of its run: only the item in lane `parked` has the reason."""
    orders.rescued("orders", "REPLAY_ABORTED", 1_000)
    orders.rescued("orders", "POISON", 2_000, origin="poison")
    choice = ("--reason", "REPLAY_ABORTED")
    done = dlq("parked", "release", *choice, *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    (run,) = json.loads(done.stdout)["runs"]
    assert counted(orders, run["run"]) == {key_of("first-life")}
    shown = dlq("show", "rescued-REPLAY_ABORTED-1000", "--json")
    place = json.loads(shown.stdout)["message"]["places"][0]
    assert (place["where"], place["because"]) == ("PARKED", "it is REPLAY_ABORTED")


def test_each_parking_queue_has_a_run_with_its_own_rescued_letters(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.deploy("orders", settings={"consumer_library": True}, parking=("default", "legal"))
    orders.park("orders", "POISON", origin="a")
    orders.rescued("orders", "POISON", 1_000, key="legal")
    orders.rescued("orders", "SILENT", 1_000, key="gone")
    answer = json.loads(dlq("parked", "release", "--all", *WHY, "--yes", "--json").stdout)
    assert {run["source"]: run["letters"] for run in answer["runs"]} == {
        "parking:default": 2, "parking:legal": 1,
    }  # fmt: skip


def test_a_letter_is_released_by_its_id_or_the_id_of_its_first_life(
    orders: Any, functions: Any, dlq: Any
) -> None:
    sent = orders.park("orders", "POISON", origin="first-a")
    orders.park("orders", "POISON", origin="first-b")
    orders.park("orders", "POISON", origin="first-c")
    done = dlq("parked", "release", "--id", sent, "--id", "first-b", *WHY, "--yes", "--json")
    answer = json.loads(done.stdout)
    assert counted(orders, answer["runs"][0]["run"]) == {key_of("first-a"), key_of("first-b")}


def test_a_person_sees_what_would_be_released_and_may_refuse(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    orders.park("orders", "POISON", origin="a")
    orders.park("orders", "EXHAUSTED", origin="b")
    done = dlq("parked", "release", "--all", *WHY, answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    for text in (
        "App deadletter in account 123456789012",
        "Release 2 parked letters of orders: 2 in parking queue default.",
        "They are parked for 1 POISON, 1 EXHAUSTED.",
        "letters/s",
        "Nothing was done.",
    ):
        assert text in done.stderr
    assert not functions.machine.started
    assert not plans(orders)


def test_a_release_needs_a_reason(orders: Any, functions: Any, dlq: Any) -> None:
    orders.park("orders", "POISON")
    done = dlq("parked", "release", "--all", "--yes")
    assert done.exit_code == Exit.USAGE
    assert "A release needs a reason: add --why." in done.stderr


def test_nothing_to_release_is_said(orders: Any, functions: Any, dlq: Any) -> None:
    orders.park("orders", "POISON")
    done = dlq("parked", "release", "--reason", "EXPIRED", *WHY, "--yes")
    assert done.exit_code == Exit.ABSENT
    assert "No parked letter of orders matches: nothing was done." in done.stderr
    assert not functions.machine.started


def test_an_expired_letter_is_not_released_and_can_be_discarded(
    orders: Any, functions: Any, dlq: Any
) -> None:
    long_ago = 1_600_000_000_000
    orders.park("orders", "EXPIRED", origin="expired", first_sent=long_ago)
    done = dlq("parked", "release", "--all", *WHY, "--yes")
    assert done.exit_code == Exit.ABSENT
    assert "would stay out (1 EXPIRED)" in done.stderr
    # One that was given up in time has waited for a person since.
    orders.park("orders", "POISON", origin="poison", first_sent=long_ago)
    done = dlq("parked", "release", "--all", *WHY, "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert plans(orders)["parking:default"].counted == 1


def test_a_collision_is_accepted_by_a_person_or_not_released(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.park("orders", "COLLISION", origin="a")
    done = dlq("parked", "release", "--all", *WHY, "--yes")
    assert done.exit_code == Exit.USAGE
    assert "Parked for COLLISION: 1 letter. Another message" in done.stderr
    assert "--accept-collision" in done.stderr
    done = dlq("parked", "release", "--all", *WHY, "--yes", "--accept-collision")
    assert done.exit_code == Exit.DONE, done.output
    assert plans(orders)["parking:default"].accept == "collision"


def test_a_bad_filter_is_refused_before_a_letter_is_received(
    orders: Any, functions: Any, dlq: Any
) -> None:
    sent = orders.park("orders", "POISON")
    for option, text in (
        (("--pattern", "{"), "--pattern is not JSON"),
        (("--pattern", '{"body": 1}'), "can't be chosen so: pattern"),
        (("--jmespath", "a["), "can't be chosen so: where"),
        (("--reason", "POISEN"), "the reasons are"),
        (("--since", "yesterday"), "is no time: write how long ago"),
    ):
        done = dlq("parked", "release", *option, *WHY, "--yes")
        assert done.exit_code == Exit.USAGE, done.output
        assert text in done.stderr
    listed = json.loads(dlq("list", "--in", "parked", "--look", "--json").stdout)
    (letter,) = listed["messages"]
    assert (letter["current_id"], letter["received"]) == (sent, 1)


def test_a_person_says_which_letters(orders: Any, functions: Any, dlq: Any) -> None:
    orders.park("orders", "POISON")
    done = dlq("parked", "release", *WHY, "--yes")
    assert done.exit_code == Exit.USAGE
    assert "Say which parked letters: --id, --reason, another filter, or --all." in done.stderr
    done = dlq("parked", "release", "--all", "--id", "a", *WHY, "--yes")
    assert "--all and a filter exclude each other: give one." in done.stderr
    assert not functions.machine.started
