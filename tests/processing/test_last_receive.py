"""A message that fails in its last receive goes to the DLQ at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from deadletter.contract import Mode
from deadletter.failure.fate import Fate
from deadletter.failure.signals import Permanent, Transient
from deadletter.processing.visibility import ASKED_AGAIN, LastReceive
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
    [(5, 4, False), (5, 5, True), (5, 6, True), (2, 2, True), (1, 1, True), (None, 99, False)],
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


FIFO = Pipeline("orders", fifo=True)


def group_of_two(failing: Failing, receive: int, **call: Any) -> list[tuple[str, Any]]:
    """What becomes of a failing message in this receive, and of the one behind it in its group."""
    group = [
        record(letter(message_id=name, MessageGroupId="g"), count)
        for name, count in (("m1", receive), ("m2", 1))
    ]
    results = failing.site.process(*group, **call).results
    return [(message.fate.name, message.wait) for message in results]


def test_a_message_that_dies_by_its_own_fault_takes_none_of_its_fifo_group_along() -> None:
    """Held back in each receive of the first, the second would die with it, and untried."""
    assert group_of_two(Failing(pipeline=FIFO), 5) == [("FAILED", 0.0), ("PROCESSED", None)]


@pytest.mark.parametrize(
    ("receive", "error", "call"),
    [
        (4, ValueError("x"), {}),
        # No fault of its own: the next one would fail as well.
        (5, ConnectionRefusedError("x"), {}),
        (5, Transient(retry_after=60), {}),
        # It comes back to its probe.
        (5, ValueError("x"), {"permit": "permit"}),
    ],
)
def test_any_other_failure_holds_its_fifo_group_back(
    receive: int, error: Exception, call: Any
) -> None:
    [(first, _), (second, _)] = group_of_two(Failing(error=error, pipeline=FIFO), receive, **call)
    assert (first, second) == ("FAILED", "HELD_BACK")


def test_without_an_answer_of_the_queue_a_group_is_held_back() -> None:
    failing = Failing(None, pipeline=FIFO)
    assert [fate for fate, _ in group_of_two(failing, 99)] == ["FAILED", "HELD_BACK"]


def test_a_message_at_the_head_of_a_fifo_group_waits_a_moment_only() -> None:
    waits = {Failing(pipeline=FIFO).wait(receive) for receive in (1, 2, 3, 4)}
    assert all(1 <= wait <= 2 for wait in waits)
    # A dependency is given time, and so is one that says when to come back.
    assert Failing(error=Transient(retry_after=60), pipeline=FIFO).wait(1) == 60
    assert Failing(error=ConnectionRefusedError("x"), pipeline=FIFO).wait(4) > 2


def test_a_permanent_failure_of_a_fifo_group_waits_once_for_the_counts_and_then_a_moment() -> None:
    pipeline = Pipeline("orders", fifo=True, mode=Mode.OBSERVE)
    failing = Failing(error=Permanent("x"), pipeline=pipeline)
    assert failing.wait(1) is None
    assert 1 <= failing.wait(2) <= 2


def test_a_permanent_failure_waits_for_no_second_receive_where_the_queue_gives_one() -> None:
    pipeline = Pipeline("orders", mode=Mode.OBSERVE)
    failing = Failing(1, error=Permanent("x"), pipeline=pipeline)
    assert failing.wait(1) == 0.0


def test_the_queue_is_asked_once_in_ten_minutes() -> None:
    clock, queue = Clock(), Hidden(most=5)
    last = LastReceive(queue, clock)
    assert [last.is_it(receive) for receive in (1, 4, 5)] == [False, False, True]
    assert queue.asked == 1
    queue.most = 9
    clock.advance(ASKED_AGAIN)
    assert not last.is_it(5)
    assert queue.asked == 2
    # The clock was set back: what is known may be old.
    clock.advance(-10 * ASKED_AGAIN)
    last.is_it(5)
    assert queue.asked == 3


class Slow:
    """A queue that answers when it is let, and says when it was asked."""

    def __init__(self) -> None:
        self.asked, self.let = Event(), Event()

    def max_receives(self) -> int:
        self.asked.set()
        assert self.let.wait(30)
        return 1


def test_all_threads_of_a_process_wait_for_the_one_answer() -> None:
    queue = Slow()
    last = LastReceive(queue, Clock())
    with ThreadPoolExecutor() as threads:
        first = threads.submit(last.is_it, 1)
        assert queue.asked.wait(30)
        second = threads.submit(last.is_it, 1)
        # Without waiting it would be here by now, with another answer.
        waits = wait([second], timeout=0.05).not_done
        queue.let.set()
        assert waits
        assert [first.result(), second.result()] == [True, True]


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
