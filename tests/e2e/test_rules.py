"""Rules typed into the table of the deployed app learn within seconds what they are."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.deployed import Deployed, event
from tests.e2e.receiver import Receiver

Columns = dict[str, Any]


@pytest.fixture
def rule_id(orders: Deployed) -> Iterator[str]:
    """A rule of this test alone, gone when it is over."""
    name = f"rule-{uuid.uuid4().hex[:8]}"
    yield name
    orders.remove_rule(name)


@pytest.fixture(scope="session")
def heard(aws: Callable[[str], Any]) -> Callable[[str], list[dict[str, Any]]]:
    """The events about a rule that a subscriber has received so far."""
    sqs, events = aws("sqs"), aws("events")
    url = sqs.create_queue(QueueName="refused-rules")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    events.put_rule(Name="refused-rules", EventPattern=json.dumps({"source": ["deadletter"]}))
    events.put_targets(Rule="refused-rules", Targets=[{"Id": "queue", "Arn": arn["QueueArn"]}])
    got: list[dict[str, Any]] = []

    def look(rule_id: str) -> list[dict[str, Any]]:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            got.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [event for event in got if event["detail"].get("rule_id") == rule_id]

    return look


def now(orders: Deployed) -> datetime:
    return datetime.fromtimestamp(orders.sandbox.time(), UTC)


def item(orders: Deployed, rule_id: str, pipeline: str = "orders") -> Columns:
    """The rule's columns as they stand in the table, as text."""
    answer = orders.aws("dynamodb").get_item(
        TableName=orders.outputs["RulesTableName"],
        Key={"pipeline": {"S": pipeline}, "rule_id": {"S": rule_id}},
        ConsistentRead=True,
    )
    return {name: next(iter(value.values())) for name, value in answer.get("Item", {}).items()}


def until(orders: Deployed, rule_id: str, status: str, pipeline: str = "orders") -> Columns:
    """The rule's columns as soon as they carry this verdict."""

    def look() -> Columns | None:
        columns = item(orders, rule_id, pipeline)
        return columns if columns.get("status") == status else None

    return orders.until(look, f"{rule_id} is {status}")


def history(orders: Deployed, rule_id: str) -> list[Columns]:
    answer = orders.aws("dynamodb").query(
        TableName=orders.app["audit_table"],
        KeyConditionExpression="pk = :rule",
        ExpressionAttributeValues={":rule": {"S": f"orders#{rule_id}"}},
    )
    return list(answer["Items"])


def test_a_rule_typed_as_raw_attributes_is_valid_within_seconds(
    orders: Deployed, rule_id: str
) -> None:
    typed = now(orders).replace(microsecond=0)
    orders.add_rule(rule_id, tenantId="t-1", action="quarantine", max_matches="5")
    columns = until(orders, rule_id, "VALID")
    assert "status_reason" not in columns
    assert typed <= datetime.fromisoformat(columns["checked_at"]) <= now(orders)
    # What was typed stays as it was typed.
    assert (columns["action"], columns["max_matches"]) == ("quarantine", "5")


def test_a_broken_rule_reports_itself(
    orders: Deployed, rule_id: str, heard: Callable[[str], list[dict[str, Any]]]
) -> None:
    orders.add_rule(rule_id, tenantId="t-secret", action="QUARANTINE", tenant="t-secret")
    reason = until(orders, rule_id, "INVALID")["status_reason"]
    assert reason.startswith("unknown field 'tenant'; did you mean tenantId? allowed")
    [event] = orders.until(lambda: heard(rule_id), "the event arrives")
    assert (event["source"], event["detail-type"]) == ("deadletter", "RuleRefused")
    detail = event["detail"]
    # An event says nothing that was typed; the row says it to those who may read rules.
    untyped = reason.replace(" 'tenant'; did you mean tenantId?", ";")
    assert (detail["pipeline"], detail["rule_id"], detail["reason"]) == ("orders", rule_id, untyped)
    assert "t-secret" not in json.dumps(event)

    assert orders.until(lambda: orders.counted("RuleTrouble"), "the figure is published")


def test_an_edit_that_mends_a_rule_clears_its_verdict_and_the_history_has_both(
    orders: Deployed, rule_id: str
) -> None:
    orders.add_rule(rule_id, tenantId="t-1", action="PURGE")
    until(orders, rule_id, "INVALID")
    orders.aws("dynamodb").update_item(
        TableName=orders.outputs["RulesTableName"],
        Key={"pipeline": {"S": "orders"}, "rule_id": {"S": rule_id}},
        UpdateExpression="SET #action = :hold",
        ExpressionAttributeNames={"#action": "action"},
        ExpressionAttributeValues={":hold": {"S": "HOLD"}},
    )
    assert "status_reason" not in until(orders, rule_id, "VALID")
    orders.remove_rule(rule_id)
    rows = orders.until(
        lambda: rows if len(rows := history(orders, rule_id)) >= 3 else None, "three changes"
    )
    actions = [
        tuple(
            row.get(image, {}).get("M", {}).get("action", {}).get("S") for image in ("old", "new")
        )
        for row in rows
    ]
    # In their order, and without our own writes.
    assert actions == [(None, "PURGE"), ("PURGE", "HOLD"), ("HOLD", None)]
    assert not any("status" in row.get("new", {}).get("M", {}) for row in rows)


def test_a_rule_of_a_pipeline_that_does_not_exist_says_so(orders: Deployed, rule_id: str) -> None:
    key = {"pipeline": {"S": "order"}, "rule_id": {"S": rule_id}}
    table = orders.outputs["RulesTableName"]
    orders.aws("dynamodb").put_item(
        TableName=table, Item={**key, "tenantId": {"S": "t-1"}, "action": {"S": "HOLD"}}
    )
    reason = until(orders, rule_id, "INVALID", "order")["status_reason"]
    assert re.match(
        r"no pipeline is named 'order'; did you mean orders\? there are (\w+, )*orders\b", reason
    )
    orders.aws("dynamodb").delete_item(TableName=table, Key=key)


def test_a_late_record_does_not_overwrite_the_verdict_on_a_newer_edit(
    orders: Deployed, rule_id: str
) -> None:
    orders.add_rule(rule_id, tenantId="t-1", action="HOLD")
    verdict = until(orders, rule_id, "VALID")
    key = {"pipeline": {"S": "orders"}, "rule_id": {"S": rule_id}}
    late = {
        "eventID": uuid.uuid4().hex,
        "eventName": "INSERT",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_795_000_000,
            "SequenceNumber": "1",
            "Keys": key,
            "NewImage": {**key, "tenantId": {"S": "t-1"}, "action": {"S": "PURGE"}},
        },
    }
    answer = orders.aws("lambda").invoke(
        FunctionName="deadletter-check-rules", Payload=json.dumps({"Records": [late]})
    )
    assert json.loads(answer["Payload"].read()) == {"batchItemFailures": []}
    assert item(orders, rule_id) == verdict


def test_a_rule_changed_by_dlq_is_one_change_and_one_changed_elsewhere_another(
    orders: Deployed, rule_id: str
) -> None:
    said = ("--reason", "a test", "--expires", "1h", "--yes")
    rule = ("-f", "tenant=t-1", "--action", "hold", "--pipeline", "orders")
    orders.dlq("rules", "add", rule_id, *rule, *said)
    until(orders, rule_id, "VALID")
    orders.aws("dynamodb").update_item(
        TableName=orders.outputs["RulesTableName"],
        Key={"pipeline": {"S": "orders"}, "rule_id": {"S": rule_id}},
        UpdateExpression="SET #action = :default",
        ExpressionAttributeNames={"#action": "action"},
        ExpressionAttributeValues={":default": {"S": "DEFAULT"}},
    )

    def look() -> list[Columns] | None:
        changes = orders.dlq("audit", "orders", "-f", "text~rules", "--limit", "1000")["changes"]
        mine = [change for change in changes if change["target"] == f"rule {rule_id}"]
        return mine if len(history(orders, rule_id)) == 2 else None

    changes = orders.until(look, f"both changes of {rule_id} are in the history")
    # A stream tells the time of a change to the second, so two of one second have no order.
    [added] = [change for change in changes if change["via"] == "dlq"]
    [edited] = [change for change in changes if change["via"] == "outside dlq"]
    assert added["command"] == "rules add"
    assert (edited["command"], edited["who"]) == ("rules edit", None)
    assert edited["before"]["action"] == "HOLD"
    assert edited["after"]["action"] == "DEFAULT"


def test_an_edit_reaches_letters_that_wait_and_a_slip_is_taken_back(
    orders: Deployed, receiver: Receiver, rule_id: str
) -> None:
    """A HOLD that is narrowed lets its letters go; a mistyped delay is undone, or recalled."""
    tenant = f"t-{uuid.uuid4().hex[:8]}"
    orders.register(tenant, receiver.url(tenant))
    said = ("--pipeline", "orders", "--reason", "a test", "--yes")
    add = ("rules", "add", rule_id, "-f", f"tenant={tenant}", *said, "--expires", "1h")

    def lanes() -> list[str]:
        """The lanes of this tenant's letters."""
        waiting = [item["lane"]["S"].split("|")[1] for item in orders.waiting()]
        return [lane for lane in waiting if lane.endswith(f":{rule_id}")]

    def after_runs(expected: list[str], what: str) -> None:
        orders.redrive_until(lambda _: lanes() == expected, what)

    def ruled() -> None:
        orders.until_ruled({rule_id: event(tenant, kind="kept")})

    orders.dlq(*add, "--action", "hold")
    ruled()
    for kind in ("freed", "kept"):
        orders.send(event(tenant, kind=kind), "Dlq")
    after_runs([f"rule:{rule_id}"] * 2, "both letters are held")
    orders.dlq(*add, "--action", "hold", "-f", "body.kind=kept", "--replace")
    ruled()
    after_runs([f"rule:{rule_id}"], "the letter that is not held any more has left")

    # A delay that was mistyped counts from when the letter began to wait, once it is undone.
    for delay in ("2h", "20h"):
        orders.dlq(*add, "--action", f"delayed_redrive={delay}", "--replace")
    ruled()
    orders.send(event(tenant, kind="kept"), "Dlq")
    delay = f"delay:{rule_id}"
    orders.redrive_until(lambda _: delay in lanes(), "the letter waits for twenty hours")
    orders.dlq("rules", "undo", rule_id, *said)
    ruled()

    def hours() -> float:
        [waiting] = [item for item in orders.waiting() if f"|{delay}|" in item["lane"]["S"]]
        return (int(waiting["due"]["N"]) - orders.sandbox.time()) / 3_600

    orders.redrive_until(lambda _: 1.5 < hours() < 2, "it waits for two hours")
    assert orders.dlq("retry", "--in", f"rule:{rule_id}", *said)["due"] == 1
    orders.redrive_until(lambda _: lanes() == [], "it has left")
    orders.until(lambda: len(receiver.bodies[tenant]) == 3, "all three are delivered")
