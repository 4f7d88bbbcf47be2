"""What the deployed consumer writes down, counts, signs and gives up."""

from __future__ import annotations

import base64
import json
import os
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from deadletter.contract import Category
from tests.e2e import canaries
from tests.e2e.deployed import Deployed, event
from tests.e2e.receiver import Post, Receiver
from tests.events.emitted import problems


@pytest.fixture
def secrets(orders: Deployed, tenant: str) -> dict[str, str]:
    """Two signing secrets of the tenant in Secrets Manager, by name."""
    made = {
        f"deadletter/webhooks/{tenant}-{number}": "whsec_"
        + base64.b64encode(os.urandom(32)).decode()
        for number in (1, 2)
    }
    for name, value in made.items():
        orders.aws("secretsmanager").create_secret(Name=name, SecretString=value)
    return made


def die(
    orders: Deployed, receiver: Receiver, tenant: str, *, status: int = 503, **options: Any
) -> str:
    """Send a message whose endpoint is down until it is a letter; its MessageId."""
    receiver.statuses[tenant] = status
    message_id = orders.send(event(tenant), **options)
    orders.until(lambda: orders.dead(message_id), "the letter dies")
    receiver.statuses[tenant] = 200
    return message_id


def heal(orders: Deployed, receiver: Receiver, tenant: str) -> None:
    """Re-drive until the endpoint, up again, has it."""

    def delivered() -> bool:
        if not receiver.bodies[tenant]:
            orders.redrive()
        return bool(receiver.bodies[tenant])

    orders.until(delivered, "the letter is delivered")


def test_a_redriven_letter_that_is_processed_is_recovered_in_its_row(
    orders: Deployed, receiver: Receiver, tenant: str
) -> None:
    orders.settle()
    successes, began = orders.counted("RedriveSuccess"), orders.sandbox.time()
    message_id = die(orders, receiver, tenant)
    assert orders.row(message_id).recovered_at is None
    heal(orders, receiver, tenant)
    orders.until(lambda: orders.row(message_id).recovered_at, "its row says so")
    row = orders.row(message_id)
    assert row.recovered_attempt == 1
    assert row.recovered_at is not None
    assert began < row.recovered_at < orders.sandbox.time()
    # Why it had died is not forgotten.
    assert [failure.http_status for failure in row.failures] == [503]
    orders.until(lambda: orders.counted("RedriveSuccess") == successes + 1, "it is counted, once")


def test_a_cause_that_appears_is_announced(
    orders: Deployed, receiver: Receiver, tenant: str
) -> None:
    """The watch runs by its schedule: an event comes at its next minute."""
    sqs, events = orders.aws("sqs"), orders.aws("events")
    name = f"news-{tenant}"
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    # Every event: each that the code emits has to be as the schema says.
    events.put_rule(Name=name, EventPattern=json.dumps({"source": ["deadletter"]}))
    target = {"Id": "queue", "Arn": arn["Attributes"]["QueueArn"]}
    events.put_targets(Rule=name, Targets=[target])
    news: list[dict[str, Any]] = []
    # No other test answers so: the cause is new.
    message_id = die(orders, receiver, tenant, status=507)
    [failure, *_] = orders.row(message_id).failures

    def announced() -> list[dict[str, Any]]:
        orders.aws("lambda").invoke(FunctionName="deadletter-orders-watch")
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            came = json.loads(message["Body"])
            assert problems(came["detail-type"], came["detail"]) == []
            news.append(came["detail"] | {"type": came["detail-type"]})
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [each for each in news if each.get("cause") == failure.fingerprint]

    [cause] = orders.until(announced, "the cause is announced")
    events.remove_targets(Rule=name, Ids=["queue"])
    events.delete_rule(Name=name)
    assert (cause["type"], cause["http_status"]) == ("CauseAppeared", 507)
    assert (cause["messages"], cause["sample"]) == (1, message_id)
    assert not [secret for secret in (*canaries.ALL, tenant) if secret in json.dumps(cause)]
    heal(orders, receiver, tenant)


def test_a_failures_row_says_why_and_nothing_of_the_message(
    orders: Deployed, receiver: Receiver, tenant: str
) -> None:
    _says_why(orders, receiver, tenant, 503, Category.TRANSIENT, "EndpointBusy")
    _says_why(orders, receiver, tenant, 404, Category.INTEGRATION, "EndpointUnfit")


def _says_why(
    orders: Deployed,
    receiver: Receiver,
    tenant: str,
    status: int,
    category: Category,
    error_type: str,
) -> None:
    receiver.statuses[tenant] = status
    receiver.bodies[tenant].clear()
    message_id = orders.send(event(tenant))
    orders.until(lambda: orders.row(message_id).failures, "the failure is written down")
    receiver.statuses[tenant] = 200
    [failure] = orders.row(message_id).failures
    assert (failure.category, failure.http_status) == (category, status)
    assert (failure.error_type, failure.message) == (error_type, f"the endpoint answered {status}")
    assert re.fullmatch("[0-9a-f]{16}", failure.fingerprint)
    assert (failure.attempt, failure.receive) == (0, 1)
    assert failure.queue == "deadletter-orders-main"
    row = orders.item(message_id)
    # The values that rules and people ask for, and nothing else of the message.
    assert row.pop("context")["M"]["tenantId"] == {"S": tenant}
    assert tenant in row.pop("endpoint")["S"]
    stored = json.dumps(row)
    assert not [secret for secret in (*canaries.ALL, tenant, "tenantId") if secret in stored]
    heal(orders, receiver, tenant)


def test_one_business_key_is_delivered_once(
    orders: Deployed, receiver: Receiver, tenant: str
) -> None:
    orders.settle()
    skipped, collisions = orders.counted("dedup.skip"), orders.counted("IdempotencyCollision")
    body = event(tenant, orderId=f"order-{tenant}", n=1)
    orders.send(body)
    orders.until(lambda: receiver.bodies[tenant], "the first is delivered")
    orders.send(body)
    orders.until(lambda: orders.counted("dedup.skip") == skipped + 1, "the second is skipped")
    # The same key with another payload is another message.
    other = event(tenant, orderId=f"order-{tenant}", n=2)
    orders.send(other)
    orders.until(lambda: len(receiver.bodies[tenant]) > 1, "the other one is delivered")
    assert receiver.bodies[tenant] == [body, other]
    ids = {post.headers["webhook-id"] for post in receiver.posts[tenant]}
    assert len(ids) == 2
    orders.until(
        lambda: orders.counted("IdempotencyCollision") == collisions + 1, "the collision is counted"
    )


def test_each_attempt_is_signed_with_every_secret_and_has_the_same_id(
    orders: Deployed, receiver: Receiver, tenant: str, secrets: dict[str, str]
) -> None:
    orders.register(tenant, receiver.url(tenant), list(secrets))
    began = datetime.fromtimestamp(int(orders.sandbox.time()), UTC)
    message_id = die(orders, receiver, tenant)
    heal(orders, receiver, tenant)
    refused, taken = receiver.posts[tenant]
    assert (refused.status, taken.status) == (503, 200)
    for post in (refused, taken):
        for secret in secrets.values():
            assert is_signed(post, secret)
        assert began <= sent(post) <= datetime.fromtimestamp(orders.sandbox.time(), UTC)
    assert {post.headers["webhook-id"] for post in (refused, taken)} == {message_id}
    assert [post.headers["webhook-attempt"] for post in (refused, taken)] == ["1", "2"]


def is_signed(post: Post, secret: str) -> bool:
    """Whether a receiver who knows the secret takes it, but for its time: that is the app's."""
    signed = Webhook(secret).sign(post.headers["webhook-id"], sent(post), post.body.decode())
    return signed in post.headers["webhook-signature"].split()


def sent(post: Post) -> datetime:
    return datetime.fromtimestamp(int(post.headers["webhook-timestamp"]), UTC)


def test_an_endpoint_that_is_gone_is_disabled_and_asked_no_more(
    orders: Deployed, receiver: Receiver, tenant: str
) -> None:
    receiver.statuses[tenant] = 410
    first = orders.send(event(tenant))
    key = {"tenant": {"S": tenant}, "endpoint": {"S": "default"}}

    def row() -> dict[str, Any]:
        answer = orders.aws("dynamodb").get_item(TableName=orders.app["endpoints_table"], Key=key)
        found: dict[str, Any] = answer["Item"]
        return found

    orders.until(lambda: row().get("enabled") == {"BOOL": False}, "it is disabled")
    assert row()["disabled_because"] == {"S": "it answered 410"}
    assert [failure.http_status for failure in orders.row(first).failures] == [410]
    [shown] = [
        endpoint
        for endpoint in orders.dlq("endpoint", "list")["endpoints"]
        if endpoint["tenant"] == tenant
    ]
    assert (shown["standing"], shown["because"]) == ("disabled", "it answered 410")

    def untried() -> list[str]:
        # A process may remember the row for some seconds.
        message_id = orders.send(event(tenant))
        orders.until(lambda: orders.row(message_id).failures, "it has failed")
        return [
            failure.message
            for failure in orders.row(message_id).failures
            if not failure.http_status
        ]

    assert orders.until(untried, "one is not posted any more") == ["the endpoint is disabled"]
    assert {post.status for post in receiver.posts[tenant]} == {410}
    orders.settle()


def test_a_malformed_body_is_parked_by_the_consumer_in_its_first_life(
    payments: Deployed, receiver: Receiver, tenant: str
) -> None:
    bad = payments.send(f'{{"tenantId": "{tenant}", "note": {canaries.BODY}')
    nested = payments.send("[" * 20_000 + tenant)
    payments.send(event(tenant))
    [*letters] = payments.until(
        lambda: found if len(found := payments.parked(tenant)) == 2 else None, "both are parked"
    )
    payments.until(lambda: receiver.bodies[tenant], "their neighbour is delivered")
    stamps = [payments.stamp_of(letter) for letter in letters]
    assert {mark["origin"] for mark in stamps} == {bad, nested}
    for stamp in stamps:
        assert (stamp["reason"], stamp["attempt"]) == ("PERMANENT", 0)
        assert stamp["because"].startswith("failed for good (schema: ")
        # At its second receive, if no other test has made its cause known.
        *_, failure = payments.row(stamp["origin"]).failures
        assert failure.category is Category.SCHEMA
        assert failure.receive <= 2
        assert (failure.error_type, failure.http_status) == ("MessageUnfit", None)
    assert not payments.dead(bad)
    assert not payments.dead(nested)


def test_a_letter_with_ten_attributes_heals(
    orders: Deployed, receiver: Receiver, tenant: str
) -> None:
    attributes = {
        f"a{number}": {"DataType": "String", "StringValue": f"{number}"} for number in range(10)
    }
    message_id = die(orders, receiver, tenant, MessageAttributes=attributes)
    heal(orders, receiver, tenant)
    # The copy could not say which letter it was; the ledger could.
    orders.until(lambda: orders.row(message_id).recovered_at, "its first row says so")
    assert orders.row(message_id).recovered_attempt == 1
    assert receiver.bodies[tenant] == [event(tenant)]
