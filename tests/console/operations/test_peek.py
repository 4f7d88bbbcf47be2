"""When a look into a queue ends."""

from __future__ import annotations

from typing import Any

import pytest

from console.operations import peek as peeking
from console.operations.peek import Peeked, peek


class Queue:
    """A queue that answers each receive with the next of some batches, then with nothing."""

    def __init__(self, *batches: list[str]) -> None:
        self.batches = list(batches)
        self.waits: list[int] = []

    def receive_message(self, **request: Any) -> Any:
        self.waits.append(request["WaitTimeSeconds"])
        names = self.batches.pop(0) if self.batches else []
        return {"Messages": [{"MessageId": name, "ReceiptHandle": name} for name in names]}

    def change_message_visibility_batch(self, **_: Any) -> Any:
        return {"Failed": []}


@pytest.fixture(autouse=True)
def _polls_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peeking, "POLL_SECONDS", 1)


def look(queue: Queue, visible: int | None, wanted: int = 20) -> Peeked:
    seen: list[Any] = []
    return peek(
        queue,  # type: ignore[arg-type]
        "url",
        missing=lambda: wanted - len(seen),
        see=seen.append,
        now=lambda: 0.0,
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
