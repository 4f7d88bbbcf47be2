"""A look into a parking queue, when things go wrong in it."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from console.operations import parked
from console.operations.parked import ParkedFilter
from deadletter.contract import Reason
from tests.each_row import each_row


@each_row(
    "value",
    ["", "nonsense", "[" * 50_000, '{"origin": 1}', '{"origin": "a", "at": 1' + "0" * 400 + "}",
     '{"origin": "a", "first_sent": 1' + "0" * 400 + "}"],
)  # fmt: skip
def test_a_malformed_attribute_stops_nothing(value: str) -> None:
    message: Any = {
        "MessageId": "m",
        "Body": "b",
        "MessageAttributes": {"Redrive": {"DataType": "String", "StringValue": value}},
    }
    letter = parked.parked(message, "default", body=False)
    assert letter.message_id == "m"
    assert letter.parked_at is None


def test_size_counts_body_and_attributes_as_sqs_does() -> None:
    message: Any = {
        "MessageId": "m",
        "Body": "é",
        "MessageAttributes": {
            "a": {"DataType": "String", "StringValue": "xyz"},
            "bin": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
        },
    }
    assert parked.parked(message, "default", body=False).size == 2 + (1 + 6 + 3) + (3 + 6 + 2)


class Queue:
    """A parking queue in which things go wrong."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.given_back: list[str] = []
        self.give_back_fails: Any = None

    def receive_message(self, **request: Any) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, BaseException):
            raise answer
        return {"Messages": answer}

    def change_message_visibility_batch(self, **request: Any) -> Any:
        if self.give_back_fails is not None:
            raise self.give_back_fails
        assert len(request["Entries"]) <= 10
        assert all(entry["VisibilityTimeout"] == 0 for entry in request["Entries"])
        self.given_back += [entry["ReceiptHandle"] for entry in request["Entries"]]
        return {"Failed": []}


def message(name: str, receipt: str = "") -> Any:
    return {"MessageId": name, "ReceiptHandle": receipt or f"receipt-{name}", "Body": ""}


def peek(queue: Queue, wanted: ParkedFilter, clock: Any = lambda: 0.0) -> parked.ParkedLook:
    return parked.peek(queue, "default", "url", wanted, clock)  # type: ignore[arg-type]


def test_letters_are_given_back_even_after_ctrl_c() -> None:
    queue = Queue([message("a"), message("b")], KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        peek(queue, ParkedFilter(10))
    assert queue.given_back == ["receipt-a", "receipt-b"]


def test_letters_are_given_back_after_an_error() -> None:
    queue = Queue([message("a")], ClientError({"Error": {"Code": "OverLimit"}}, "ReceiveMessage"))
    with pytest.raises(ClientError):
        peek(queue, ParkedFilter(10))
    assert queue.given_back == ["receipt-a"]


def test_letters_that_can_not_be_given_back_are_counted_not_fatal() -> None:
    queue = Queue([message("a"), message("b")])
    queue.give_back_fails = ClientError({"Error": {"Code": "Throttling"}}, "Change")
    look = peek(queue, ParkedFilter(10))
    assert [letter.message_id for letter in look.letters] == ["a", "b"]
    assert look.not_given_back == 2


def test_a_letter_that_comes_twice_is_given_back_by_its_last_receipt() -> None:
    queue = Queue([message("a", "first")], [message("a", "second"), message("b")])
    look = peek(queue, ParkedFilter(10))
    assert [letter.message_id for letter in look.letters] == ["a", "b"]
    assert look.looked_at == 2
    assert queue.given_back == ["second", "receipt-b"]


def test_a_single_empty_poll_does_not_end_the_look() -> None:
    queue = Queue([], [message("a")], [], [])
    assert [letter.message_id for letter in peek(queue, ParkedFilter(10)).letters] == ["a"]
    assert len(queue.asked) == 4


def test_letters_are_hidden_for_our_own_time_not_the_queues() -> None:
    queue = Queue([message("a")])
    peek(queue, ParkedFilter(1))
    assert [request["VisibilityTimeout"] for request in queue.asked] == [30]


def test_looking_ends_before_the_first_letter_would_come_back() -> None:
    times = iter(range(0, 1_000, 6))
    queue = Queue(*([message(str(number))] for number in range(100)))
    look = peek(queue, ParkedFilter(100), lambda: float(next(times)))
    assert len(look.letters) == 3
    assert len(queue.given_back) == 3


def test_looking_for_a_rare_reason_ends() -> None:
    batches = ([message(f"{batch}-{number}") for number in range(10)] for batch in range(200))
    look = peek(Queue(*batches), ParkedFilter(1, Reason.POISON))
    assert look.letters == []
    assert look.looked_at == 500
