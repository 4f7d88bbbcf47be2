"""When a look into a queue ends."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from console.operations import letter_walk as peeking
from console.operations.letter_walk import SAMPLE, Peeked, look_into_queue


class Queue:
    """A queue that answers each receive with the next of these batches or errors, then nothing."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.waits: list[int] = []
        self.hidden: list[int] = []
        self.given_back: list[str] = []
        self.give_back_fails = False

    def receive_message(self, **request: Any) -> Any:
        self.waits.append(request["WaitTimeSeconds"])
        self.hidden.append(request["VisibilityTimeout"])
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, BaseException):
            raise answer
        return {"Messages": [
            {"MessageId": name, "ReceiptHandle": f"{name}{len(self.hidden)}", "Body": "{}"}
            for name in answer
        ]}  # fmt: skip

    def change_message_visibility_batch(self, **request: Any) -> Any:
        if self.give_back_fails:
            raise ClientError({"Error": {"Code": "Throttling"}}, "Change")
        assert len(request["Entries"]) <= 10
        assert all(entry["VisibilityTimeout"] == 0 for entry in request["Entries"])
        self.given_back += [entry["ReceiptHandle"] for entry in request["Entries"]]
        return {"Failed": []}


@pytest.fixture(autouse=True)
def _polls_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peeking, "POLL_SECONDS", 1)


def look(
    queue: Queue, visible: int | None, wanted: int = 20, now: Callable[[], float] = lambda: 0.0
) -> Peeked:
    seen: list[Any] = []
    session: Any = SimpleNamespace(aws=SimpleNamespace(sqs=queue), clock=now)
    return look_into_queue(
        session,
        "url",
        "dlq",
        seen.append,
        reach=SAMPLE,
        missing=lambda: wanted - len(seen),
        visible=visible,
    )


def test_who_has_seen_as_many_as_sqs_counts_waits_no_more() -> None:
    queue = Queue(["a", "b"], ["c"])

    assert look(queue, visible=3) == Peeked(3, 0, is_whole=True)

    assert queue.waits == [1, 1, 0]


def test_messages_that_sqs_has_not_counted_yet_are_seen_too() -> None:
    queue = Queue(["a"], ["b"], ["c"])

    assert look(queue, visible=1).looked_at == 3


def test_a_queue_that_is_said_to_be_empty_is_polled_once_for_long() -> None:
    queue = Queue()

    assert look(queue, visible=0) == Peeked(0, 0, is_whole=True)

    assert queue.waits == [1]


def test_a_message_in_a_queue_that_is_said_to_be_empty_is_seen() -> None:
    assert look(Queue(["a"]), visible=0).looked_at == 1


def test_two_long_polls_find_nothing_before_the_count_of_sqs_is_doubted() -> None:
    queue = Queue(["a"], [], ["b"])

    assert look(queue, visible=3) == Peeked(2, 0, is_whole=True)

    assert queue.waits == [1, 1, 1, 1, 1]


def test_without_a_count_each_poll_is_long() -> None:
    queue = Queue(["a"])

    assert look(queue, visible=None).looked_at == 1

    assert queue.waits == [1, 1, 1]


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ClientError({"Error": {"Code": "OverLimit"}}, "ReceiveMessage")]
)
def test_messages_are_given_back_even_after_ctrl_c_or_an_error(error: BaseException) -> None:
    queue = Queue(["a", "b"], error)
    with pytest.raises(type(error)):
        look(queue, None)
    assert queue.given_back == ["a1", "b1"]


def test_messages_that_can_not_be_given_back_are_counted_not_fatal() -> None:
    queue = Queue(["a", "b"])
    queue.give_back_fails = True
    assert look(queue, None) == Peeked(2, 2)


def test_a_message_that_comes_twice_is_given_back_by_its_last_receipt() -> None:
    queue = Queue(["a"], ["a", "b"])
    assert look(queue, None).looked_at == 2
    assert queue.given_back == ["a2", "b2"]


def test_messages_are_hidden_for_our_own_time_not_the_queues() -> None:
    queue = Queue(["a"])
    look(queue, None, wanted=1)
    assert queue.hidden == [peeking.HIDDEN]


def test_a_look_ends_before_the_first_message_would_come_back() -> None:
    times = iter(range(0, 1_000, 6))
    queue = Queue(*([str(number)] for number in range(100)))
    assert look(queue, None, wanted=100, now=lambda: float(next(times))).looked_at == 3


def test_a_look_receives_no_more_than_its_reach() -> None:
    queue = Queue(*([f"{batch}-{n}" for n in range(10)] for batch in range(200)))
    assert look(queue, None, wanted=5_000).looked_at == peeking.MOST
