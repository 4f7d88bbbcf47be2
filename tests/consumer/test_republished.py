"""What Pipes, S3 and CloudEvents write anew each time is no part of a message.

The events have the shape of the samples that AWS and CloudEvents publish, with values of our own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.consumer.test_identity import Open, eventbridge, raw, shop, sns

__all__ = ["shop"]

ORDER = {"orderId": "7", "count": 1}


def dynamodb(order: Any, publish: int) -> dict[str, Any]:
    """A record of a table's stream, as a pipe sends it."""
    image = {"orderId": {"S": order["orderId"]}, "count": {"N": str(order["count"])}}
    return {
        "eventID": f"{publish:032x}",
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_760_000_000 + publish,
            "Keys": {"orderId": {"S": order["orderId"]}},
            "NewImage": image,
            "SequenceNumber": f"{111_000_000_000 + publish}",
            "SizeBytes": 26 + publish,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:111122223333:table/orders/stream/2026-01-01",
    }


def kinesis(order: Any, publish: int) -> dict[str, Any]:
    """A record of a stream, as a pipe sends it."""
    sequence = f"{49590338271490256608559692538361571095921575989136588898 + publish}"
    return {
        "kinesisSchemaVersion": "1.0",
        "partitionKey": f"random {publish}",
        "sequenceNumber": sequence,
        "data": base64.b64encode(json.dumps(order).encode()).decode(),
        "approximateArrivalTimestamp": 1_760_000_000.5 + publish,
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"shardId-000000000006:{sequence}",
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": f"arn:aws:iam::111122223333:role/pipe-{publish}",
        "awsRegion": "eu-west-1",
        "eventSourceARN": "arn:aws:kinesis:eu-west-1:111122223333:stream/orders",
    }


def s3(order: Any, publish: int) -> dict[str, Any]:
    """A notification of a bucket."""
    return {
        "Records": [
            {
                "eventVersion": f"2.{publish}",
                "eventSource": "aws:s3",
                "awsRegion": "eu-west-1",
                "eventTime": f"2026-11-22T10:00:{publish:02}.000Z",
                "eventName": "ObjectCreated:Put",
                "userIdentity": {"principalId": "AWS:AROAUPLOADER"},
                "requestParameters": {"sourceIPAddress": f"192.0.2.{publish}"},
                "responseElements": {
                    "x-amz-request-id": f"REQUEST{publish}",
                    "x-amz-id-2": f"id of host {publish}",
                },
                "s3": {
                    "s3SchemaVersion": "1.0",
                    "configurationId": "orders",
                    "bucket": {
                        "name": "orders",
                        "ownerIdentity": {"principalId": "A1OWNER"},
                        "arn": "arn:aws:s3:::orders",
                    },
                    "object": {
                        "key": order["orderId"],
                        "size": order["count"],
                        "eTag": "0123456789abcdef0123456789abcdef",
                        "sequencer": f"{publish:018X}",
                    },
                },
            }
        ]
    }


def s3_by_topic(order: Any, publish: int) -> dict[str, Any]:
    return sns(s3(order, publish), publish)


def s3_by_eventbridge(order: Any, publish: int) -> dict[str, Any]:
    """An event of a bucket that sends to EventBridge."""
    detail = {
        "version": "0",
        "bucket": {"name": "orders"},
        "object": {
            "key": order["orderId"],
            "size": order["count"],
            "etag": "0123456789abcdef0123456789abcdef",
            "sequencer": f"{publish:018X}",
        },
        "request-id": f"REQUEST{publish}",
        "requester": "111122223333",
        "source-ip-address": f"192.0.2.{publish}",
        "reason": "PutObject",
    }
    event = {"source": "aws.s3", "detail-type": "Object Created"}
    return {**eventbridge(detail, publish), **event}


def cloudevent(order: Any, publish: int) -> dict[str, Any]:
    """An event in the JSON form of CloudEvents."""
    return {
        "specversion": "1.0",
        "id": f"event {publish}",
        "source": "/shop/orders",
        "type": "com.example.order.placed",
        "subject": order["orderId"],
        "time": f"2026-11-22T10:00:{publish:02}Z",
        "datacontenttype": "application/json",
        "traceparent": f"00-{publish:032x}-{publish:016x}-01",
        "tracestate": f"vendor={publish}",
        "data": order,
    }


def cloudevent_in_base64(order: Any, publish: int) -> dict[str, Any]:
    event = cloudevent(order, publish)
    del event["data"]
    return {**event, "data_base64": base64.b64encode(json.dumps(order).encode()).decode()}


def cloudevent_by_eventbridge(order: Any, publish: int) -> dict[str, Any]:
    return eventbridge(cloudevent(order, publish), publish)


def change_by_topic_and_bus(order: Any, publish: int) -> dict[str, Any]:
    return sns(eventbridge(dynamodb(order, publish), publish), publish)


@dataclass(frozen=True)
class Form:
    """How an order is published, and where its key stands then."""

    publish: Callable[[Any, int], Any]
    key: str = "body.orderId"

    def __str__(self) -> str:
        return self.publish.__name__


FORMS = [
    Form(dynamodb, "body.dynamodb.NewImage.orderId.S"),
    Form(change_by_topic_and_bus, "body.dynamodb.NewImage.orderId.S"),
    Form(kinesis),
    *(Form(each, "body.Records[0].s3.object.key") for each in (s3, s3_by_topic)),
    Form(s3_by_eventbridge, "body.detail.object.key"),
    *map(Form, (cloudevent, cloudevent_in_base64, cloudevent_by_eventbridge)),
    Form(cloudevent, "body.data.orderId"),
]


@pytest.mark.parametrize("in_first_day", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_an_order_that_is_published_again_is_processed_once_and_asks_for_no_person(
    shop: Open, form: Form, in_first_day: bool
) -> None:
    """From the first minute on: the first day makes no difference."""
    orders = shop(idempotency_key=form.key, in_first_day=in_first_day)
    assert len(orders.receive(*(form.publish(ORDER, number) for number in range(20)))) == 1
    assert orders.box.metrics["dedup.skip"] == 19
    assert "IdempotencyCollision" not in orders.box.metrics
    assert orders.box.parked == []


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_an_order_that_differs_waits_for_a_person(shop: Open, form: Form) -> None:
    orders = shop(idempotency_key=form.key)
    other = {**ORDER, "count": 2}
    assert len(orders.receive(form.publish(ORDER, 1), form.publish(other, 2))) == 1
    [parked] = orders.box.parked
    assert parked.stamp.reason == "KEY_CONFLICT"


@pytest.mark.parametrize(
    ("publish", "key", "change"),
    [
        (dynamodb, "body.dynamodb.Keys.orderId.S", {"eventName": "REMOVE"}),
        (cloudevent, "body.orderId", {"type": "com.example.order.cancelled"}),
        (kinesis, "body.orderId", {"eventSourceARN": "arn:aws:kinesis:eu-west-1:1:stream/b"}),
        (s3, "body.Records[0].s3.object.key", {"s3": {"object": {"key": "7"}}}),
    ],
)
def test_what_happened_is_part_of_the_message(
    shop: Open, publish: Callable[..., Any], key: str, change: Mapping[str, Any]
) -> None:
    orders = shop(idempotency_key=key)
    first, other = publish(ORDER, 1), publish(ORDER, 2)
    other = {"Records": [{**other["Records"][0], **change}]} if publish is s3 else other | change
    assert len(orders.receive(first, other)) == 1
    assert len(orders.box.parked) == 1


@pytest.mark.parametrize("again", [kinesis, cloudevent, cloudevent_in_base64, raw, sns])
@pytest.mark.parametrize("first", [kinesis, cloudevent, cloudevent_in_base64, raw, sns])
def test_one_order_may_come_by_two_ways(
    shop: Open, first: Callable[..., Any], again: Callable[..., Any]
) -> None:
    orders = shop()
    assert len(orders.receive(first(ORDER, 1), again(ORDER, 2))) == 1
    assert orders.box.parked == []


@pytest.mark.parametrize("prefix", ["ce-", "ce_", "cloudEvents_"])
def test_the_attributes_of_one_cloudevent_are_no_part_of_the_message(
    shop: Open, prefix: str
) -> None:
    """The binary mode of CloudEvents: its context stands in the attributes of the message."""
    orders = shop()

    def send(publish: int, kind: str) -> None:
        event = cloudevent(ORDER, publish)
        names = ("specversion", "id", "source", "time", "traceparent", "tracestate")
        context = {f"{prefix}{name}": event[name] for name in names}
        orders.box.send(ORDER, attributes={**context, f"{prefix}type": kind})

    for publish in range(5):
        send(publish, "placed")
    assert len(orders.receive()) == 1
    assert orders.box.metrics["dedup.skip"] == 4
    send(6, "cancelled")
    assert orders.receive() == []
    assert len(orders.box.parked) == 1


def test_an_attribute_of_a_name_like_that_is_the_producers_own(shop: Open) -> None:
    orders = shop()
    orders.box.send(ORDER, attributes={"ce-id": "1"})
    orders.box.send(ORDER, attributes={"ce-id": "2"})
    assert len(orders.receive()) == 1
    assert len(orders.box.parked) == 1


def test_traces_in_the_attributes_of_a_notification_are_no_part_of_the_message(
    shop: Open,
) -> None:
    orders = shop()
    for publish in range(3):
        trace = {"Type": "String", "Value": f"00-{publish:032x}-{publish:016x}-01"}
        orders.box.send({**sns(ORDER, publish), "MessageAttributes": {"traceparent": trace}})
    assert len(orders.receive()) == 1
    assert orders.box.parked == []
