"""The stub of SQS answers real boto3 clients as SQS does, fails as asked, and misses nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from tools.bench.sqs_stub import Audit, Behaviour, SqsStub

AT_ONCE = Behaviour(latency=0.0)
ATTRIBUTES: Any = {
    "tenant": {"DataType": "String", "StringValue": "äöü"},
    "raw": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"},
}


@pytest.fixture(scope="module")
def process() -> Iterator[SqsStub]:
    with SqsStub(AT_ONCE) as stub:
        yield stub


@pytest.fixture
def stub(process: SqsStub) -> SqsStub:
    process.behave(AT_ONCE)
    process.reset()
    return process


@pytest.fixture
def sqs(stub: SqsStub) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=stub.endpoint,
        region_name="us-east-1",
        aws_access_key_id="AROAREDRIVER",
        aws_secret_access_key="unused",
        config=Config(retries={"total_max_attempts": 1}),
    )


def receive(sqs: Any, url: str, **options: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(
        QueueUrl=url,
        **{
            "MaxNumberOfMessages": 10,
            "WaitTimeSeconds": 1,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["All"],
            **options,
        },
    )
    return list(answer.get("Messages", []))


def batch(*bodies: str) -> list[Any]:
    return [
        {"Id": str(at), "MessageBody": body, "MessageAttributes": ATTRIBUTES}
        for at, body in enumerate(bodies)
    ]


def resend(sqs: Any, message: dict[str, Any], url: str, **changes: Any) -> None:
    """Send a received message on, as it is but for the changes."""
    sent = {"Body": message["Body"], "MessageAttributes": message["MessageAttributes"], **changes}
    entry = {
        "Id": "0",
        "MessageBody": sent["Body"],
        "MessageAttributes": sent["MessageAttributes"],
    }
    assert sqs.send_message_batch(QueueUrl=url, Entries=[entry])["Successful"]


def delete(sqs: Any, url: str, message: dict[str, Any]) -> None:
    entry = {"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}
    assert sqs.delete_message_batch(QueueUrl=url, Entries=[entry])["Successful"]


def test_a_message_comes_back_as_it_was_sent_with_its_digests_and_its_sender(
    stub: SqsStub, sqs: Any
) -> None:
    url = stub.create_queue("orders")
    [sent] = sqs.send_message_batch(QueueUrl=url, Entries=batch("ß {}"))["Successful"]
    [message] = receive(sqs, url)
    digest = hashlib.md5("ß {}".encode(), usedforsecurity=False).hexdigest()
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "ß {}")
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"] == digest
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["MessageAttributes"] == ATTRIBUTES
    assert message["Attributes"]["SenderId"] == "AROAREDRIVER:bench"


def test_a_received_message_is_locked_until_its_lock_ends(stub: SqsStub, sqs: Any) -> None:
    url = stub.create_queue("orders")
    sqs.send_message(QueueUrl=url, MessageBody="{}")
    [message] = receive(sqs, url, VisibilityTimeout=60)
    assert receive(sqs, url, WaitTimeSeconds=0) == []
    entry = {"Id": "0", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
    assert sqs.change_message_visibility_batch(QueueUrl=url, Entries=[entry])["Successful"]
    [again] = receive(sqs, url)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    delete(sqs, url, again)
    depth = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert depth["ApproximateNumberOfMessages"] == "0"
    assert depth["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_an_unknown_queue_is_refused_with_the_code_of_sqs(stub: SqsStub, sqs: Any) -> None:
    url = stub.create_queue("orders")
    with pytest.raises(ClientError) as refused:
        receive(sqs, f"{url}-gone")
    assert refused.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_long_poll_gives_ten_and_a_short_poll_of_a_sparse_queue_fewer(
    stub: SqsStub, sqs: Any
) -> None:
    full, sparse = stub.create_queue("full"), stub.create_queue("sparse")
    stub.fill(full, 500)
    stub.fill(sparse, 10)
    numbers = [len(receive(sqs, full, WaitTimeSeconds=wait)) for wait in (0, 1) for _ in range(9)]
    assert set(numbers) == {10}
    seen = [len(receive(sqs, sparse, WaitTimeSeconds=0, VisibilityTimeout=0)) for _ in range(9)]
    assert 0 < sum(seen) < 90
    assert len(receive(sqs, sparse)) == 10


def test_uneven_receives_give_one_to_ten_messages(stub: SqsStub, sqs: Any) -> None:
    url = stub.create_queue("orders")
    stub.fill(url, 500)
    stub.behave(Behaviour(latency=0.0, uneven=True))
    numbers = {len(receive(sqs, url)) for _ in range(50)}
    assert numbers <= set(range(1, 11))
    assert len(numbers) > 5


def test_an_entry_that_fails_is_reported_and_not_carried_out(stub: SqsStub, sqs: Any) -> None:
    url = stub.create_queue("orders")
    stub.behave(Behaviour(latency=0.0, failing_entries={"SendMessageBatch": 0.5}))
    bodies = [f"[{n}]" for n in range(10)]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=batch(*bodies))
    failed = {bodies[int(failure["Id"])] for failure in answer["Failed"]}
    assert 0 < len(failed) < 10
    assert not any(failure["SenderFault"] for failure in answer["Failed"])
    assert {message["Body"] for message in receive(sqs, url)} == set(bodies) - failed
    assert stub.counts().faults == {"SendMessageBatch": len(failed)}


def test_a_call_that_fails_is_not_carried_out_and_one_whose_answer_is_lost_is(
    stub: SqsStub, sqs: Any
) -> None:
    url = stub.create_queue("orders")
    stub.behave(Behaviour(latency=0.0, failing_calls={"SendMessageBatch": 1.0}))
    with pytest.raises(ClientError) as failed:
        sqs.send_message_batch(QueueUrl=url, Entries=batch("[1]"))
    assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    stub.behave(Behaviour(latency=0.0, lost_answers={"SendMessageBatch": 1.0}))
    with pytest.raises(ConnectionClosedError):
        sqs.send_message_batch(QueueUrl=url, Entries=batch("[2]"))
    assert [message["Body"] for message in receive(sqs, url)] == ["[2]"]


def test_requests_entries_and_empty_receives_are_counted(stub: SqsStub, sqs: Any) -> None:
    url = stub.create_queue("orders")
    sqs.send_message_batch(QueueUrl=url, Entries=batch("[1]", "[2]"))
    assert len(receive(sqs, url)) == 2
    assert receive(sqs, url, WaitTimeSeconds=0) == []
    counts = stub.counts()
    assert counts.requests == {"SendMessageBatch": 1, "ReceiveMessage": 2}
    assert counts.entries == {"SendMessageBatch": 2, "ReceiveMessage": 2}
    assert (counts.total, counts.empty) == (3, 1)


def test_the_audit_finds_every_message_that_is_lost_duplicated_changed_or_left(
    stub: SqsStub, sqs: Any
) -> None:
    dlq, main = stub.create_queue("dlq"), stub.create_queue("main")
    stub.fill(dlq, 6)
    assert stub.audit(main) == Audit(0, 6, 0, 0, 0)
    good, lost, twice, body, attribute, _ = receive(sqs, dlq)
    for message in (good, twice, twice):
        resend(sqs, message, main)
    resend(sqs, body, main, Body=body["Body"] + " ")
    changed = {**attribute["MessageAttributes"], "a0": ATTRIBUTES["tenant"]}
    resend(sqs, attribute, main, MessageAttributes=changed)
    for message in (good, lost, twice, body, attribute):
        delete(sqs, dlq, message)
    audit = stub.audit(main)
    # Those that were changed are lost as what they were.
    assert audit == Audit(arrived=2, unfinished=1, lost=3, duplicated=1, changed=2)


def test_our_own_attribute_is_no_change(stub: SqsStub, sqs: Any) -> None:
    dlq, main = stub.create_queue("dlq"), stub.create_queue("main")
    stub.fill(dlq, 1)
    [message] = receive(sqs, dlq)
    ours = {"Redrive": {"DataType": "String", "StringValue": "{}"}}
    resend(sqs, message, main, MessageAttributes={**message["MessageAttributes"], **ours})
    delete(sqs, dlq, message)
    assert stub.audit(main) == Audit(1, 0, 0, 0, 0)


def test_a_fifo_queue_keeps_order_and_swallows_a_repeated_send(stub: SqsStub, sqs: Any) -> None:
    dlq = stub.create_queue("dlq.fifo", FifoQueue="true")
    main = stub.create_queue("main.fifo", FifoQueue="true")
    stub.fill(dlq, 2, groups=1)
    first, second = receive(sqs, dlq)
    assert first["Body"] < second["Body"]
    for _ in range(2):
        entry = {
            "Id": "0",
            "MessageBody": first["Body"],
            "MessageAttributes": first["MessageAttributes"],
            "MessageGroupId": "g",
            "MessageDeduplicationId": "same",
        }
        sqs.send_message_batch(QueueUrl=main, Entries=[entry])
    assert stub.audit(main).duplicated == 0
