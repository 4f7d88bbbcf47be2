"""What SQS does, on every backend."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.aws.backends import Aws

MIB = 1_048_576
HOUR = 3_600

differs = pytest.mark.difference


def text(value: str = "x", data_type: str = "String") -> dict[str, str]:
    return {"StringValue": value, "DataType": data_type}


def refusal(call: Any, **arguments: Any) -> str:
    """The error code that a call is refused with."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


def send(aws: Aws, url: str, body: str = "body", **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = aws.sqs.send_message(QueueUrl=url, MessageBody=body, **arguments)
    return answer


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def depth(aws: Aws, url: str) -> tuple[int, int, int]:
    """Visible, in flight, delayed."""
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    found = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return tuple(int(found[name]) for name in names)  # type: ignore[return-value]


# Sending one message.


def test_a_message_comes_back_as_it_was_sent(aws: Aws) -> None:
    url = aws.queue()
    attributes = {
        "tenant": text("t-1"),
        "weight": text("1.50", "Number.kg"),
        "blob": {"BinaryValue": b"\x00\xff", "DataType": "Binary.gif"},
    }
    sent = send(aws, url, "héllo\n\t☃", MessageAttributes=attributes)
    (message,) = aws.receive(url)
    assert message["Body"] == "héllo\n\t☃"
    assert message["MessageAttributes"] == attributes
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"] == "85228ced58e72529a1b215c337c4e42e"
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert sent["MD5OfMessageAttributes"] == "2a282d8d6d18b1ed3a2bc555f338ea32"


def test_a_message_knows_when_and_by_whom_it_was_sent(aws: Aws) -> None:
    url = aws.queue()
    sent_at = aws.clock.now
    send(aws, url)
    aws.clock.advance(2)
    (message,) = aws.receive(url, VisibilityTimeout=1)
    found = message["Attributes"]
    assert int(found["SentTimestamp"]) == pytest.approx(sent_at * 1000, abs=1000)
    assert int(found["ApproximateFirstReceiveTimestamp"]) == pytest.approx(
        (sent_at + 2) * 1000, abs=1000
    )
    assert found["ApproximateReceiveCount"] == "1"
    assert found["SenderId"]
    assert "MessageGroupId" not in found
    aws.clock.advance(2)
    (again,) = aws.receive(url)
    first = "ApproximateFirstReceiveTimestamp"
    assert again["Attributes"][first] == found[first]


@differs("sqs-trace-header")
def test_a_trace_header_travels_beside_the_message(aws: Aws) -> None:
    url = aws.queue()
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"
    sent = send(aws, url, MessageSystemAttributes={"AWSTraceHeader": text(trace)})
    assert sent["MD5OfMessageSystemAttributes"]
    (message,) = aws.receive(url)
    assert message["Attributes"]["AWSTraceHeader"] == trace


@differs("sqs-trace-header-in-a-batch")
def test_a_trace_header_travels_in_a_batch_too(aws: Aws) -> None:
    url = aws.queue()
    trace = text("Root=1-5759e988-bd862e3fe1be46a994272793")
    batch = [entry(MessageSystemAttributes={"AWSTraceHeader": trace})]
    aws.sqs.send_message_batch(QueueUrl=url, Entries=batch)
    (message,) = aws.receive(url)
    assert message["Attributes"]["AWSTraceHeader"] == trace["StringValue"]


def test_a_standard_queue_keeps_the_group_of_a_message(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url, "1", MessageGroupId="tenant-1")
    send(aws, url, "2", MessageGroupId="tenant-1")
    (first,) = aws.receive(url, MaxNumberOfMessages=1)
    assert first["Attributes"]["MessageGroupId"] == "tenant-1"
    assert len(aws.receive(url)) == 1, "a group locks nothing on a standard queue"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(
            {"MessageBody": ""}, "MissingParameter", id="empty body", marks=differs("sqs-body")
        ),
        pytest.param(
            {"MessageBody": "a\x00b"},
            "InvalidMessageContents",
            id="control character",
            marks=differs("sqs-body"),
        ),
        pytest.param(
            {"MessageBody": "a\ufffe"},
            "InvalidMessageContents",
            id="noncharacter",
            marks=differs("sqs-body"),
        ),
        pytest.param(
            {"DelaySeconds": 901},
            "InvalidParameterValue",
            id="delay of 901",
            marks=differs("sqs-long-delay"),
        ),
        pytest.param(
            {"DelaySeconds": -1},
            "InvalidParameterValue",
            id="delay of -1",
            marks=differs("sqs-negative-delay"),
        ),
        pytest.param(
            {"MessageDeduplicationId": "x"},
            "InvalidParameterValue",
            id="deduplication id",
            marks=differs("sqs-deduplication-id-on-standard"),
        ),
        pytest.param(
            {"MessageGroupId": "a b"},
            "InvalidParameterValue",
            id="group with a space",
            marks=differs("sqs-group-id"),
        ),
        pytest.param(
            {"MessageGroupId": "x" * 129},
            "InvalidParameterValue",
            id="group of 129 characters",
            marks=differs("sqs-group-id"),
        ),
        pytest.param(
            {"MessageSystemAttributes": {"AWSTraceHeader": text("1", "Number")}},
            "InvalidParameterValue",
            id="trace header of a wrong type",
            marks=differs("sqs-trace-header"),
        ),
    ],
)
def test_what_a_standard_queue_refuses(aws: Aws, arguments: dict[str, Any], code: str) -> None:
    url = aws.queue()
    arguments = {"MessageBody": "body", **arguments}
    assert refusal(aws.sqs.send_message, QueueUrl=url, **arguments) == code
    assert aws.receive(url) == []


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(
            {str(n): text() for n in range(11)}, id="eleven", marks=differs("sqs-ten-attributes")
        ),
        pytest.param({"a": text("")}, id="empty string", marks=differs("sqs-attribute-value")),
        pytest.param(
            {"a": {"BinaryValue": b"", "DataType": "Binary"}},
            id="empty bytes",
            marks=differs("sqs-attribute-value"),
        ),
        pytest.param({"a": text("x", "")}, id="no type", marks=differs("sqs-attribute-type")),
        pytest.param(
            {"a": text("x", "Text")}, id="unknown type", marks=differs("sqs-attribute-type")
        ),
        pytest.param(
            {"a": text("x", "Strings")},
            id="type that only begins like one",
            marks=differs("sqs-attribute-type"),
        ),
        pytest.param(
            {"a": text("x", "Number")},
            id="number that is none",
            marks=differs("sqs-attribute-value"),
        ),
        pytest.param(
            {"a": text("x", "Binary")}, id="bytes as a string", marks=differs("sqs-attribute-value")
        ),
        pytest.param(
            {"a": text("a\x01")},
            id="value with a control character",
            marks=differs("sqs-attribute-value"),
        ),
        pytest.param({"": text()}, id="empty name", marks=differs("sqs-attribute-alphabet")),
        pytest.param(
            {"a b": text()}, id="name with a space", marks=differs("sqs-attribute-alphabet")
        ),
        pytest.param(
            {".a": text()}, id="name that begins with a period", marks=differs("sqs-attribute-name")
        ),
        pytest.param(
            {"a.": text()}, id="name that ends with a period", marks=differs("sqs-attribute-name")
        ),
        pytest.param(
            {"a..b": text()},
            id="name with two periods in a row",
            marks=differs("sqs-attribute-name"),
        ),
        pytest.param({"AWS.a": text()}, id="reserved name", marks=differs("sqs-attribute-name")),
        pytest.param(
            {"amazon.a": text()},
            id="reserved name in lower case",
            marks=differs("sqs-attribute-name"),
        ),
        pytest.param(
            {"x" * 257: text()}, id="name of 257 characters", marks=differs("sqs-attribute-name")
        ),
    ],
)
def test_attributes_that_are_refused(aws: Aws, attributes: dict[str, Any]) -> None:
    url = aws.queue()
    code = refusal(
        aws.sqs.send_message, QueueUrl=url, MessageBody="body", MessageAttributes=attributes
    )
    assert code == "InvalidParameterValue"


def test_ten_attributes_are_allowed(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url, MessageAttributes={f"a.{n}": text() for n in range(10)})
    (message,) = aws.receive(url)
    assert len(message["MessageAttributes"]) == 10


def test_a_message_may_fill_a_mebibyte_with_its_attributes(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url, "x" * (MIB - 8), MessageAttributes={"k": text("v")})
    assert len(aws.receive(url)) == 1


@differs("sqs-size-with-attributes")
def test_attributes_count_into_the_size_of_a_message(aws: Aws) -> None:
    url = aws.queue()
    body = "x" * (MIB - 7)
    code = refusal(
        aws.sqs.send_message, QueueUrl=url, MessageBody=body, MessageAttributes={"k": text("v")}
    )
    assert code == "InvalidParameterValue"


@differs("sqs-size-in-bytes")
def test_a_body_counts_by_its_bytes(aws: Aws) -> None:
    url = aws.queue(MaximumMessageSize="1024")
    send(aws, url, "é" * 512)
    code = refusal(aws.sqs.send_message, QueueUrl=url, MessageBody="é" * 512 + "x")
    assert code == "InvalidParameterValue"


def test_a_queue_may_allow_less_than_a_mebibyte(aws: Aws) -> None:
    url = aws.queue(MaximumMessageSize="1024")
    send(aws, url, "x" * 1024)
    code = refusal(aws.sqs.send_message, QueueUrl=url, MessageBody="x" * 1025)
    assert code == "InvalidParameterValue"


# Sending batches.


def entry(entry_id: str = "1", body: str = "body", **members: Any) -> dict[str, Any]:
    return {"Id": entry_id, "MessageBody": body, **members}


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        pytest.param([], "EmptyBatchRequest", id="empty"),
        pytest.param(
            [entry(str(n)) for n in range(11)], "TooManyEntriesInBatchRequest", id="eleven entries"
        ),
        pytest.param([entry("1"), entry("1")], "BatchEntryIdsNotDistinct", id="an id twice"),
        pytest.param([entry("a b")], "InvalidBatchEntryId", id="id with a space"),
        pytest.param([entry("x" * 81)], "InvalidBatchEntryId", id="id of 81 characters"),
    ],
)
def test_batches_that_are_refused(aws: Aws, entries: list[dict[str, Any]], code: str) -> None:
    url = aws.queue()
    assert (
        refusal(aws.sqs.send_message_batch, QueueUrl=url, Entries=entries)
        == f"AWS.SimpleQueueService.{code}"
    )
    assert aws.receive(url) == []


def test_a_batch_may_hold_a_mebibyte_in_total(aws: Aws) -> None:
    url = aws.queue()
    half = "x" * (MIB // 2)
    answer = aws.sqs.send_message_batch(QueueUrl=url, Entries=[entry("1", half), entry("2", half)])
    assert len(answer["Successful"]) == 2


def test_a_batch_of_more_than_a_mebibyte_is_refused_as_a_whole(aws: Aws) -> None:
    url = aws.queue()
    half = "x" * (MIB // 2)
    code = refusal(
        aws.sqs.send_message_batch, QueueUrl=url, Entries=[entry("1", half), entry("2", half + "x")]
    )
    assert code == "AWS.SimpleQueueService.BatchRequestTooLong"
    assert aws.receive(url) == []


@differs("sqs-size-with-attributes")
def test_the_attributes_count_into_the_size_of_a_batch(aws: Aws) -> None:
    url = aws.queue()
    half = "x" * (MIB // 2 - 4)
    batch = [entry(n, half, MessageAttributes={"k": text("v")}) for n in "12"]
    code = refusal(aws.sqs.send_message_batch, QueueUrl=url, Entries=batch)
    assert code == "AWS.SimpleQueueService.BatchRequestTooLong"


@differs("sqs-long-delay")
def test_each_entry_of_a_batch_fails_by_itself(aws: Aws) -> None:
    url = aws.queue()
    answer = aws.sqs.send_message_batch(
        QueueUrl=url, Entries=[entry("good"), entry("late", DelaySeconds=901)]
    )
    (sent,) = answer["Successful"]
    assert (sent["Id"], bool(sent["MessageId"])) == ("good", True)
    (failed,) = answer["Failed"]
    assert failed["Id"] == "late"
    assert failed["Code"] == "InvalidParameterValue"
    assert failed["SenderFault"] is True
    assert len(aws.receive(url)) == 1


@pytest.mark.parametrize(
    ("members", "code"),
    [
        pytest.param(
            {"MessageBody": "\x00"},
            "InvalidMessageContents",
            id="forbidden character",
            marks=differs("sqs-body"),
        ),
        pytest.param(
            {"MessageAttributes": {str(n): text() for n in range(11)}},
            "InvalidParameterValue",
            id="eleven attributes",
            marks=differs("sqs-ten-attributes"),
        ),
        pytest.param(
            {"MessageBody": "x" * 1025},
            "InvalidParameterValue",
            id="too long",
            marks=differs("sqs-entry-too-long"),
        ),
    ],
)
def test_a_bad_entry_leaves_the_others_alone(aws: Aws, members: dict[str, Any], code: str) -> None:
    url = aws.queue(MaximumMessageSize="1024")
    answer = aws.sqs.send_message_batch(
        QueueUrl=url, Entries=[entry("good"), entry("bad") | members]
    )
    assert [(failed["Id"], failed["Code"]) for failed in answer["Failed"]] == [("bad", code)]
    assert len(aws.receive(url)) == 1


# Receiving.


def test_nothing_to_receive_is_an_answer_without_messages(aws: Aws) -> None:
    assert "Messages" not in aws.sqs.receive_message(QueueUrl=aws.queue())


def test_attributes_come_only_when_asked_for(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url, MessageAttributes={"a": text()})
    (message,) = aws.sqs.receive_message(QueueUrl=url)["Messages"]
    assert message.keys() == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}


def test_system_attributes_can_be_asked_for_one_by_one(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    (message,) = aws.sqs.receive_message(
        QueueUrl=url, MessageSystemAttributeNames=["ApproximateReceiveCount", "SequenceNumber"]
    )["Messages"]
    assert message["Attributes"] == {"ApproximateReceiveCount": "1"}


def test_the_old_name_of_the_system_attributes_still_works(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    (message,) = aws.sqs.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]
    assert message["Attributes"].keys() == {"SenderId"}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["All"], {"one", "two.a", "two.b"}),
        ([".*"], {"one", "two.a", "two.b"}),
        (["two.*"], {"two.a", "two.b"}),
        (["one", "three"], {"one"}),
        (["three"], set()),
    ],
)
def test_message_attributes_can_be_asked_for_by_name_or_prefix(
    aws: Aws, names: list[str], found: set[str]
) -> None:
    url = aws.queue()
    send(aws, url, MessageAttributes={"one": text(), "two.a": text(), "two.b": text()})
    (message,) = aws.sqs.receive_message(QueueUrl=url, MessageAttributeNames=names)["Messages"]
    assert message.get("MessageAttributes", {}).keys() == found
    alone = send(aws, url, MessageAttributes={name: text() for name in found})
    digest = "MD5OfMessageAttributes"
    assert message.get(digest) == alone.get(digest), "it covers what is shown"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param({"MaxNumberOfMessages": 11}, "InvalidParameterValue", id="eleven messages"),
        pytest.param({"MaxNumberOfMessages": 0}, "InvalidParameterValue", id="no messages"),
        pytest.param(
            {"WaitTimeSeconds": 21},
            "InvalidParameterValue",
            id="21 s of waiting",
            marks=differs("sqs-longest-times"),
        ),
        pytest.param(
            {"VisibilityTimeout": 43201},
            "InvalidParameterValue",
            id="more than 12 h",
            marks=differs("sqs-longest-times"),
        ),
        pytest.param(
            {"MessageSystemAttributeNames": ["Colour"]},
            "InvalidAttributeName",
            id="unknown attribute",
            marks=differs("sqs-unknown-system-attribute"),
        ),
    ],
)
def test_receives_that_are_refused(aws: Aws, arguments: dict[str, Any], code: str) -> None:
    url = aws.queue()
    # Who doesn't refuse 21 s of waiting finds something at once.
    send(aws, url)
    assert refusal(aws.sqs.receive_message, QueueUrl=url, **arguments) == code


def test_a_received_message_is_hidden_for_the_time_asked_for(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    aws.receive(url, VisibilityTimeout=100)
    assert depth(aws, url) == (0, 1, 0)
    aws.clock.advance(99)
    assert aws.receive(url) == []
    aws.clock.advance(1)
    (again,) = aws.receive(url)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"


def test_a_queue_has_its_own_visibility_timeout(aws: Aws) -> None:
    url = aws.queue(VisibilityTimeout="4")
    send(aws, url)
    aws.receive(url)
    aws.clock.advance(2)
    assert aws.receive(url) == []
    aws.clock.advance(2)
    assert len(aws.receive(url)) == 1


def test_a_receive_without_visibility_hides_nothing(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    aws.receive(url, VisibilityTimeout=0)
    assert len(aws.receive(url)) == 1


def test_a_message_waits_out_its_delay(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url, DelaySeconds=900)
    assert depth(aws, url) == (0, 0, 1)
    aws.clock.advance(899)
    assert aws.receive(url) == []
    aws.clock.advance(1)
    assert depth(aws, url) == (1, 0, 0)
    assert len(aws.receive(url)) == 1


def test_a_queue_may_delay_all_its_messages(aws: Aws) -> None:
    url = aws.queue(DelaySeconds="2")
    send(aws, url, "slow")
    send(aws, url, "fast", DelaySeconds=0)
    assert bodies(aws.receive(url)) == ["fast"]
    aws.clock.advance(2)
    assert bodies(aws.receive(url)) == ["slow"]


@differs("sqs-retention")
def test_a_message_expires_after_the_retention_period(aws: Aws) -> None:
    url = aws.queue(MessageRetentionPeriod="60")
    send(aws, url, "old")
    aws.clock.advance(59)
    assert bodies(aws.receive(url, VisibilityTimeout=0)) == ["old"]
    aws.clock.advance(2)
    assert aws.receive(url) == []
    assert depth(aws, url) == (0, 0, 0)


# Deleting, and changing visibility.


def handle(aws: Aws, url: str, **arguments: Any) -> str:
    (message,) = aws.receive(url, **arguments)
    return str(message["ReceiptHandle"])


def test_a_deleted_message_is_gone(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    receipt = handle(aws, url, VisibilityTimeout=1)
    aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
    aws.clock.advance(2)
    assert aws.receive(url) == []


@differs("sqs-repeated-delete")
def test_a_deleted_message_can_be_deleted_again(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    receipt = handle(aws, url)
    for _ in range(2):
        aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)


def test_a_message_can_be_deleted_after_its_timeout_if_nobody_else_received_it(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    receipt = handle(aws, url, VisibilityTimeout=1)
    aws.clock.advance(2)
    aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
    assert aws.receive(url) == []


@differs("sqs-stale-handle")
def test_the_handle_of_an_earlier_receive_deletes_nothing(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    stale = handle(aws, url, VisibilityTimeout=0)
    aws.clock.advance(1)
    fresh = handle(aws, url, VisibilityTimeout=1)
    assert stale != fresh
    aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=stale)
    aws.clock.advance(2)
    assert len(aws.receive(url)) == 1


def test_a_handle_that_never_was_is_refused(aws: Aws) -> None:
    code = refusal(aws.sqs.delete_message, QueueUrl=aws.queue(), ReceiptHandle="garbage")
    assert code == "ReceiptHandleIsInvalid"


def test_a_handle_belongs_to_its_queue(aws: Aws) -> None:
    url, other = aws.queue(), aws.queue("other")
    send(aws, url)
    code = refusal(aws.sqs.delete_message, QueueUrl=other, ReceiptHandle=handle(aws, url))
    assert code == "ReceiptHandleIsInvalid"


@differs("sqs-handle-expiry")
def test_a_handle_expires_after_twelve_hours(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    receipt = handle(aws, url)
    aws.clock.advance(12 * HOUR + 1)
    code = refusal(aws.sqs.delete_message, QueueUrl=url, ReceiptHandle=receipt)
    assert code == "InvalidParameterValue"


def test_deletes_of_a_batch_fail_one_by_one(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    answer = aws.sqs.delete_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "ReceiptHandle": handle(aws, url)},
            {"Id": "bad", "ReceiptHandle": "garbage"},
        ],
    )
    assert answer["Successful"] == [{"Id": "good"}]
    (failed,) = answer["Failed"]
    assert (failed["Id"], failed["Code"]) == ("bad", "ReceiptHandleIsInvalid")
    assert failed["SenderFault"] is True
    assert depth(aws, url) == (0, 0, 0)


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        pytest.param([], "EmptyBatchRequest", id="empty"),
        pytest.param(
            [str(n) for n in range(11)],
            "TooManyEntriesInBatchRequest",
            id="eleven deletes",
            marks=differs("sqs-delete-batch"),
        ),
        pytest.param(["1", "1"], "BatchEntryIdsNotDistinct", id="an id twice"),
        pytest.param([""], "InvalidBatchEntryId", id="empty id", marks=differs("sqs-delete-batch")),
    ],
)
def test_delete_batches_that_are_refused(aws: Aws, ids: list[str], code: str) -> None:
    entries = [{"Id": entry_id, "ReceiptHandle": "x"} for entry_id in ids]
    assert (
        refusal(aws.sqs.delete_message_batch, QueueUrl=aws.queue(), Entries=entries)
        == f"AWS.SimpleQueueService.{code}"
    )


def test_a_message_can_be_released_at_once(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    receipt = handle(aws, url)
    aws.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    assert depth(aws, url) == (1, 0, 0)
    assert len(aws.receive(url)) == 1


def test_a_message_can_be_held_for_longer(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    receipt = handle(aws, url, VisibilityTimeout=4)
    aws.clock.advance(2)
    aws.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=4)
    aws.clock.advance(2)
    assert aws.receive(url) == []
    aws.clock.advance(2)
    assert len(aws.receive(url)) == 1


@differs("sqs-twelve-hours-in-total")
def test_a_message_is_held_for_twelve_hours_in_total_at_most(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    receipt = handle(aws, url, VisibilityTimeout=2 * HOUR)
    aws.clock.advance(HOUR)
    change = {"QueueUrl": url, "ReceiptHandle": receipt}
    aws.sqs.change_message_visibility(**change, VisibilityTimeout=11 * HOUR - 1)
    code = refusal(aws.sqs.change_message_visibility, **change, VisibilityTimeout=11 * HOUR + 1)
    assert code == "InvalidParameterValue"


@differs("sqs-twelve-hours")
def test_the_twelve_hours_count_from_the_receive_not_from_the_send(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    aws.clock.advance(13 * HOUR)
    receipt = handle(aws, url, VisibilityTimeout=60)
    aws.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=120)
    aws.clock.advance(119)
    assert aws.receive(url) == []


@pytest.mark.parametrize(
    "timeout",
    [
        pytest.param(-1, marks=differs("sqs-negative-timeout")),
        pytest.param(43_201, marks=differs("sqs-longest-times")),
    ],
)
def test_timeouts_that_are_refused(aws: Aws, timeout: int) -> None:
    url = aws.queue()
    send(aws, url)
    code = refusal(
        aws.sqs.change_message_visibility,
        QueueUrl=url,
        ReceiptHandle=handle(aws, url),
        VisibilityTimeout=timeout,
    )
    assert code == "InvalidParameterValue"


@differs("sqs-long-timeout-in-a-batch")
def test_a_timeout_that_is_too_long_fails_its_entry_of_a_batch(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    entry = {"Id": "0", "ReceiptHandle": handle(aws, url), "VisibilityTimeout": 50_000}
    answer = aws.sqs.change_message_visibility_batch(QueueUrl=url, Entries=[entry])
    assert [one["Id"] for one in answer["Failed"]] == ["0"]


@differs("sqs-visibility-of-deleted")
def test_the_visibility_of_a_deleted_message_can_not_change(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    receipt = handle(aws, url)
    aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
    code = refusal(
        aws.sqs.change_message_visibility,
        QueueUrl=url,
        ReceiptHandle=receipt,
        VisibilityTimeout=10,
    )
    assert code == "InvalidParameterValue"


@differs("sqs-stale-handle")
def test_the_handle_of_an_earlier_receive_changes_nothing(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    stale = handle(aws, url, VisibilityTimeout=0)
    aws.clock.advance(1)
    aws.receive(url, VisibilityTimeout=100)
    code = refusal(
        aws.sqs.change_message_visibility, QueueUrl=url, ReceiptHandle=stale, VisibilityTimeout=0
    )
    assert code == "InvalidParameterValue"
    assert aws.receive(url) == []


def test_visibility_changes_in_batches(aws: Aws) -> None:
    url = aws.queue()
    send(aws, url)
    answer = aws.sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "ReceiptHandle": handle(aws, url), "VisibilityTimeout": 0},
            {"Id": "bad", "ReceiptHandle": "garbage", "VisibilityTimeout": 0},
        ],
    )
    assert answer["Successful"] == [{"Id": "good"}]
    assert [(f["Id"], f["Code"]) for f in answer["Failed"]] == [("bad", "ReceiptHandleIsInvalid")]
    assert depth(aws, url) == (1, 0, 0)


# The redrive policy.


def with_dead_letters(
    aws: Aws, limit: int = 2, *, fifo: bool = False, **attributes: str
) -> tuple[str, str]:
    """A queue and its dead-letter queue."""
    suffix = ".fifo" if fifo else ""
    dlq = aws.queue("dead" + suffix, **attributes)
    policy = json.dumps({"deadLetterTargetArn": aws.arn(dlq), "maxReceiveCount": limit})
    return aws.queue("main" + suffix, RedrivePolicy=policy), dlq


def fail(aws: Aws, url: str, times: int) -> None:
    for _ in range(times):
        aws.receive(url, VisibilityTimeout=1)
        aws.clock.advance(1)


def test_a_message_moves_on_the_receive_after_the_last_allowed_one(aws: Aws) -> None:
    main, dlq = with_dead_letters(aws)
    send(aws, main)
    fail(aws, main, 2)
    assert depth(aws, dlq) == (0, 0, 0), "failing twice is allowed, and nobody has looked since"
    assert aws.receive(main) == []
    assert depth(aws, main) == (0, 0, 0)
    assert depth(aws, dlq) == (1, 0, 0)


def test_a_moved_message_stays_who_it_was(aws: Aws) -> None:
    main, dlq = with_dead_letters(aws)
    sent_at = aws.clock.now
    trace = {"AWSTraceHeader": text("Root=1-5759e988-bd862e3fe1be46a994272793")}
    sent = send(
        aws,
        main,
        MessageAttributes={"a": text()},
        MessageSystemAttributes=trace,
        MessageGroupId="tenant-1",
    )
    fail(aws, main, 3)
    (letter,) = aws.receive(dlq)
    assert letter["MessageId"] == sent["MessageId"]
    assert letter["MessageAttributes"] == {"a": text()}
    found = letter["Attributes"]
    assert int(found["SentTimestamp"]) == pytest.approx(sent_at * 1000, abs=1000)
    assert found["MessageGroupId"] == "tenant-1"
    assert found["AWSTraceHeader"] == trace["AWSTraceHeader"]["StringValue"]
    assert found["ApproximateReceiveCount"] == "3", "it counts over all queues"


@differs("sqs-dead-letter-source")
def test_a_moved_message_tells_where_it_came_from(aws: Aws) -> None:
    main, dlq = with_dead_letters(aws)
    send(aws, main)
    fail(aws, main, 3)
    (letter,) = aws.receive(dlq)
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == aws.arn(main)


def test_what_moves_away_makes_room_for_the_next(aws: Aws) -> None:
    main, _ = with_dead_letters(aws, limit=1)
    send(aws, main, "bad")
    fail(aws, main, 1)
    send(aws, main, "good")
    assert bodies(aws.receive(main, MaxNumberOfMessages=1)) == ["good"]


def test_the_time_in_the_main_queue_counts_in_the_dead_letter_queue(aws: Aws) -> None:
    main, dlq = with_dead_letters(aws, MessageRetentionPeriod="100")
    send(aws, main)
    aws.clock.advance(90)
    fail(aws, main, 3)
    assert len(aws.receive(dlq, VisibilityTimeout=0)) == 1
    aws.clock.advance(10)
    assert aws.receive(dlq) == []


@differs("sqs-sources")
def test_the_sources_of_a_dead_letter_queue_are_known(aws: Aws) -> None:
    main, dlq = with_dead_letters(aws)
    answer = aws.sqs.list_dead_letter_source_queues(QueueUrl=dlq)
    assert answer["queueUrls"] == [main]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(
            {"deadLetterTargetArn": "nowhere", "maxReceiveCount": 1},
            id="no ARN",
            marks=[differs("sqs-redrive-policy"), differs("sqs-redrive-policy-code")],
        ),
        pytest.param(
            {"maxReceiveCount": 1}, id="no target", marks=differs("sqs-redrive-policy-code")
        ),
        pytest.param(
            {"deadLetterTargetArn": "dlq"}, id="no count", marks=differs("sqs-redrive-policy-code")
        ),
        pytest.param(
            {"deadLetterTargetArn": "dlq", "maxReceiveCount": 0},
            id="count of 0",
            marks=[differs("sqs-redrive-policy"), differs("sqs-redrive-policy-code")],
        ),
        pytest.param(
            {"deadLetterTargetArn": "dlq", "maxReceiveCount": 1001},
            id="count of 1001",
            marks=[differs("sqs-redrive-policy"), differs("sqs-redrive-policy-code")],
        ),
        pytest.param(
            {"deadLetterTargetArn": "fifo", "maxReceiveCount": 1},
            id="wrong type",
            marks=differs("sqs-redrive-type"),
        ),
    ],
)
def test_redrive_policies_that_are_refused(aws: Aws, policy: dict[str, Any]) -> None:
    arns = {"dlq": aws.arn(aws.queue("dlq")), "fifo": aws.arn(aws.queue("dlq.fifo"))}
    if policy.get("deadLetterTargetArn") in arns:
        policy = {**policy, "deadLetterTargetArn": arns[policy["deadLetterTargetArn"]]}
    code = refusal(
        aws.sqs.set_queue_attributes,
        QueueUrl=aws.queue(),
        Attributes={"RedrivePolicy": json.dumps(policy)},
    )
    assert code == "InvalidParameterValue"


# FIFO.


def send_in_order(aws: Aws, url: str, group: str, *names: str) -> list[dict[str, Any]]:
    return [
        send(aws, url, name, MessageGroupId=group, MessageDeduplicationId=f"{group}-{name}")
        for name in names
    ]


def test_a_group_keeps_its_order_and_may_come_in_one_batch(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send_in_order(aws, url, "g", "1", "2", "3")
    assert bodies(aws.receive(url)) == ["1", "2", "3"]


def test_a_message_in_flight_locks_its_group_and_no_other(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send_in_order(aws, url, "g", "1", "2")
    send_in_order(aws, url, "h", "3")
    (first,) = aws.receive(url, MaxNumberOfMessages=1)
    assert first["Body"] == "1"
    assert bodies(aws.receive(url)) == ["3"]
    assert aws.receive(url) == []
    aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    assert bodies(aws.receive(url)) == ["2"]


def test_a_failed_message_comes_again_before_those_behind_it(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send_in_order(aws, url, "g", "1", "2")
    aws.receive(url, MaxNumberOfMessages=1, VisibilityTimeout=1)
    aws.clock.advance(2)
    assert bodies(aws.receive(url)) == ["1", "2"]


def test_a_delayed_message_waits_behind_its_group(aws: Aws) -> None:
    url = aws.queue("orders.fifo", DelaySeconds="10")
    send_in_order(aws, url, "g", "1")
    aws.clock.advance(5)
    send_in_order(aws, url, "g", "2")
    aws.clock.advance(5)
    assert bodies(aws.receive(url, VisibilityTimeout=5)) == ["1"]
    aws.clock.advance(6)
    assert bodies(aws.receive(url)) == ["1", "2"]


def test_releasing_a_message_unlocks_its_group(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send_in_order(aws, url, "g", "1", "2")
    receipt = handle(aws, url, MaxNumberOfMessages=1)
    aws.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    assert bodies(aws.receive(url)) == ["1", "2"]


def test_a_group_is_locked_until_its_last_message_in_flight_is_back(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send_in_order(aws, url, "g", "1", "2", "3")
    first, second = aws.receive(url, MaxNumberOfMessages=2)
    release = {"QueueUrl": url, "VisibilityTimeout": 0}
    aws.sqs.change_message_visibility(**release, ReceiptHandle=first["ReceiptHandle"])
    assert aws.receive(url) == []
    aws.sqs.change_message_visibility(**release, ReceiptHandle=second["ReceiptHandle"])
    assert bodies(aws.receive(url)) == ["1", "2", "3"]


def test_messages_of_a_fifo_queue_carry_their_tokens(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    (sent,) = send_in_order(aws, url, "g", "1")
    (message,) = aws.receive(url)
    assert message["Attributes"]["MessageGroupId"] == "g"
    assert message["Attributes"]["MessageDeduplicationId"] == "g-1"
    assert message["Attributes"]["SequenceNumber"] == sent["SequenceNumber"]


@differs("sqs-sequence-numbers")
def test_sequence_numbers_grow(aws: Aws) -> None:
    sent = send_in_order(aws, aws.queue("orders.fifo"), "g", *"abcdefghij")
    numbers = [answer["SequenceNumber"] for answer in sent]
    assert numbers == sorted(set(numbers))


@differs("sqs-deduplication-answer")
def test_a_repeated_send_is_accepted_and_not_delivered(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    (first,) = send_in_order(aws, url, "g", "1")
    again = send(aws, url, "2", MessageGroupId="h", MessageDeduplicationId="g-1")
    assert again["MessageId"] == first["MessageId"]
    assert again["SequenceNumber"] == first["SequenceNumber"]
    assert bodies(aws.receive(url)) == ["1"]


@differs("sqs-deduplication-memory")
def test_a_deduplication_id_is_remembered_after_its_message_is_deleted(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send_in_order(aws, url, "g", "1")
    aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=handle(aws, url))
    send_in_order(aws, url, "g", "1")
    assert aws.receive(url) == []


@differs("sqs-deduplication-memory")
def test_a_deduplication_id_is_forgotten_after_five_minutes(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send_in_order(aws, url, "g", "1")
    aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=handle(aws, url))
    aws.clock.advance(299)
    send_in_order(aws, url, "g", "1")
    aws.clock.advance(2)
    assert aws.receive(url) == []
    send_in_order(aws, url, "g", "1")
    assert bodies(aws.receive(url)) == ["1"]


def test_a_queue_may_deduplicate_by_content(aws: Aws) -> None:
    url = aws.queue("orders.fifo", ContentBasedDeduplication="true")
    send(aws, url, "same", MessageGroupId="g")
    send(aws, url, "same", MessageGroupId="g")
    send(aws, url, "other", MessageGroupId="g")
    assert bodies(aws.receive(url)) == ["same", "other"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param({"MessageDeduplicationId": "1"}, "MissingParameter", id="no group"),
        pytest.param({"MessageGroupId": "g"}, "InvalidParameterValue", id="no deduplication id"),
        pytest.param(
            {"MessageGroupId": "g", "MessageDeduplicationId": "1", "DelaySeconds": 1},
            "InvalidParameterValue",
            id="a delay of its own",
        ),
    ],
)
def test_what_a_fifo_queue_refuses(aws: Aws, arguments: dict[str, Any], code: str) -> None:
    url = aws.queue("orders.fifo")
    assert refusal(aws.sqs.send_message, QueueUrl=url, MessageBody="body", **arguments) == code


def test_a_delay_of_zero_is_allowed_on_a_fifo_queue(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send(aws, url, MessageGroupId="g", MessageDeduplicationId="1", DelaySeconds=0)
    assert len(aws.receive(url)) == 1


@differs("sqs-fifo-batch")
def test_a_fifo_batch_without_a_group_is_refused_as_a_whole(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    good = entry("1", MessageGroupId="g", MessageDeduplicationId="1")
    bad = entry("2", MessageDeduplicationId="2")
    code = refusal(aws.sqs.send_message_batch, QueueUrl=url, Entries=[good, bad])
    assert code == "InvalidParameterValue"
    assert aws.receive(url) == []


@differs("sqs-handle-expiry")
def test_a_fifo_handle_is_good_only_while_its_message_is_in_flight(aws: Aws) -> None:
    url = aws.queue("orders.fifo")
    send_in_order(aws, url, "g", "1")
    receipt = handle(aws, url, VisibilityTimeout=1)
    aws.clock.advance(2)
    code = refusal(aws.sqs.delete_message, QueueUrl=url, ReceiptHandle=receipt)
    assert code == "InvalidParameterValue"
    assert len(aws.receive(url)) == 1


@differs("sqs-retention")
def test_a_moved_fifo_message_starts_its_retention_anew(aws: Aws) -> None:
    main, dlq = with_dead_letters(aws, limit=1, fifo=True, MessageRetentionPeriod="100")
    send_in_order(aws, main, "g", "1")
    aws.clock.advance(90)
    fail(aws, main, 2)
    aws.clock.advance(90)
    assert bodies(aws.receive(dlq)) == ["1"]


def test_a_failed_fifo_message_moves_and_frees_its_group(aws: Aws) -> None:
    main, dlq = with_dead_letters(aws, limit=1, fifo=True)
    send_in_order(aws, main, "g", "1", "2")
    aws.receive(main, MaxNumberOfMessages=1, VisibilityTimeout=1)
    aws.clock.advance(2)
    assert bodies(aws.receive(main)) == ["2"]
    (letter,) = aws.receive(dlq)
    assert (letter["Body"], letter["Attributes"]["MessageGroupId"]) == ("1", "g")


# Queues.


def test_a_queue_can_be_found_by_name(aws: Aws) -> None:
    url = aws.queue()
    assert aws.sqs.get_queue_url(QueueName="orders")["QueueUrl"] == url


def test_a_queue_that_does_not_exist_has_an_error_of_its_own(aws: Aws) -> None:
    url = aws.queue()
    aws.sqs.delete_queue(QueueUrl=url)
    calls: list[tuple[Any, dict[str, Any]]] = [
        (aws.sqs.get_queue_url, {"QueueName": "orders"}),
        (aws.sqs.send_message, {"QueueUrl": url, "MessageBody": "x"}),
        (aws.sqs.receive_message, {"QueueUrl": url}),
        (aws.sqs.get_queue_attributes, {"QueueUrl": url, "AttributeNames": ["All"]}),
    ]
    for call, arguments in calls:
        assert refusal(call, **arguments) == "AWS.SimpleQueueService.NonExistentQueue"
    with pytest.raises(aws.sqs.exceptions.QueueDoesNotExist):
        aws.sqs.receive_message(QueueUrl=url)


def test_creating_a_queue_again_as_it_is_changes_nothing(aws: Aws) -> None:
    url = aws.queue(DelaySeconds="1")
    assert aws.queue() == aws.queue(DelaySeconds="1") == url


def test_creating_a_queue_again_with_other_attributes_is_refused(aws: Aws) -> None:
    aws.queue(DelaySeconds="1")
    code = refusal(aws.sqs.create_queue, QueueName="orders", Attributes={"DelaySeconds": "2"})
    assert code == "QueueAlreadyExists"
    with pytest.raises(aws.sqs.exceptions.QueueNameExists):
        aws.queue(DelaySeconds="2")


@pytest.mark.parametrize("name", ["a b", "x" * 81, "orders.txt"])
@differs("sqs-queue-name")
def test_queue_names_that_are_refused(aws: Aws, name: str) -> None:
    assert refusal(aws.sqs.create_queue, QueueName=name) == "InvalidParameterValue"


@differs("sqs-fifo-name")
def test_only_a_fifo_queue_is_called_fifo(aws: Aws) -> None:
    assert refusal(aws.sqs.create_queue, QueueName="a.fifo") == "InvalidParameterValue"
    fifo = {"FifoQueue": "true"}
    code = refusal(aws.sqs.create_queue, QueueName="a", Attributes=fifo)
    assert code == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        pytest.param(
            {"VisibilityTimeout": "43201"},
            "InvalidAttributeValue",
            id="visibility",
            marks=differs("sqs-queue-attributes"),
        ),
        pytest.param(
            {"DelaySeconds": "901"},
            "InvalidAttributeValue",
            id="delay",
            marks=differs("sqs-queue-attributes"),
        ),
        pytest.param(
            {"MaximumMessageSize": "1023"},
            "InvalidAttributeValue",
            id="small",
            marks=differs("sqs-queue-attributes"),
        ),
        pytest.param(
            {"MaximumMessageSize": "1048577"},
            "InvalidAttributeValue",
            id="large",
            marks=differs("sqs-queue-attributes"),
        ),
        pytest.param(
            {"MessageRetentionPeriod": "59"},
            "InvalidAttributeValue",
            id="retention",
            marks=differs("sqs-queue-attributes"),
        ),
        pytest.param(
            {"ContentBasedDeduplication": "true"},
            "InvalidAttributeName",
            id="not FIFO",
            marks=differs("sqs-fifo-attributes"),
        ),
    ],
)
def test_queue_attributes_that_are_refused(aws: Aws, attributes: dict[str, str], code: str) -> None:
    url = aws.queue()
    assert refusal(aws.sqs.set_queue_attributes, QueueUrl=url, Attributes=attributes) == code


@differs("sqs-queue-attribute-names")
def test_queue_attributes_come_only_when_asked_for(aws: Aws) -> None:
    url = aws.queue(VisibilityTimeout="7")
    assert "Attributes" not in aws.sqs.get_queue_attributes(QueueUrl=url)
    some = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert some["Attributes"] == {"VisibilityTimeout": "7"}
    everything = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert everything["MaximumMessageSize"] == "1048576"
    assert everything["MessageRetentionPeriod"] == "345600"
    assert "RedrivePolicy" not in everything


@differs("sqs-queue-attribute-names")
def test_an_unknown_queue_attribute_is_refused(aws: Aws) -> None:
    code = refusal(aws.sqs.get_queue_attributes, QueueUrl=aws.queue(), AttributeNames=["Colour"])
    assert code == "InvalidAttributeName"
