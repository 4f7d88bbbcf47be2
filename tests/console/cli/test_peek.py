"""`dlq peek`: which letters there are, without taking one."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.failure.failure import Category
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.routing.decision import Hold
from tests.console.conftest import Cloud, Dlq


def read(dlq: Dlq, *arguments: str) -> dict[str, Any]:
    result = dlq("peek", *arguments, "--json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def wait(cloud: Cloud, lane: str, copy: str, body: str = "{}", origin: str = "first") -> None:
    """A letter in a lane of the waiting room."""
    held = Order(
        ReceivedLetter(Letter(copy, body), "", 0.0),
        Hold(lane, time.time() + 600, "circuit orders is OPEN"),
        Stamp(origin, attempt=2, at=int(time.time()) - 60, decision="HOLD"),
    )
    assert cloud._room("orders", cloud.s3).admit([held])


def received(cloud: Cloud, queue: str) -> list[str]:
    """How often each message of a queue has been received."""
    answer = cloud.sqs.receive_message(
        QueueUrl=cloud.urls[queue], MaxNumberOfMessages=10, VisibilityTimeout=0,
        MessageSystemAttributeNames=["All"],
    )  # fmt: skip
    return [each["Attributes"]["ApproximateReceiveCount"] for each in answer.get("Messages", [])]


def test_waiting_letters_and_failing_ones_are_shown_and_none_is_received(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    cloud.letter("{}")
    wait(cloud, "circuit:orders", "copy-1")
    cloud.failed("orders", "first-2", error_type="ReadTimeout", message="no answer")

    answer = read(dlq)

    waiting, failing = answer["letters"]
    assert (waiting["place"], waiting["message_id"], waiting["origin"], waiting["attempts"]) == (
        "lane circuit:orders", "copy-1", "first", 2,
    )  # fmt: skip
    assert (waiting["because"], waiting["body"]) == ("circuit orders is OPEN", None)
    assert (failing["place"], failing["origin"], failing["message_id"]) == (
        "ledger", "first-2", None,
    )  # fmt: skip
    assert (failing["error_type"], failing["because"]) == ("ReadTimeout", "no answer")
    assert failing["category"] == str(Category.TRANSIENT)
    assert answer["looked_at"] == 0
    assert received(cloud, "orders-dlq") == ["1"]


def test_a_lane_by_itself(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    wait(cloud, "due", "copy-1")
    wait(cloud, "circuit:orders", "copy-2")
    cloud.failed("orders", "first-2")

    assert [each["message_id"] for each in read(dlq, "--lane", "due")["letters"]] == ["copy-1"]


def test_an_empty_lane_names_those_that_are_in_use(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    wait(cloud, "due", "copy-1")

    [note] = read(dlq, "--lane", "circuit:orders")["notes"]

    assert note == "Lane circuit:orders of orders is empty: the lanes in use are due."


@pytest.mark.parametrize("lane", ["nope", "run:nope", "circuit:ordres"])
def test_an_unknown_lane_is_absent_and_names_those_that_are_in_use(
    cloud: Cloud, dlq: Dlq, lane: str
) -> None:
    cloud.deploy("orders")
    wait(cloud, "due", "copy-1")

    result = dlq("peek", "--lane", lane)

    assert result.exit_code == Exit.ABSENT
    assert f"orders has no lane '{lane}' in use: the lanes in use are due." in result.stderr


def test_with_bodies_the_dlq_is_looked_into_and_sqs_is_said_to_count_it(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    wait(cloud, "due", "copy-1", body="x" * 9_000)
    cloud.letter('{"order": 7}', kind="order")

    answer = read(dlq, "--show-body")

    waiting, dead = answer["letters"]
    assert waiting["body"] == "x" * 9_000
    assert (dead["place"], dead["body"], dead["attributes"]) == (
        "queue dlq", '{"order": 7}', {"kind": "order"},
    )  # fmt: skip
    assert "SQS counts each look" in answer["notes"][0]
    assert cloud.visible("orders-dlq") == 1


def test_a_bare_queue_needs_no_app(cloud: Cloud, dlq: Dlq) -> None:
    cloud.queue("billing-dlq")
    for number in range(4):
        cloud.letter(str(number), queue="billing-dlq")

    answer = read(dlq, "--queue", "billing-dlq", "--limit", "3")

    assert (answer["pipeline"], answer["queue"], answer["looked_at"]) == (None, "billing-dlq", 3)
    assert [each["body"] for each in answer["letters"]] == [None, None, None]
    assert "SQS counts each look" in answer["notes"][0]
    assert "About 1 more message" in answer["notes"][1]
    assert cloud.visible("billing-dlq") == 4


def test_a_bare_queue_says_the_error_that_an_aws_service_attached(cloud: Cloud, dlq: Dlq) -> None:
    cloud.queue("billing-dlq")
    cloud.letter("{}", queue="billing-dlq", ERROR_CODE="NO_RESOURCE", ERROR_MESSAGE="no such queue")

    shown = dlq("peek", "--queue", "billing-dlq").stdout

    assert "    NO_RESOURCE: no such queue\n" in shown


@pytest.mark.parametrize("more", [("--pipeline", "orders"), ("--lane", "due")])
def test_a_bare_queue_is_named_by_itself(dlq: Dlq, more: tuple[str, str]) -> None:
    result = dlq("peek", "--queue", "billing-dlq", *more)

    assert result.exit_code == 2
    assert "leave out --pipeline and --lane" in result.stderr


def test_a_body_cannot_control_the_terminal(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    wait(cloud, "due", "copy-1", body="\x1b[2Jgone\n" + "y" * 3_000)

    shown = dlq("peek", "--show-body").stdout

    assert r"\x1b[2Jgone\n" in shown
    assert "1,009 more characters: see --json" in shown
    assert "dlq explain first" in shown


def test_no_more_letters_than_asked_for(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    for number in range(3):
        wait(cloud, "due", f"copy-{number}")
        cloud.failed("orders", f"first-{number}")

    assert len(read(dlq, "--limit", "2")["letters"]) == 2
    assert len(read(dlq, "--limit", "5")["letters"]) == 5
