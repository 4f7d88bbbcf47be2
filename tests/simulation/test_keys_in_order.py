"""Two hundred ordering keys through an outage: how many are processed out of order.

Beside it stand the same messages without the setting, which is what SQS's own redrive does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from deadletter.aws.clients import ConsumerClients
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import MINUTE
from deadletter.message.letter import from_api, to_event
from deadletter.processing.delivery import Delivery
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from tests.simulation.stage import Stage

KEYS, VERSIONS = 200, 4

PIPELINE = Pipeline(
    "orders",
    consumer_library=True,
    idempotency_key="body.id",
    ordering_key="body.account",
    sequence="body.version",
    policy=RetryPolicy(Backoff(base=60, cap=600, floor=5), max_attempts=20),
    # The breaker would hold all: here the dependency fails a third of its calls.
    circuit=CircuitPolicy(minimum=1_000_000, consecutive=0),
    poison_lives=50,
)


@dataclass
class Flow:
    """A producer that goes on while a third of the messages fail for ten minutes.

    `shown` is how SQS shows what is in a queue.
    """

    pipeline: Pipeline
    shown: str
    applied: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        random = Random(3) if self.shown == "at random" else None
        self.stage = Stage(self.pipeline, random=random)
        self.lot = Random(5)
        self.began = self.stage.clock()

    def play(self) -> None:
        sent = 0
        for minute in range(600):
            for _ in range(KEYS * VERSIONS // 8 if sent < KEYS * VERSIONS else 0):
                account, version = f"a{sent % KEYS}", sent // KEYS
                body = {"id": f"{account}.{version}", "account": account, "version": version}
                self.stage.put(json.dumps(body))
                sent += 1
            self.stage.clock.advance(30)
            self.consume()
            self.stage.clock.advance(31)
            self.consume()
            self.stage.run()
            if sent == KEYS * VERSIONS and minute > 20 and self.is_empty:
                return
        raise AssertionError("messages are left")

    @property
    def is_empty(self) -> bool:
        return not self.stage.sqs.snapshot() and not self.stage.waiting()

    def consume(self) -> None:
        stage = self.stage
        sqs: Any = stage.consumer_sqs
        dynamodb: Any = stage.dynamodb
        clients = ConsumerClients(sqs=sqs, sending=sqs, dynamodb=dynamodb)
        while True:
            messages = sqs.receive_message(
                QueueUrl=stage.main,
                MaxNumberOfMessages=10,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            ).get("Messages", ())
            if not messages:
                return
            consumer = consumer_for(
                self.pipeline,
                stage.resources,
                clients,
                stage.world,
                handle=self.handle,
                count_metric=lambda *_: None,
            )
            letters = {message["ReceiptHandle"]: from_api(message) for message in messages}
            arn = stage.resources.main_arn
            records = [
                to_event(letter, receipt_handle=handle, source_arn=arn)
                for handle, letter in letters.items()
            ]
            done = consumer.process(records, deadline=stage.clock() + 20)
            for handle, letter in letters.items():
                if letter.message_id not in done.failed:
                    stage.sqs.delete_message(QueueUrl=stage.main, ReceiptHandle=handle)

    def handle(self, delivery: Delivery) -> None:
        if self.stage.clock() < self.began + 600 and self.lot.random() < 1 / 3:
            raise TimeoutError
        body = json.loads(delivery.letter.body)
        self.applied[body["account"]].append(body["version"])

    @property
    def out_of_order(self) -> int:
        """Keys whose versions were not applied upwards."""
        return sum(versions != sorted(versions) for versions in self.applied.values())


@pytest.mark.slow_because("800 messages through an outage, with and without an order")
@pytest.mark.parametrize(
    ("shown", "skipped", "without"),
    [
        pytest.param("as they were sent", 0, 40, marks=pytest.mark.nightly),
        ("at random", 40, 150),
    ],
)
def test_no_key_is_out_of_order_and_without_the_setting_many_are(
    shown: str, skipped: int, without: int
) -> None:
    ordered = Flow(PIPELINE, shown)
    ordered.play()
    assert ordered.out_of_order == 0
    # What SQS shows for the first time after a later one was processed.
    assert KEYS * VERSIONS - sum(map(len, ordered.applied.values())) <= skipped
    as_before = Flow(replace(PIPELINE, ordering_key=None, sequence=None), shown)
    as_before.play()
    assert as_before.out_of_order > without


class BusyKey(Flow):
    """One key, whose dependency fails from minute 1 to 11; by the defaults of a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(replace(pipeline, policy=RetryPolicy()), "as they were sent")
        stage = self.stage
        redrive = {"deadLetterTargetArn": stage.arn(stage.dlq), "maxReceiveCount": 5}
        attributes = {"RedrivePolicy": json.dumps(redrive)}
        stage.sqs.set_queue_attributes(QueueUrl=stage.main, Attributes=attributes)

    def handle(self, delivery: Delivery) -> None:
        if MINUTE <= self.stage.clock() - self.began < 11 * MINUTE:
            raise TimeoutError
        body = json.loads(delivery.letter.body)
        self.applied[body["account"]].append(body["version"])

    def minutes_until_all_are_through(self, messages: int, every: float) -> float:
        sent = 0
        for second in range(0, 5 * 3_600, 10):
            self.stage.clock.now = max(self.stage.clock(), self.began + second)
            while sent < messages and sent * every <= second:
                body = {"id": f"a{sent}", "account": "a", "version": sent}
                self.stage.put(json.dumps(body))
                sent += 1
            self.consume()
            if second % 60 == 0:
                self.stage.run()
            if len(set(self.applied["a"])) == messages:
                return second / MINUTE
        raise AssertionError(f"{len(self.applied['a'])} of {messages} are through")


@pytest.mark.nightly
def test_a_busy_key_is_back_half_an_hour_after_a_trouble() -> None:
    """Sent one at a time, its 60 messages took three hours, and new ones died behind them."""
    flow = BusyKey(PIPELINE)
    assert flow.minutes_until_all_are_through(60, every=20) <= 45
    assert flow.applied["a"] == sorted(flow.applied["a"])
    unordered = BusyKey(replace(PIPELINE, ordering_key=None, sequence=None))
    # The last is sent then.
    assert unordered.minutes_until_all_are_through(60, every=20) >= 19
