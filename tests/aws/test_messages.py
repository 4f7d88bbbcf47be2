"""The messages of a queue, as a consumer that polls itself gets them."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.aws import clients as made
from deadletter.aws.queue import SqsMessages, arn_of, record_of
from deadletter.message.letter import from_api, from_event
from deadletter.processing.delivery import group_of, id_of, queue_of, receive_of
from deadletter.processing.poller import SourceUnavailable
from deadletter.testing.fakes import client_error
from tests.aws.backends import Aws

ARN = "arn:aws:sqs:eu-west-1:111122223333:orders"
URL = "https://sqs.eu-west-1.amazonaws.com/111122223333/orders"

MESSAGE: dict[str, Any] = {
    "MessageId": "m1",
    "ReceiptHandle": "handle",
    "Body": '{"orderId": 7}',
    "MD5OfBody": "x",
    "Attributes": {
        "ApproximateReceiveCount": "3",
        "SentTimestamp": "1790000000000",
        "SenderId": "AIDAPRODUCER",
        "MessageGroupId": "g",
    },
    "MessageAttributes": {
        "tenant": {"DataType": "String", "StringValue": "acmé"},
        "amount": {"DataType": "Number.float", "StringValue": "1.50"},
        "raw": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"},
    },
}


def test_a_record_holds_the_letter_that_the_message_is() -> None:
    record = record_of(MESSAGE, ARN)
    assert from_event(record) == from_api(MESSAGE)
    assert (id_of(record), group_of(record), receive_of(record)) == ("m1", "g", 3)
    assert queue_of(record) == "orders"
    assert record["receiptHandle"] == "handle"


@pytest.mark.parametrize(
    "message",
    [
        {"MessageId": "m1", "ReceiptHandle": "h"},
        {"MessageId": "m1", "ReceiptHandle": "h", "Body": "", "MessageAttributes": {"a": {}}},
    ],
)
def test_a_message_that_is_no_letter_keeps_its_id_and_its_handle(message: Any) -> None:
    record = record_of(message, ARN)
    assert (record["messageId"], record["receiptHandle"]) == ("m1", "h")


@pytest.mark.parametrize("region", ["eu-west-1", "cn-north-1", "us-gov-west-1"])
def test_the_arn_follows_from_url_and_region(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = {"c": "aws-cn", "u": "aws-us-gov"}.get(region[0], "aws")
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    made.polling.cache_clear()
    client = made.polling()
    made.polling.cache_clear()
    assert arn_of(client, URL) == f"arn:{partition}:sqs:{region}:111122223333:orders"
    assert arn_of(client, "http://127.0.0.1:4566/1/q.fifo").endswith(":1:q.fifo")
    for url in ("orders", "https://host", "https://host/orders", ""):
        with pytest.raises(ValueError, match="allowed: https://<host>/<account>/<queue>"):
            arn_of(client, url)


def test_a_receive_waits_shorter_than_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    made.polling.cache_clear()
    config = made.polling().meta.config
    made.polling.cache_clear()
    assert config.read_timeout > 20
    assert config.retries["total_max_attempts"] == 1


def source(aws: Aws, url: str) -> SqsMessages:
    client: Any = aws.sqs
    return SqsMessages(client, client, url, ARN)


def test_messages_are_received_hidden_and_deleted(aws: Aws) -> None:
    url = aws.queue("orders")
    for number in range(12):
        aws.sqs.send_message(QueueUrl=url, MessageBody=str(number))
    queue = source(aws, url)
    records = [record for _ in range(2) for record in queue.receive(10, hidden=60, wait=0)]
    assert len(records) == 12
    handles = [record["receiptHandle"] for record in records]
    assert queue.receive(10, hidden=60, wait=0) == []
    assert queue.hide([(handle, 0) for handle in handles]) == 0
    again = [record for _ in range(2) for record in queue.receive(10, hidden=60, wait=0)]
    assert len(again) == 12
    assert queue.delete([record["receiptHandle"] for record in again]) == []
    assert queue.receive(10, hidden=0, wait=0) == []


class Failing:
    """An SQS that refuses all calls, or one entry of each."""

    def __init__(self, entry: bool) -> None:
        self._entry = entry

    def __getattr__(self, operation: str) -> Any:
        def call(**options: Any) -> Any:
            if not self._entry:
                raise client_error(operation, "RequestThrottled", "slow down")
            done = [{"Id": entry["Id"]} for entry in options["Entries"][1:]]
            failed = {"Id": "0", "Code": "InternalError", "SenderFault": False}
            return {"Successful": done, "Failed": [failed]}

        return call


@pytest.mark.parametrize(("entry", "left"), [(False, ["a", "b", "c"]), (True, ["a"])])
def test_what_is_not_confirmed_is_not_deleted(entry: bool, left: list[str]) -> None:
    client: Any = Failing(entry)
    queue = SqsMessages(client, client, URL, ARN)
    assert queue.delete(["a", "b", "c"]) == left
    assert queue.hide([("a", 1), ("b", 1), ("c", 1)]) == len(left)


def test_a_receive_without_an_answer_says_why_and_names_no_url() -> None:
    client: Any = Failing(entry=False)
    with pytest.raises(SourceUnavailable, match="RequestThrottled") as failed:
        SqsMessages(client, client, URL, ARN).receive(10, hidden=60, wait=0)
    assert "https" not in str(failed.value)
