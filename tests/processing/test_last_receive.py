"""A message that fails in its last receive goes to the DLQ at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deadletter.failure.fate import Fate
from deadletter.failure.signals import Transient
from deadletter.processing.last_receive import ASKED_AGAIN, LastReceive
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.clock import Clock
from tests.each_row import each_row
from tests.processing.doubles import UNAVAILABLE, Hidden, Site, record
from tests.samples import letter


@dataclass
class Failing:
    """A consumer whose handler fails with one error, on a queue that gives so many receives."""

    most: int | None = 5
    error: Exception = field(default_factory=lambda: ValueError("x"))
    pipeline: Pipeline = field(default_factory=lambda: Pipeline("orders"))

    def __post_init__(self) -> None:
        self.site = Site(self.pipeline, queue=Hidden(most=self.most), raises={"m1": self.error})
        self.site.last_receive = LastReceive(self.site.queue, self.site.clock)

    def wait(self, receive: int) -> Any:
        result = self.site.process(record(letter(), receive))
        assert [message.fate for message in result.results] == [Fate.FAILED]
        return result.results[0].wait


@each_row(
    ("most", "receive", "is_last"),
    [(5, 4, False), (5, 5, True), (5, 6, True), (2, 2, True), (None, 99, False)],
)
def test_a_message_is_hidden_after_each_receive_but_its_last(
    most: int | None, receive: int, is_last: bool
) -> None:
    failing = Failing(most)
    assert (failing.wait(receive) == 0.0) is is_last
    [[(_, seconds)]] = failing.site.queue.calls
    assert (seconds == 0) is is_last


def test_a_dependency_that_says_when_to_come_back_is_not_called_earlier_than_that() -> None:
    assert Failing(error=Transient(retry_after=234.0)).wait(5) == 234.0
    assert Failing(error=Transient(retry_after=1e9)).wait(5) == Pipeline("orders").retry.cap


def test_a_message_of_a_fifo_group_goes_too_and_the_rest_of_the_group_is_seen_at_once() -> None:
    failing = Failing(pipeline=Pipeline("orders", fifo=True))
    group = [
        record(letter(message_id=name, MessageGroupId="g"), receive)
        for name, receive in (("m1", 5), ("m2", 1))
    ]
    results = failing.site.process(*group).results
    assert [(message.fate.name, message.wait) for message in results] == [
        ("FAILED", 0.0),
        ("HELD_BACK", 0.0),
    ]


def test_the_queue_is_asked_once_in_ten_minutes_and_not_for_first_receives() -> None:
    clock, queue = Clock(), Hidden(most=5)
    last = LastReceive(queue, clock)
    assert not last.is_it(1)
    assert queue.asked == 0
    assert [last.is_it(receive) for receive in (2, 4, 5)] == [False, False, True]
    assert queue.asked == 1
    queue.most = 9
    clock.advance(ASKED_AGAIN)
    assert not last.is_it(5)
    assert queue.asked == 2
    # The clock was set back: what is known may be old.
    clock.advance(-10 * ASKED_AGAIN)
    last.is_it(5)
    assert queue.asked == 3


def test_without_an_answer_the_message_is_hidden_once_more_and_the_queue_is_asked_later() -> None:
    """A role without sqs:GetQueueAttributes: nothing is worse than without the question."""
    clock, queue = Clock(), Hidden(most=5, raises=UNAVAILABLE["queue"]())
    last = LastReceive(queue, clock)
    assert [last.is_it(5), last.is_it(5)] == [False, False]
    assert queue.asked == 1
    queue.raises = None
    clock.advance(ASKED_AGAIN)
    assert last.is_it(5)


def test_a_probe_and_a_replay_run_ask_nothing() -> None:
    failing = Failing()
    failing.site.process(record(letter(), 5), permit="permit")
    failing.site.process(record(letter(), 5), run="r1")
    assert (failing.site.queue.asked, failing.site.queue.calls) == (0, [])
