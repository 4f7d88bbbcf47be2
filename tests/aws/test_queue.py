"""What the queue's adapter concludes from the answers of SQS, and from their time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from deadletter.aws.queue import SqsQueue
from deadletter.message.envelope import Envelope, QueueTraits, seal
from deadletter.message.letter import Letter
from deadletter.message.queue import QueueUnavailable, TooManyInFlight
from deadletter.message.stamp import Stamp
from deadletter.testing.clock import START, Clock
from deadletter.testing.fakes import MemorySqs, client_error

URL = "https://sqs.eu-west-1.amazonaws.com/111122223333/orders"


class OneAnswer:
    """An SQS that answers every call with the same."""

    def __init__(self, answer: Callable[[], dict[str, Any]]) -> None:
        self._answer = answer

    def __getattr__(self, _operation: str) -> Callable[..., dict[str, Any]]:
        return lambda **_: self._answer()


def queue(answer: Callable[[], dict[str, Any]], clock: Clock | None = None) -> SqsQueue:
    client: Any = OneAnswer(answer)
    return SqsQueue(client, URL, clock or Clock())


def outgoing(copy: str, body: str) -> Envelope:
    return seal(Letter(copy, body), Stamp(copy, 1, 5), QueueTraits())


def confirmed(position: int, body: str) -> dict[str, Any]:
    digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
    return {"Id": str(position), "MessageId": f"new{position}", "MD5OfMessageBody": digest}


def failure(position: int, *, sender_fault: bool) -> dict[str, Any]:
    return {"Id": str(position), "Code": "InternalError", "SenderFault": sender_fault}


def test_an_entry_whose_digest_is_of_another_body_is_not_confirmed() -> None:
    """SQS stored something else than what was sent, or answered for another entry."""
    batch = [outgoing("a", "1"), outgoing("b", "ž")]
    answer = {"Successful": [confirmed(0, "2"), confirmed(1, "ž")]}
    sent = queue(lambda: answer).send(batch)
    assert set(sent.confirmed) == {"b"}
    assert "a" in sent.unknown
    assert "a" not in sent.refused


@pytest.mark.parametrize("code", ["RequestThrottled", "AWS.SimpleQueueService.RequestThrottled"])
def test_a_throttled_send_failed_and_a_denied_one_is_refused(code: str) -> None:
    """Neither took effect; only the first may succeed at another try."""

    def throttled() -> dict[str, Any]:
        raise client_error("SendMessageBatch", code, "slow down", status=403)

    def denied() -> dict[str, Any]:
        raise client_error("SendMessageBatch", "AccessDenied", "no", status=403)

    batch = [outgoing("a", "1")]
    assert queue(throttled).send(batch).failed == {"a": code}
    assert queue(denied).send(batch).refused == {"a": "AccessDenied"}


def test_an_entry_is_confirmed_by_its_own_id_with_its_new_message_id() -> None:
    batch = [outgoing("a", "1"), outgoing("b", "2")]
    answer = {"Successful": [confirmed(1, "2"), confirmed(0, "1")]}
    sent = queue(lambda: answer).send(batch)
    assert {copy: proof.new_id for copy, proof in sent.confirmed.items()} == {
        "a": "new0",
        "b": "new1",
    }


def test_an_entry_that_the_answer_leaves_out_may_have_been_sent() -> None:
    sent = queue(lambda: {"Successful": []}).send([outgoing("a", "1")])
    assert (dict(sent.confirmed), set(sent.unknown)) == ({}, {"a"})


def test_a_fault_of_the_sender_is_refused_for_good() -> None:
    answer = {"Failed": [failure(0, sender_fault=True)]}
    sent = queue(lambda: answer).send([outgoing("a", "1")])
    assert (dict(sent.refused), set(sent.unknown)) == ({"a": "InternalError"}, set())


def test_a_fault_of_the_service_is_not_refused_for_good() -> None:
    answer = {"Failed": [failure(0, sender_fault=False)]}
    sent = queue(lambda: answer).send([outgoing("a", "1")])
    assert (dict(sent.confirmed), dict(sent.refused)) == ({}, {})
    assert (dict(sent.failed), set(sent.unknown)) == ({"a": "InternalError"}, set())


@pytest.mark.parametrize(
    ("code", "another_try_helps"), [("RequestThrottled", True), ("AccessDenied", False)]
)
def test_a_batch_that_was_throttled_may_be_sent_again(code: str, another_try_helps: bool) -> None:
    def refuse() -> dict[str, Any]:
        raise client_error("SendMessageBatch", code, "", status=403)

    sent = queue(refuse).send([outgoing("a", "1"), outgoing("b", "2")])
    assert set(sent.failed) == ({"a", "b"} if another_try_helps else set())
    assert set(sent.refused) == (set() if another_try_helps else {"a", "b"})
    assert sent.unknown == frozenset()


@pytest.mark.parametrize(
    ("status", "retries", "may_have_been_sent"),
    [(400, 0, False), (403, 0, False), (403, 1, True), (500, 0, True)],
)
def test_a_batch_without_an_answer_of_its_own_may_have_been_sent(
    status: int, retries: int, may_have_been_sent: bool
) -> None:
    def refuse() -> dict[str, Any]:
        error = client_error("SendMessageBatch", "Any", "", status=status)
        error.response["ResponseMetadata"]["RetryAttempts"] = retries
        raise error

    sent = queue(refuse).send([outgoing("a", "1"), outgoing("b", "2")])
    assert sent.confirmed == {}
    assert set(sent.unknown) == ({"a", "b"} if may_have_been_sent else set())


@pytest.mark.parametrize("code", ["OverLimit", "AWS.SimpleQueueService.OverLimit"])
def test_a_queue_with_too_many_letters_in_flight_says_so(code: str) -> None:
    """By the codes of both protocols of SQS."""

    def refuse() -> dict[str, Any]:
        raise client_error("ReceiveMessage", code, "", status=403)

    with pytest.raises(TooManyInFlight):
        queue(refuse).receive(10, 60, 0)


def test_any_other_refusal_to_receive_says_nothing_of_letters_in_flight() -> None:
    def refuse() -> dict[str, Any]:
        raise client_error("ReceiveMessage", "AccessDenied", "", status=403)

    with pytest.raises(QueueUnavailable) as refused:
        queue(refuse).receive(10, 60, 0)
    assert not isinstance(refused.value, TooManyInFlight)


def test_a_lock_counts_from_the_request_not_from_the_answer() -> None:
    """SQS hides a message when it takes the request; a slow answer costs time of the lock."""
    clock = Clock()

    def slowly() -> dict[str, Any]:
        clock.advance(20)
        return {"Messages": [{"MessageId": "a", "Body": "1", "ReceiptHandle": "h"}]}

    [received] = queue(slowly, clock).receive(10, 60, 20)
    assert received.locked_until == START + 60


def test_no_lock_is_longer_than_sqs_allows() -> None:
    clock = Clock()
    sqs: Any = MemorySqs(clock, iter("abcdef").__next__)
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="1")
    [received] = SqsQueue(sqs, url, clock).receive(1, 50_000, 0)
    assert received.locked_until == START + 43_200
