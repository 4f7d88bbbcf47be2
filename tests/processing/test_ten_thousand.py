"""A batch of 10,000 messages, in a function of a minute whose AWS calls take 10 ms each."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from deadletter.aws.clients import ConsumerClients
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.aws.wiring.world import World
from deadletter.consumer import consume, runtime
from deadletter.consumer.runtime import Runtime
from deadletter.message.letter import Letter, to_event
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.testing import Letterbox

RECORDS = 10_000
FUNCTION, HANDLER, CALL = 60.0, 0.005, 0.010
"""Seconds that the function, the handler of one message and one AWS call take."""


class Slow:
    """A client whose calls take time."""

    def __init__(self, inner: Any, box: Letterbox, calls: Counter[str]) -> None:
        self._inner, self._box, self._calls = inner, box, calls

    def __getattr__(self, name: str) -> Any:
        def call(**options: Any) -> Any:
            self._calls[name] += 1
            self._box.clock.advance(CALL)
            return getattr(self._inner, name)(**options)

        return call


def records() -> list[dict[str, Any]]:
    system = {"SentTimestamp": "1790000000000", "SenderId": "A", "ApproximateReceiveCount": "1"}
    arn = "arn:aws:sqs:us-east-1:123456789012:test-main"
    return [
        to_event(
            Letter(str(UUID(int=number + 1)), json.dumps({"orderId": number}), {}, system),
            receipt_handle=f"handle{number}",
            source_arn=arn,
        )
        for number in range(RECORDS)
    ]


LONG = [
    pytest.param(case, marks=pytest.mark.nightly)
    for case in ("works", "fails", "unreadable", "no claims")
]


@pytest.mark.slow_because("ten thousand messages")
@pytest.mark.parametrize("case", ["refused", *LONG])
def test_it_ends_a_second_before_the_deadline_and_repeats_nothing(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    box, calls = Letterbox(Pipeline("test", idempotency_key="body.orderId")), Counter[str]()
    dynamodb: Any = Slow(box.dynamodb, box, calls)
    sqs: Any = Slow(box.sqs, box, calls)
    if case == "refused":
        box.set_circuit("OPEN")
    if case == "no claims":
        monkeypatch.setattr(box.dynamodb, "put_item", lambda **_: 1 / 0)
        monkeypatch.setattr(box.dynamodb, "update_item", lambda **_: 1 / 0)
    consumer = consumer_for(
        box.settings,
        Resources(
            main_url=box.main,
            parking={"default": box.lot},
            messages_table="messages",
            circuits_table="circuits",
            trusted_senders=("AROA",),
        ),
        ConsumerClients(sqs=sqs, sending=sqs, dynamodb=dynamodb),
        World(clock=box.clock, wait=box.clock.advance, new_id=box.new_id, random=Random(1)),
        count_metric=lambda *_: None,
    )
    current = Runtime(consumer, box.clock, lambda _: None, app="test")
    monkeypatch.setattr(runtime, "current_runtime", lambda: current)
    end = box.clock() + FUNCTION
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: (end - box.clock()) * 1000)
    done: set[str] = set()

    def each(record: Any) -> None:
        box.clock.advance(HANDLER)
        if case == "fails":
            raise TimeoutError("no answer")
        done.add(record["messageId"])

    batch = records()
    if case == "unreadable":
        for record in batch:
            record["attributes"] = None
    response = consume({"Records": batch}, context, each)
    failed = {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
    assert end - box.clock() >= 1
    assert not done & failed
    assert len(done | failed) == RECORDS
    if case == "works":
        most = FUNCTION / (HANDLER + 2 * CALL)
        assert 0.9 * most < len(done) <= most
