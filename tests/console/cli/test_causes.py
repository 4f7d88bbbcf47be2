"""Sudden causes: their mark, what is shown of one, and the end of a hold."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.aws.causes import DynamoDBCauses

CAUSE = "0123456789abcdef"


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` whose messages suddenly fail."""
    cloud.deploy("orders")
    cloud.sudden(CAUSE)
    return cloud


RETRY = ("retry", "--in", "dlq", "-f", f"cause={CAUSE[:8]}", "--reason", "rolled back")


def test_a_cause_that_is_retried_is_counted_anew(orders: Any, functions: Any, dlq: Any) -> None:
    orders.failed("orders", orders.letter("{}"), fingerprint=CAUSE)
    assert f"Cause {CAUSE} is counted anew" in dlq(*RETRY, "--dry-run").stdout
    dlq(*RETRY, "--yes", ends=Exit.DONE)
    causes, now = DynamoDBCauses(orders.dynamodb, "circuits", "orders", str).read(), time.time()
    assert (causes.held(now), causes.counts) == ({}, {})
    assert "is MENDED" in dlq("groups").output
    assert "rolled back" in dlq("groups").output


def test_a_cause_is_shown_with_its_hold_its_messages_and_what_people_did(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.failed("orders", orders.letter("{}"), fingerprint=CAUSE)
    [held] = json.loads(dlq(f"show cause:{CAUSE[:8]} --json").stdout)["causes"]
    assert (held["pipeline"], held["cause"]) == ("orders", CAUSE)
    assert (held["state"]["state"], held["group"]["messages"]) == ("HELD", 1)
    assert held["changes"] == []
    page = dlq(f"show cause:{CAUSE}").stdout
    assert "Cause 01234567 (ValidationError) is HELD for " in page
    assert "No change of it is on record." in page
    dlq(*RETRY, "--yes")
    [mended] = json.loads(dlq(f"show cause:{CAUSE} --json").stdout)["causes"]
    assert (mended["state"]["state"], mended["state"]["reason"]) == ("MENDED", "rolled back")
    [change] = mended["changes"]
    assert (change["command"], change["why"]) == ("retry", "rolled back")
    assert "retry: cause 0123456789abcdef of orders" in dlq(f"show cause:{CAUSE}").stdout


def test_an_unknown_cause_is_refused(orders: Any, dlq: Any) -> None:
    dlq("show cause:beef", ends=Exit.ABSENT, refuses="No cause 'beef' fails messages")


def test_the_status_says_that_a_configuration_is_broken(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    for key in ("orders#config", "dependency/payments#config"):
        item = {"pipeline": {"S": "orders"}, "circuit_key": {"S": key}, "state": {"S": "OPEN"}}
        cloud.put("circuits", {**item, "troubled": {"S": "orders"}})
    status = json.loads(dlq("status --json").stdout)
    broken = [item for item in status["attention"] if item["kind"] == "configuration"]
    says = [item["says"] for item in broken]
    assert [text.split()[1] for text in says] == ["dependency/payments#config", "orders#config"]
    assert all("why it opened is not on record" in text for text in says)
    assert broken[1]["type"] == "dlq show circuit:'orders#config' --pipeline orders"
