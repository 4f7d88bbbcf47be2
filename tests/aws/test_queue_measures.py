"""What CloudWatch is told of the queues in memory, and what their retention drops."""

from __future__ import annotations

import itertools
import json

import pytest

from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemorySqs


class Account:
    """A main queue and its DLQ, of one type."""

    def __init__(self, *, fifo: bool = False, retention: int = 345_600) -> None:
        self.clock = Clock()
        numbers = itertools.count(1)
        self.sqs = MemorySqs(self.clock, lambda: f"id-{next(numbers)}")
        self.suffix = ".fifo" if fifo else ""
        traits = {"FifoQueue": "true"} if fifo else {}
        keep = {"MessageRetentionPeriod": str(retention)}
        self.dlq = self._create(f"dead{self.suffix}", {**traits, **keep})
        arn = self.sqs.get_queue_attributes(QueueUrl=self.dlq, AttributeNames=["QueueArn"])
        policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 1}
        self.main = self._create(
            f"main{self.suffix}", {**traits, **keep, "RedrivePolicy": json.dumps(policy)}
        )
        self.fifo = fifo

    def _create(self, name: str, attributes: dict[str, str]) -> str:
        return str(self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def send(self, url: str, body: str = "a", **options: int) -> None:
        group = {"MessageGroupId": "g", "MessageDeduplicationId": body} if self.fifo else {}
        self.sqs.send_message(QueueUrl=url, MessageBody=body, **group, **options)

    def look(self, url: str, times: int = 1) -> None:
        """Receive a message and give it back at once."""
        for _ in range(times):
            self.sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)

    def die(self) -> None:
        """Receive what is in the main queue once too often."""
        self.look(self.main, 2)

    def age(self, url: str) -> float:
        return self.sqs.measures()[url.rpartition("/")[2]].age


def test_an_empty_queue_has_age_0() -> None:
    account = Account()
    account.clock.advance(100)
    assert account.age(account.dlq) == 0


def test_the_age_counts_from_the_send() -> None:
    account = Account()
    account.send(account.dlq)
    account.clock.advance(100)
    account.send(account.dlq)
    assert account.age(account.dlq) == 100


def test_in_a_dead_letter_queue_the_age_counts_from_the_move() -> None:
    account = Account()
    account.send(account.main)
    account.clock.advance(1_000)
    account.die()
    account.clock.advance(100)
    assert account.age(account.dlq) == 100


def test_a_message_received_three_times_no_longer_counts() -> None:
    account = Account()
    account.send(account.dlq)
    account.clock.advance(100)
    account.look(account.dlq, 2)
    assert account.age(account.dlq) == 100
    account.look(account.dlq)
    assert account.age(account.dlq) == 0
    assert account.sqs.measures()["dead"].visible == 1


def test_the_next_oldest_message_counts_in_its_place() -> None:
    account = Account()
    account.send(account.dlq)
    account.look(account.dlq, 3)
    account.clock.advance(50)
    account.send(account.dlq, "b")
    account.clock.advance(50)
    assert account.age(account.dlq) == 50


def test_receives_before_the_move_do_not_hide_a_dead_letter() -> None:
    account = Account()
    account.send(account.main)
    account.die()
    account.look(account.dlq, 2)
    account.clock.advance(100)
    assert account.age(account.dlq) == 100


def test_on_fifo_every_message_counts() -> None:
    account = Account(fifo=True)
    account.send(account.dlq)
    account.look(account.dlq, 5)
    account.clock.advance(100)
    assert account.age(account.dlq) == 100


def test_visible_hidden_and_delayed_messages_are_told_apart() -> None:
    account = Account()
    for body in "abc":
        account.send(account.dlq, body)
    account.send(account.dlq, "later", DelaySeconds=60)
    account.sqs.receive_message(QueueUrl=account.dlq)
    measure = account.sqs.measures()["dead"]
    assert (measure.visible, measure.not_visible, measure.delayed) == (2, 1, 1)


@pytest.mark.parametrize(("fifo", "lives"), [(False, False), (True, True)])
def test_retention_counts_from_the_first_send_and_on_fifo_from_the_move(
    fifo: bool, lives: bool
) -> None:
    account = Account(fifo=fifo, retention=1_000)
    account.send(account.main)
    account.clock.advance(900)
    account.die()
    account.clock.advance(200)
    assert bool(account.sqs.snapshot()) is lives
    assert account.sqs.expired() == ([] if lives else [("dead", "id-1")])


def test_retention_drops_a_message_in_flight_too() -> None:
    account = Account(retention=60)
    account.send(account.dlq)
    account.sqs.receive_message(QueueUrl=account.dlq, VisibilityTimeout=600)
    account.clock.advance(61)
    assert account.sqs.expired() == [("dead", "id-1")]


def test_a_queue_tells_when_it_was_made() -> None:
    account = Account()
    made = account.clock()
    account.clock.advance(5_000)
    answer = account.sqs.get_queue_attributes(
        QueueUrl=account.dlq, AttributeNames=["CreatedTimestamp"]
    )
    assert answer["Attributes"] == {"CreatedTimestamp": str(int(made))}
