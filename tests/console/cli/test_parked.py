"""`dlq parked show`: one parked letter, which stays where it is."""

from __future__ import annotations

import json
from typing import Any

from console.cli.exit import Exit


def visible(cloud: Any, queue: str = "orders-parking-default") -> int:
    name = "ApproximateNumberOfMessages"
    answer = cloud.sqs.get_queue_attributes(QueueUrl=cloud.urls[queue], AttributeNames=[name])
    return int(answer["Attributes"][name])


def test_a_letter_is_shown_with_its_failures(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.failed("orders", "first-life", error_type="KeyError", message="no price", attempt=2)
    sent = cloud.park("orders", "POISON", body='{"card": "4111-x"}', attempt=3)
    cloud.park("orders", "EXPIRED", origin="another")
    for id_ in (sent, "first-life"):
        letter = json.loads(dlq("parked", "show", id_, "--json").stdout)
        assert (letter["message_id"], letter["reason"], letter["attempts"]) == (sent, "POISON", 3)
        assert [failure["error_type"] for failure in letter["failures"]] == ["KeyError"]
        assert letter["body"] is letter["attributes"] is None
    output = dlq("parked", "show", sent).stdout
    assert "POISON: it is POISON" in output
    assert "KeyError: no price" in output
    assert f"dlq parked release --pipeline orders --id {sent}" in output
    assert "4111-x" not in output
    assert "4111-x" in dlq("parked", "show", sent, "--show-body").stdout
    assert visible(cloud) == 2


def test_a_rescued_letter_is_shown(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    sent = cloud.rescued("orders", "POISON", 1_000)
    letter = json.loads(dlq("parked", "show", sent, "--json").stdout)
    assert letter["rescued"] is True
    assert letter["queue"] == "default"


def test_a_letter_that_is_not_parked_is_not_shown(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.park("orders", "POISON")
    done = dlq("parked", "show", "nope")
    assert done.exit_code == Exit.ABSENT
    assert "nope is not among the parked letters of orders (1 letter looked at" in done.stderr
