"""An outage of the dependency is no fault of the letters that it kills."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from deadletter.aws.ledger import DynamoDBLedger
from deadletter.failure.classify import diagnose
from deadletter.failure.failure import Failure
from deadletter.message import stamp as stamps
from deadletter.message.letter import from_api
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from deadletter.testing.clock import START
from tests.simulation.stage import REDRIVER, Stage
from tests.tables import LETTERS

MINUTE = 60.0
HALF = 31.0
"""Seconds after which a message that failed is visible again."""
OUTAGE = 30 * MINUTE
NEVER = (0.0, 0.0)
MANY = 100


class Unavailable(Exception):
    """What an HTTP client raises."""

    status_code = 503


class NoSuchField(Exception):
    """A bug of the handler, for this message."""


class Consumer:
    """Takes what is visible in the main queue and writes down what fails, receive by receive."""

    def __init__(self, stage: Stage, end: float, error: type[Exception]) -> None:
        self._stage = stage
        self._end = end
        self._error = error
        clients = stage.clients
        self.log = DynamoDBLedger(clients.dynamodb, LETTERS, "orders", stage.clock, 1e6)
        self.processed: Counter[str] = Counter()
        self.proven: Counter[int] = Counter()

    def work(self) -> None:
        stage = self._stage
        for message in stage.take(stage.main):
            letter = from_api(message)
            mark = stamps.read(letter, frozenset({REDRIVER})).stamp
            now = stage.clock()
            if now >= self._end:
                self.processed[mark.origin] += 1
                if mark.attempt and self.log.recovered(mark.origin, mark.attempt, now):
                    self.proven[mark.attempt] += 1
                handle = message["ReceiptHandle"]
                stage.sqs.delete_message(QueueUrl=stage.main, ReceiptHandle=handle)
                continue
            try:
                raise self._error
            except Exception as error:
                found = diagnose(error, letter, now=now)
            self.log.failed(
                mark.origin,
                Failure(
                    at=now,
                    attempt=mark.attempt,
                    category=found.category,
                    error_type=found.error_type,
                    message=found.message,
                    http_status=found.http_status,
                    fingerprint=found.fingerprint,
                    blame=found.blame,
                    receive=int(letter.system["ApproximateReceiveCount"]),
                ),
            )


def scene(policy: RetryPolicy) -> Stage:
    stage = Stage(Pipeline("orders", policy=policy, consumer_library=True, workers=1))
    redrive = {"deadLetterTargetArn": stage.arn(stage.dlq), "maxReceiveCount": 5}
    stage.sqs.set_queue_attributes(
        QueueUrl=stage.main, Attributes={"RedrivePolicy": json.dumps(redrive)}
    )
    return stage


def play(
    stage: Stage, consumer: Consumer, seconds: float, circuit: tuple[float, float]
) -> Counter[str]:
    """The consumer works all the time and each minute a run begins; what the runs decided."""
    decisions: Counter[str] = Counter()
    opens, closes = circuit
    for number in range(int(seconds / HALF)):
        stage.clock.now = max(stage.clock.now, START + number * HALF)
        elapsed = stage.clock.now - START
        stage.set_circuit("OPEN" if opens <= elapsed < closes else "CLOSED")
        consumer.work()
        if number % 2:
            report = stage.run(seconds=20)
            decisions += Counter(report.decisions)
            decisions["most alike"] = max(
                decisions["most alike"], report.counts.get("DominantFailure", 0)
            )
    return decisions


@pytest.mark.parametrize(
    ("policy", "circuit"),
    [
        pytest.param(RetryPolicy(), (3 * MINUTE, OUTAGE + MINUTE), id="the circuit opens"),
        pytest.param(RetryPolicy(max_attempts=10), NEVER, id="no circuit opens"),
    ],
)
def test_no_letter_of_an_outage_is_poison_and_all_recover(
    policy: RetryPolicy, circuit: tuple[float, float]
) -> None:
    stage = scene(policy)
    ids = {stage.put(f'{{"order": {number}}}') for number in range(MANY)}
    consumer = Consumer(stage, START + OUTAGE, Unavailable)
    decisions = play(stage, consumer, 8 * OUTAGE, circuit)
    assert set(consumer.processed) == ids
    assert sum(consumer.processed.values()) == sum(consumer.proven.values()) == MANY
    assert stage.bodies(stage.parking) == stage.bodies(stage.dlq) == []
    assert not any(name.startswith("PARK") for name in decisions)
    # In the first minutes all hundred lay there together, dead of one thing.
    assert decisions["most alike"] == MANY
    assert all(row.recovered_at for row in consumer.log.rows(sorted(ids)).values())


def test_what_a_bug_kills_in_three_lives_is_poison() -> None:
    stage = scene(RetryPolicy())
    for number in range(3):
        stage.put(f'{{"order": {number}}}')
    consumer = Consumer(stage, START + OUTAGE, NoSuchField)
    decisions = play(stage, consumer, 8 * OUTAGE, NEVER)
    assert decisions["PARK:POISON"] == 3
    assert {(mark.attempt, mark.reason) for mark in stage.stamps(stage.parking)} == {(2, "POISON")}
