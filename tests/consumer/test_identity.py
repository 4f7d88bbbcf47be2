"""One message is processed once however it is published again, and never another in its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from deadletter.consumer import consumer, runtime
from deadletter.contract import DAY
from deadletter.message import stamp as stamps
from deadletter.message.stamp import Stamp
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.letterbox import Letterbox

ORDER = {"orderId": "7", "lines": [{"sku": "a", "price": 10.5}]}

Wrap = Callable[[Any, int], Any]


def raw(body: Any, _publish: int) -> Any:
    return body


def sns(body: Any, publish: int) -> dict[str, Any]:
    """A notification of SNS: each publishing has its own id, time and signature."""
    return {
        "Type": "Notification",
        "MessageId": f"00000000-0000-4000-8000-{publish:012}",
        "TopicArn": "arn:aws:sns:eu-west-1:111122223333:orders",
        "Message": body if isinstance(body, str) else json.dumps(body, indent=publish or None),
        "Timestamp": f"2026-11-22T10:00:{publish:02}.000Z",
        "SignatureVersion": "1",
        "Signature": f"signature{publish}",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/cert.pem",
        "UnsubscribeURL": f"https://sns.eu-west-1.amazonaws.com/?token={publish}",
    }


def eventbridge(body: Any, publish: int) -> dict[str, Any]:
    return {
        "version": "0",
        "id": f"00000000-0000-4000-8000-{publish:012}",
        "detail-type": "OrderPlaced",
        "source": "shop",
        "account": "111122223333",
        "time": f"2026-11-22T10:00:{publish:02}Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": body,
    }


def event_by_topic(body: Any, publish: int) -> dict[str, Any]:
    return sns(eventbridge(body, publish), publish)


WRAPS: tuple[Wrap, ...] = (raw, sns, eventbridge, event_by_topic)


class Shop:
    """A consumer and the orders that it has processed."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, in_first_day: bool = False, **settings: Any
    ) -> None:
        pipeline = Pipeline("orders", **{"idempotency_key": "body.orderId", **settings})
        self.box = Letterbox(pipeline, in_first_day=in_first_day)
        self.processed: list[str] = []
        monkeypatch.setattr(runtime, "current_runtime", lambda: self.box.runtime)

    def receive(self, *bodies: Any) -> list[str]:
        """Send messages and run the consumer; returns the bodies that it processed now."""
        before = len(self.processed)
        for body in bodies:
            self.box.send(body)

        @consumer
        def handler(record: Any) -> None:
            self.processed.append(record["body"])

        while self.box.run(handler).received:
            pass
        return self.processed[before:]


Open = Callable[..., Shop]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Open:
    return lambda **settings: Shop(monkeypatch, **settings)


@pytest.mark.parametrize("again", WRAPS)
@pytest.mark.parametrize("first", WRAPS)
def test_a_message_that_is_published_again_is_processed_once(
    shop: Open, first: Wrap, again: Wrap
) -> None:
    orders = shop()
    assert len(orders.receive(first(ORDER, 1))) == 1
    assert orders.receive(*(again(ORDER, number) for number in range(2, 6))) == []
    assert orders.box.metrics["dedup.skip"] == 4
    assert orders.box.parked == []


def test_the_attributes_of_a_notification_are_those_of_the_message(shop: Open) -> None:
    orders = shop(idempotency_key="attributes.key")
    orders.box.send(ORDER, attributes={"key": "7", "kind": "order"})
    assert len(orders.receive()) == 1
    values = {"key": "7", "kind": "order"}
    attributes = {name: {"Type": "String", "Value": value} for name, value in values.items()}
    assert orders.receive({**sns(ORDER, 2), "MessageAttributes": attributes}) == []
    assert orders.box.metrics["dedup.skip"] == 1
    attributes["kind"]["Value"] = "refund"
    assert orders.receive({**sns(ORDER, 3), "MessageAttributes": attributes}) == []
    [parked] = orders.box.parked
    assert str(parked.stamp.because).endswith("it differs in attributes.kind")


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("compared", ["none", "body.lines", "[body.lines, body.coupon]"])
def test_a_new_time_within_the_message_makes_no_difference_if_the_settings_say_so(
    shop: Open, wrap: Wrap, compared: str
) -> None:
    orders = shop(idempotency_payload=compared)
    bodies = [wrap({**ORDER, "sentAt": number}, number) for number in range(5)]
    assert len(orders.receive(*bodies)) == 1
    assert orders.box.metrics["dedup.skip"] == 4


@pytest.mark.parametrize("wrap", WRAPS)
def test_the_order_of_keys_and_the_form_of_a_number_make_no_difference(
    shop: Open, wrap: Wrap
) -> None:
    orders = shop()
    turned = {"lines": [{"price": 10.50, "sku": "a"}], "orderId": "7"}
    assert len(orders.receive(wrap(ORDER, 1), wrap(turned, 2))) == 1


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_message_that_differs_is_parked_with_the_paths_and_not_processed(
    shop: Open, wrap: Wrap
) -> None:
    orders = shop()
    dearer = {"orderId": "7", "lines": [{"sku": "a", "price": 11}], "coupon": "x"}
    assert len(orders.receive(wrap(ORDER, 1), wrap(dearer, 2))) == 1
    [parked] = orders.box.parked
    assert parked.stamp.reason == "KEY_CONFLICT"
    assert parked.stamp.because == (
        "another message with its idempotency key was processed; it differs in body.coupon,"
        " body.lines[].price"
    )
    assert json.loads(parked.body) == wrap(dearer, 2)
    assert orders.box.metrics["IdempotencyCollision"] == 1
    assert orders.box.metrics["MessageMovedToParkingLot"] == 1
    # The one that was parked is not taken for the one that was processed.
    assert orders.receive(wrap(ORDER, 3)) == []


def test_what_an_event_is_counts_and_when_it_was_sent_does_not(shop: Open) -> None:
    orders = shop()
    cancelled = {**eventbridge(ORDER, 1), "detail-type": "OrderCancelled"}
    assert len(orders.receive(eventbridge(ORDER, 1), cancelled)) == 1
    [parked] = orders.box.parked
    assert str(parked.stamp.because).endswith("it differs in the facts of EventBridge")


def test_the_same_text_of_two_topics_is_not_one_message(shop: Open) -> None:
    orders = shop()
    elsewhere = {**sns(ORDER, 2), "TopicArn": "arn:aws:sns:eu-west-1:111122223333:cancelled"}
    assert len(orders.receive(sns(ORDER, 1), elsewhere)) == 1
    assert len(orders.box.parked) == 1


def test_no_value_of_a_message_is_in_what_is_said_of_its_paths(shop: Open) -> None:
    orders = shop()
    one, two = ({"orderId": "7", "of": {"anna@example.com": n}, "to": "Berlin"} for n in (1, 2))
    orders.receive(one, two)
    [parked] = orders.box.parked
    assert str(parked.stamp.because).endswith("it differs in body.of.…")
    assert "anna" not in "".join(orders.box.lines)


def test_a_pipeline_counts_in_its_first_day_and_parks_then(shop: Open) -> None:
    orders = shop(in_first_day=True)
    assert len(orders.receive({"orderId": "7", "n": 1}, {"orderId": "7", "n": 2})) == 2
    assert orders.receive({"orderId": "7", "n": 2}) == []
    assert orders.box.metrics["IdempotencyCollision"] == 1
    [line] = [line for line in map(json.loads, orders.box.lines) if "trouble" in line]
    assert (line["trouble"], line["why"]) == ("IdempotencyCollision", "differs in body.n")
    orders.box.clock.advance(DAY)
    assert orders.receive({"orderId": "7", "n": 3}) == []
    assert [parked.stamp.reason for parked in orders.box.parked] == ["KEY_CONFLICT"]
    # It was processed in the first day: a copy of it is a duplicate and no collision.
    assert orders.receive({"orderId": "7", "n": 2}) == []
    assert len(orders.box.parked) == 1


def test_the_first_day_is_the_pipelines_and_not_the_processs(shop: Open) -> None:
    orders = shop(in_first_day=True)
    orders.receive({"orderId": "7", "n": 1})
    orders.box.clock.advance(DAY)
    orders.box._runtime = None
    assert orders.receive({"orderId": "7", "n": 2}) == []
    assert len(orders.box.parked) == 1


def test_while_many_messages_collide_none_is_parked_and_the_pipeline_pages(shop: Open) -> None:
    orders = shop()
    orders.receive({"orderId": "7", "at": 0})
    processed = orders.receive(*({"orderId": "7", "at": n} for n in range(1, 100)))
    assert len(orders.box.parked) == 19
    assert len(processed) == 99 - 19
    assert orders.box.metrics["ManyCollisions"] == 80
    # Until a window has gone by without so many.
    orders.box.clock.advance(9 * 60)
    assert len(orders.receive({"orderId": "7", "at": 200})) == 1
    orders.box.clock.advance(21 * 60)
    assert orders.receive({"orderId": "7", "at": 201}) == []
    assert len(orders.box.parked) == 20


def test_few_collisions_among_many_messages_are_parked_however_many_they_are(shop: Open) -> None:
    orders = shop()
    orders.receive({"orderId": "7", "at": 0})
    for number in range(30):
        orders.receive(*({"orderId": f"{number}-{n}"} for n in range(25)))
        assert orders.receive({"orderId": "7", "at": number + 1}) == []
    assert len(orders.box.parked) == 30


def released(orders: Shop, body: Any, *, accept: str | None = "collision") -> list[str]:
    """What a person's release of a parked letter brings back."""
    mark = stamps.attribute(Stamp("origin", 0, 1, "AIDAPRODUCER", accept=accept))
    orders.box._send(
        orders.box.sqs.as_sender("AROAREDRIVER:release"),
        body,
        {stamps.NAME: str(mark.value)},
        None,
    )
    return orders.receive()


def test_a_collision_that_a_person_accepts_is_processed_once(shop: Open) -> None:
    orders = shop()
    orders.receive(ORDER, {"orderId": "7", "n": 2})
    assert len(released(orders, {"orderId": "7", "n": 2})) == 1
    assert released(orders, {"orderId": "7", "n": 2}) == []
    assert orders.box.metrics["dedup.skip"] == 1
    assert len(orders.box.parked) == 1
    # Another message is still another one.
    assert orders.receive({"orderId": "7", "n": 3}) == []
    assert len(orders.box.parked) == 2


def test_a_release_that_accepts_nothing_collides_again(shop: Open) -> None:
    orders = shop()
    orders.receive(ORDER, {"orderId": "7", "n": 2})
    assert released(orders, {"orderId": "7", "n": 2}, accept=None) == []
    assert len(orders.box.parked) == 2


def test_no_producer_can_accept_a_collision(shop: Open) -> None:
    """Only a stamp of our own roles is believed."""
    orders = shop()
    orders.receive(ORDER)
    mark = stamps.attribute(Stamp("origin", accept="collision"))
    orders.box.send({"orderId": "7", "n": 2}, attributes={stamps.NAME: str(mark.value)})
    assert orders.receive() == []
    assert len(orders.box.parked) == 1


def lines_of(shop: Shop) -> list[Any]:
    return [line for line in map(json.loads, shop.box.lines) if "trouble" in line]


def test_a_message_without_the_key_is_counted_and_its_reason_said_once(shop: Open) -> None:
    orders = shop()
    keyless = [{"secret": "Rumpelstiltskin"}, {"orderId": None}, "no JSON", {"order": 7}]
    assert len(orders.receive(*keyless, {"orderId": "7"})) == 5
    assert orders.box.metrics["IdempotencyKeyMissing"] == 4
    [line] = lines_of(orders)
    assert (line["trouble"], line["why"]) == (
        "IdempotencyKeyMissing",
        "idempotency_key finds nothing in the message",
    )
    orders.receive({"orderId": ["Rumpelstiltskin"]}, {"orderId": True}, {"orderId": " "})
    orders.receive({})
    assert [line["why"] for line in lines_of(orders)[1:]] == [
        "what idempotency_key finds is neither a text nor a number, or empty"
    ]
    assert orders.box.metrics["IdempotencyKeyMissing"] == 8
    assert "Rumpelstiltskin" not in "".join(orders.box.lines)


def test_a_pipeline_that_names_no_key_misses_none(shop: Open) -> None:
    orders = shop(idempotency_key=None)
    orders.receive({})
    assert "IdempotencyKeyMissing" not in orders.box.metrics
