"""`dlq show` of a pipeline: the policy in force is what is deployed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.cli.exit import Exit
from tests.console.conftest import redrive_policy


def test_the_policy_in_force_is_shown_with_its_defaults(cloud: Any, dlq: Any) -> None:
    cloud.deploy(
        "orders",
        settings={
            "policy": {"max_attempts": 3},
            "policies": {"slow": {"backoff": {"base": 600}}},
            "rate": 5.0,
        },
    )
    answer = json.loads(dlq("show orders --json").stdout)["pipeline"]
    assert answer["policy"]["max_attempts"] == 3
    assert answer["policy"]["ceilings"] == [60, 120, 240]
    assert answer["policies"]["slow"]["ceilings"][0] == 600
    assert answer["settings"]["rate"] == 5.0
    assert answer["queues"]["main"]["name"] == "orders-main"
    shown = dlq("show orders").stdout
    assert "Attempts: 3, after at most 1 min, 2 min, 4 min" in shown
    assert "message_ttl" in shown
    assert "It has no alarm" in shown


def test_it_says_how_often_a_message_is_tried_at_most(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    assert json.loads(dlq("show --json").stdout)["pipeline"]["most_tries"] is None
    assert "an unknown number of times" in dlq("show").stdout
    redrive = {"RedrivePolicy": redrive_policy("orders-dlq")}
    cloud.sqs.set_queue_attributes(QueueUrl=cloud.urls["orders-main"], Attributes=redrive)
    assert json.loads(dlq("show --json").stdout)["pipeline"]["most_tries"] == 35
    assert "35 times at most: 5 receives in each of 7 attempts" in dlq("show").stdout


@pytest.mark.parametrize(
    ("mode", "says"), [("enforce", "none: a day before SQS"), ("observe", "SQS deletes them")]
)
def test_it_says_what_becomes_of_parked_messages(
    cloud: Any, dlq: Any, mode: str, says: str
) -> None:
    cloud.deploy("orders", settings={"mode": mode})
    assert json.loads(dlq("show --json").stdout)["pipeline"]["parked_end"].startswith(says)
    assert f"End of parked messages: {says}" in dlq("show").stdout


def test_alarms_say_in_words_when_they_ring(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.alarm(
        "deadletter-orders-DlqAge", MetricName="ApproximateAgeOfOldestMessage",
        EvaluationPeriods=3, Threshold=3600,
    )  # fmt: skip
    (alarm,) = json.loads(dlq("show --json").stdout)["pipeline"]["alarms"]
    assert alarm["when"] == "ApproximateAgeOfOldestMessage > 3600 in 3 of 3 periods of 60 s"


def test_a_queue_that_is_gone_is_named_and_the_rest_is_shown(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.sqs.delete_queue(QueueUrl=cloud.urls["orders-dlq"])
    done = dlq("show orders --json", ends=Exit.ATTENTION)
    answer = json.loads(done.stdout)["pipeline"]
    assert answer["queues"]["dlq"] is None
    assert answer["unread"][0].startswith("queue dlq could not be read: ")
