"""The serialized forms of a letter, and the data that each of them refuses."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message.letter import (
    Attribute,
    Letter,
    NotALetter,
    compact_json,
    from_api,
    from_event,
    from_json,
    to_event,
    to_json,
    whole_number,
)
from tests.each_row import each_row
from tests.samples import json_values, letter, letters

ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"


def test_every_field_of_an_api_message_is_read() -> None:
    received = from_api(
        {
            "MessageId": "m1",
            "ReceiptHandle": "not part of the message",
            "Body": "hello",
            "MessageAttributes": {
                "text": {"DataType": "String", "StringValue": "é"},
                "count": {"DataType": "Number.int", "StringValue": "007"},
                "bytes": {"DataType": "Binary.gzip", "BinaryValue": bytearray(b"\x00\xff")},
            },
            "Attributes": {
                "SenderId": "AIDA",
                "SentTimestamp": "1789999000123",
                "MessageGroupId": "g",
                "DeadLetterQueueSourceArn": ARN,
            },
        }
    )
    assert received.attributes == {
        "text": Attribute("String", "é"),
        "count": Attribute("Number.int", "007"),
        "bytes": Attribute("Binary.gzip", b"\x00\xff"),
    }
    assert (received.message_id, received.body, received.group) == ("m1", "hello", "g")
    assert (received.sender, received.sent_ms, received.source_arn) == ("AIDA", 1789999000123, ARN)


def test_a_bare_message_has_no_group_no_sender_and_no_time() -> None:
    bare = from_api({"MessageId": "m1", "Body": ""})
    assert (bare.group, bare.sender, bare.sent_ms, bare.source_arn) == (None, "", None, None)


@each_row(
    "broken",
    [
        {"Body": "x"},
        {"MessageId": "", "Body": "x"},
        {"MessageId": 7, "Body": "x"},
        {"MessageId": "m1"},
        {"MessageId": "m1", "Body": None},
        {"MessageId": "m1", "Body": b"x"},
        {"MessageId": "m1", "Body": "x", "MessageAttributes": {"a": {"StringValue": "x"}}},
        {"MessageId": "m1", "Body": "x", "MessageAttributes": {"a": {"DataType": "String"}}},
        {"MessageId": "m1", "Body": "x", "MessageAttributes": ["a"]},
        {"MessageId": "m1", "Body": "x", "Attributes": "SenderId"},
    ],
)
def test_a_malformed_message_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(NotALetter):
        from_api(broken)


@each_row(
    "attribute",
    [
        {"dataType": "Binary", "binaryValue": "not base64"},
        {"dataType": "Binary", "binaryValue": "é"},
        {"dataType": "Binary", "stringValue": "text"},
        {"dataType": "String"},
        {"dataType": "String", "stringValue": 5},
        {"dataType": 5, "stringValue": "x"},
        {"stringValue": "x"},
        "x",
    ],
)
def test_an_event_with_an_unreadable_attribute_is_refused(attribute: Any) -> None:
    record = {"messageId": "m1", "body": "x", "messageAttributes": {"a": attribute}}
    with pytest.raises(NotALetter):
        from_event(record)


@each_row("value", ["not base64", "\u00e9", "QUI", 5, None])
def test_json_with_invalid_base64_is_refused(value: Any) -> None:
    whole = to_json(letter(attributes={"a": Attribute("Binary", b"x")}))
    whole["attributes"]["a"]["binary"] = value
    with pytest.raises(NotALetter):
        from_json(whole)


@given(json_values)
def test_reading_a_letter_raises_only_not_a_letter(data: Any) -> None:
    whole = {"id": "m1", "body": "x", "attributes": {}, "system": {}}
    for candidate in (data, *({**whole, key: data} for key in whole)):
        with suppress(NotALetter):
            assert isinstance(from_json(candidate), Letter)


@given(letters)
def test_a_letter_survives_json(original: Letter) -> None:
    assert from_json(json.loads(compact_json(to_json(original)))) == original


@given(letters)
def test_a_letter_survives_a_lambda_event(original: Letter) -> None:
    record = to_event(original, receipt_handle="h", source_arn=ARN)
    assert from_event(json.loads(compact_json(record))) == original


def test_an_event_record_names_its_queue_and_region() -> None:
    record = to_event(letter(), receipt_handle="h", source_arn=ARN)
    assert record["eventSourceARN"] == ARN
    assert record["awsRegion"] == "eu-west-1"
    assert record["eventSource"] == "aws:sqs"
    assert record["receiptHandle"] == "h"
    assert to_event(letter(), receipt_handle="h", source_arn="?")["awsRegion"] == ""


def test_size_is_what_sqs_counts() -> None:
    small = letter(
        "é", attributes={"näme": Attribute("String", "ü"), "b": Attribute("Binary", b"123")}
    )
    assert small.size == 2 + (5 + 6 + 2) + (1 + 6 + 3)


@each_row(
    ("text", "number"),
    [
        ("0", 0),
        ("1789999000123", 1789999000123),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1.0", None),
        (" 1", None),
        ("1_0", None),
        ("\uff11", None),  # a full-width digit
        ("\u00b2", None),  # a superscript
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        (1, None),
        (None, None),
    ],
)
def test_only_plain_digits_are_a_whole_number(text: object, number: int | None) -> None:
    assert whole_number(text) == number


def test_compact_json_is_utf8_and_escapes_a_lone_surrogate() -> None:
    assert compact_json({"a": "é\n"}) == b'{"a":"\xc3\xa9\\n"}'
    assert json.loads(compact_json({"a": "\ud800"})) == {"a": "\ud800"}


@given(st.text(alphabet=st.characters(codec=None), max_size=20))
def test_size_never_raises_and_counts_utf8(text: str) -> None:
    assert letter(text).size == len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("text", ["aGk=!", "aG k=", "aGk"])
def test_a_binary_value_is_strict_base64(text: str) -> None:
    """Lenient decoding would drop characters, and the letter would arrive changed."""
    attribute = {"dataType": "Binary", "binaryValue": text}
    with pytest.raises(NotALetter):
        from_event({"messageId": "m1", "body": "", "messageAttributes": {"a": attribute}})
    data = to_json(letter(attributes={"a": Attribute("Binary", b"hi")}))
    data["attributes"]["a"]["binary"] = text
    with pytest.raises(NotALetter):
        from_json(data)


@pytest.mark.parametrize(
    ("arn", "region"),
    [
        (ARN, "eu-west-1"),
        ("arn:aws:sqs:eu-west-1:123456789012", ""),
        ("", ""),
        ("arn:aws-cn:sqs:cn-north-1:123456789012:orders:more", "cn-north-1"),
    ],
)
def test_the_region_of_a_record_is_that_of_its_queue(arn: str, region: str) -> None:
    assert to_event(letter(), receipt_handle="h", source_arn=arn)["awsRegion"] == region


def test_a_letters_json_is_kept_until_it_is_taken() -> None:
    letter = Letter("m", "é \ud800")
    first = letter.encoded
    assert letter.encoded is first
    assert letter.take_encoded() is first
    assert letter.encoded is not first
    assert json.loads(letter.encoded) == to_json(letter)
    assert letter == Letter("m", "é \ud800")
    assert json.loads(replace(letter, body="other").encoded)["body"] == "other"
