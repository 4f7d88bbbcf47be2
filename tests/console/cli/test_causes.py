"""`dlq cause`: sudden causes are listed, and parked for."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.aws.causes import DynamoDBCauses
from deadletter.failure.causes import FailedTry, Second

CAUSE = "0123456789abcdef"


def store(cloud: Any) -> DynamoDBCauses:
    return DynamoDBCauses(cloud.dynamodb, "circuits", "orders", lambda: f"token {time.time_ns()}")


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` whose messages suddenly fail."""
    cloud.deploy("orders")
    causes, now = store(cloud), int(time.time())
    causes.count([Second(now - 1_800, 100)], now - 1_800)
    letters = tuple(FailedTry(CAUSE, "ValidationError", letter) for letter in range(25))
    _, begun = causes.count([Second(now, 25, letters)], now)
    assert begun == (CAUSE,)
    return cloud


def answered(dlq: Any, *arguments: str, status: Exit = Exit.DONE) -> Any:
    done = dlq("cause", *arguments, "--json")
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_a_cause_is_parked_for_by_a_named_person_for_a_day(orders: Any, dlq: Any) -> None:
    change = answered(dlq, "park", CAUSE, "--reason", "the producer is wrong", "--yes")
    assert (change["before"]["state"], change["after"]["state"]) == ("HELD", "PARKED")
    assert change["after"]["reason"] == "the producer is wrong"
    assert change["after"]["by"].startswith("arn:aws:")
    causes, now = store(orders).read(), time.time()
    assert causes.held(now) == {}
    assert causes.is_parked(CAUSE, now + 86_000)
    assert not causes.is_parked(CAUSE, now + 86_800)
    (cause,) = json.loads(dlq("groups", "--json").stdout)["causes"]
    assert (cause["state"], cause["error_type"]) == ("PARKED", "ValidationError")


@pytest.mark.parametrize("parked", [False, True])
def test_a_cause_that_is_retried_is_counted_anew(
    orders: Any, functions: Any, dlq: Any, parked: bool
) -> None:
    if parked:
        answered(dlq, "park", CAUSE, "--reason", "x", "--yes")
    orders.failed("orders", orders.letter("{}"), fingerprint=CAUSE)
    retry = ("retry", "--in", "dlq", "-f", f"cause={CAUSE[:8]}", "--reason", "rolled back")
    assert f"Cause {CAUSE} is counted anew" in dlq(*retry, "--dry-run").stdout
    done = dlq(*retry, "--yes")
    assert done.exit_code == Exit.DONE, done.output
    causes, now = store(orders).read(), time.time()
    assert (causes.held(now), causes.parked, causes.counts) == ({}, {}, {})
    assert "is MENDED" in dlq("groups").output
    assert "rolled back" in dlq("groups").output


@pytest.mark.parametrize("decision", ["park"])
def test_an_unknown_cause_is_refused_with_the_known_ones(
    orders: Any, dlq: Any, decision: str
) -> None:
    before = store(orders).read()
    done = dlq("cause", decision, "beef", "--reason", "x", "--yes")
    assert done.exit_code != Exit.DONE
    assert CAUSE in done.output
    assert store(orders).read() == before


def test_a_decision_needs_a_reason_and_a_yes(orders: Any, dlq: Any, at_a_terminal: None) -> None:
    before = store(orders).read()
    done = dlq("cause", "park", CAUSE, "--reason", "x", answers="n\n")
    assert "Nothing was done" in done.output
    assert "It is HELD now, ValidationError." in done.output
    assert store(orders).read() == before


def test_the_status_says_that_a_cause_dominates(orders: Any, dlq: Any) -> None:
    status = json.loads(dlq("status", "--json").stdout)
    (item,) = [item for item in status["attention"] if item["kind"] == "cause-dominates"]
    assert item["says"].startswith(
        f"a cause of failure, {CAUSE} (ValidationError), suddenly fails most messages"
    )
    assert item["type"] == "dlq groups orders"


def test_the_status_says_that_a_configuration_is_broken(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    for key in ("orders#config", "dependency/payments#config"):
        item = {"pipeline": {"S": "orders"}, "circuit_key": {"S": key}, "state": {"S": "OPEN"}}
        cloud.put("circuits", {**item, "troubled": {"S": "orders"}})
    status = json.loads(dlq("status", "--json").stdout)
    broken = [item for item in status["attention"] if item["kind"] == "configuration"]
    says = [item["says"] for item in broken]
    assert [text.split()[1] for text in says] == ["dependency/payments#config", "orders#config"]
    assert all("why it opened is not on record" in text for text in says)
    assert broken[1]["type"] == "dlq show circuit:'orders#config' --pipeline orders"
