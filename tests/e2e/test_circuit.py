"""An outage of the deployed system: from the first trip until the consumer is as it was."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.deployed import Deployed, event
from tests.e2e.receiver import Receiver

# What an outage may cost, with five probes.
MOST_TRANSITIONS = 40

CONSUMER = "deadletter-payments-consumer"


@pytest.fixture
def endpoint(payments: Deployed, receiver: Receiver) -> str:
    """The one tenant of a test, whose endpoint works until the test says otherwise."""
    name = f"c-{uuid.uuid4().hex[:8]}"
    payments.register(name, receiver.url(name))
    return name


@pytest.fixture
def announced(aws: Callable[[str], Any]) -> Iterator[Callable[[], list[str]]]:
    """The states that were announced as events since the test began."""
    sqs, events = aws("sqs"), aws("events")
    url = sqs.create_queue(QueueName=f"announced-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    pattern = {"source": ["deadletter"], "detail-type": ["CircuitStateChanged"]}
    events.put_rule(Name="announced", EventPattern=json.dumps(pattern))
    target = {"Id": "queue", "Arn": arn["Attributes"]["QueueArn"]}
    events.put_targets(Rule="announced", Targets=[target])
    states: list[str] = []

    def so_far() -> list[str]:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            states.append(json.loads(message["Body"])["detail"]["state"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return states

    yield so_far
    events.remove_targets(Rule="announced", Ids=["queue"])
    events.delete_rule(Name="announced")


def circuit(payments: Deployed) -> dict[str, Any]:
    """The pipeline's own circuit as it is stored."""
    table = payments.app["circuits_table"]
    key = {"pipeline": {"S": "payments"}, "circuit_key": {"S": "payments"}}
    item = payments.aws("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True)
    found: dict[str, Any] = item.get("Item", {"state": {"S": "CLOSED"}})
    return found


def state(payments: Deployed) -> str:
    return str(circuit(payments)["state"]["S"])


def mapping(payments: Deployed) -> dict[str, Any]:
    [found] = payments.aws("lambda").list_event_source_mappings(FunctionName=CONSUMER)[
        "EventSourceMappings"
    ]
    return dict(found)


def depth(payments: Deployed, queue: str) -> int:
    kinds = ("", "NotVisible", "Delayed")
    names = [f"ApproximateNumberOfMessages{kind}" for kind in kinds]
    answer = payments.aws("sqs").get_queue_attributes(
        QueueUrl=payments.url(queue), AttributeNames=names
    )
    return sum(int(answer["Attributes"][name]) for name in names)


def executions(payments: Deployed) -> list[dict[str, Any]]:
    machine = payments.outputs["PaymentsCircuitBreakerArn"]
    return list(
        payments.aws("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
    )


def transitions(payments: Deployed, execution: str) -> list[str]:
    """The states that an execution entered, in their order."""
    pages = (
        payments.aws("stepfunctions")
        .get_paginator("get_execution_history")
        .paginate(executionArn=execution)
    )
    return [
        entry["stateEnteredEventDetails"]["name"]
        for page in pages
        for entry in page["events"]
        if "stateEnteredEventDetails" in entry
    ]


def come_to_rest(payments: Deployed) -> None:
    """Wait until nothing of an earlier outage is left: what it paused is ours to enable again.

    A mapping that a person disables meanwhile is disabled already, and so not the person's.
    """

    def is_at_rest() -> bool:
        payments.redrive()
        ours = "paused" in circuit(payments) or mapping(payments)["State"] != "Enabled"
        return state(payments) == "CLOSED" and not ours

    payments.until(is_at_rest, "nothing of the last outage is left")


def break_down(payments: Deployed, receiver: Receiver, endpoint: str) -> None:
    """The endpoint fails until the circuit is open."""
    receiver.statuses[endpoint] = 503
    for _ in range(8):
        payments.send(event(endpoint))
    payments.until(lambda: state(payments) != "CLOSED", "the circuit opens")


def test_an_outage_leaves_the_main_queue_out_of_the_dlq_and_everything_as_it_was(
    payments: Deployed,
    receiver: Receiver,
    endpoint: str,
    announced: Callable[[], list[str]],
) -> None:
    before = mapping(payments)
    payments.send(event(endpoint))
    payments.until(lambda: receiver.bodies[endpoint], "it works as long as the endpoint does")
    assert executions(payments) == []

    break_down(payments, receiver, endpoint)
    payments.until(lambda: mapping(payments)["State"] == "Disabled", "the consumer is paused")
    for _ in range(5):
        payments.send(event(endpoint))
    seen = len(receiver.posts[endpoint])
    assert payments.redrive()["stopped"].startswith("circuit payments is ")
    payments.until(lambda: len(receiver.posts[endpoint]) >= seen + 2, "canaries are sent")
    assert depth(payments, "MainQueue") >= 5

    receiver.statuses[endpoint] = 200
    payments.until(lambda: state(payments) == "CLOSED", "the circuit closes")
    payments.until(lambda: len(receiver.bodies[endpoint]) >= 1 + 5, "what waited is delivered")

    def as_before() -> bool:
        now = mapping(payments)
        return all(now.get(name) == before.get(name) for name in ("State", "ScalingConfig"))

    payments.until(as_before, "the consumer is as it was")
    [execution] = executions(payments)
    payments.until(lambda: executions(payments)[0]["status"] != "RUNNING", "the execution ends")
    assert executions(payments)[0]["status"] == "SUCCEEDED"
    entered = transitions(payments, execution["executionArn"])
    per_probe = 3
    extra = max(0, entered.count("Probe") - 5)
    assert len(entered) <= MOST_TRANSITIONS + per_probe * extra, entered
    assert {"Announce", "Pause", "Cooldown", "Probe", "Judge", "Resume", "Closed"} <= set(entered)
    payments.until(lambda: "CLOSED" in announced(), "the end of the outage is announced")
    assert announced()[0] == "OPEN"

    def drained() -> bool:
        payments.redrive()
        return depth(payments, "Dlq") + depth(payments, "MainQueue") + len(payments.waiting()) == 0

    payments.until(drained, "nothing is left lying about")
    assert len(receiver.bodies[endpoint]) == 1 + 8 + 5


def test_the_kill_switch_stops_re_drives_and_a_mapping_disabled_by_hand_stays_so(
    payments: Deployed, receiver: Receiver, endpoint: str
) -> None:
    """One outage for both: a canary needs no mapping, and a mapping that a person has disabled
    is not the circuit's to enable."""
    come_to_rest(payments)
    functions, uuid_of = payments.aws("lambda"), mapping(payments)["UUID"]
    functions.update_event_source_mapping(UUID=uuid_of, Enabled=False)
    payments.hold()
    payments.send(event(endpoint), "Dlq")
    assert payments.redrive()["stopped"] == "circuit payments is OPEN"
    assert receiver.bodies[endpoint] == []
    payments.dlq("circuit", "release", "-p", "payments", "--reason", "a test", "--yes")

    def closed() -> bool:
        # The sweep of a run starts the execution that sends the canary.
        payments.redrive()
        return state(payments) == "CLOSED" and "paused" not in circuit(payments)

    payments.until(closed, "the circuit closes by its canary")

    def ended() -> bool:
        # One that slept while a person held the circuit wakes at the end of that hold.
        latest = max(executions(payments), key=lambda execution: execution["startDate"])
        return bool(latest["status"] != "RUNNING")

    payments.until(ended, "its execution has ended")
    assert mapping(payments)["State"] == "Disabled"
    functions.update_event_source_mapping(UUID=uuid_of, Enabled=True)

    def delivered() -> bool:
        # A circuit whose outage was over by the hold's end closes without its letter.
        payments.redrive()
        return len(receiver.bodies[endpoint]) == 1

    payments.until(delivered, "the letter is delivered")
