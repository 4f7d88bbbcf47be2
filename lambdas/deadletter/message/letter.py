"""A message in the DLQ, with everything that must survive a move."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_ATTRIBUTES = 10
"""SQS refuses an eleventh message attribute."""

MAX_BYTES = 1024 * 1024
"""SQS takes body, attribute names, types and values up to 1 MiB together (since August 2025)."""


class NotALetter(ValueError):
    """What was given does not have the shape of an SQS message."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One message attribute: its exact data type and its exact value.

    `data_type` is String, Number or Binary, each possibly with a custom suffix
    ("Number.float"); `value` is bytes for Binary, text otherwise.
    """

    data_type: str
    value: str | bytes

    @property
    def size(self) -> int:
        """Bytes that SQS counts for it, the name aside."""
        value = self.value if isinstance(self.value, bytes) else utf8(self.value)
        return len(utf8(self.data_type)) + len(value)


@dataclass(frozen=True, slots=True)
class Letter:
    """A message with everything that must survive a move.

    `system` holds SQS's own attributes (SentTimestamp, SenderId, MessageGroupId,
    AWSTraceHeader, …) by their API names, all as text.
    """

    message_id: str
    body: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    system: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes as SQS counts them."""
        return size_of(self.body, self.attributes)

    @property
    def group(self) -> str | None:
        """The FIFO group, or the tenant of a fair queue."""
        return self.system.get("MessageGroupId")

    @property
    def sender(self) -> str:
        return self.system.get("SenderId", "")

    @property
    def source_arn(self) -> str | None:
        """The queue that SQS moved it here from, where SQS says so."""
        return self.system.get("DeadLetterQueueSourceArn")

    @property
    def sent_ms(self) -> int | None:
        """When this copy was sent, in epoch milliseconds; None if SQS did not say."""
        return whole_number(self.system.get("SentTimestamp"))


def utf8(text: str) -> bytes:
    """UTF-8 as SQS counts it; a lone surrogate, which SQS never delivers, counts as three bytes."""
    return text.encode("utf-8", "surrogatepass")


def size_of(body: str, attributes: Mapping[str, Attribute]) -> int:
    """Bytes that SQS counts against its limit: body plus attribute names, types and values."""
    return len(utf8(body)) + sum(len(utf8(n)) + a.size for n, a in attributes.items())


def whole_number(text: object) -> int | None:
    """The number that AWS wrote as text; None for anything that is not a plain whole number."""
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    return None


def from_api(message: Mapping[str, Any]) -> Letter:
    """The letter in one message of ReceiveMessage.

    Raises NotALetter if it has no MessageId, a body that is no text or an attribute
    without type or value.
    """
    try:
        attributes = {
            name: Attribute(
                value["DataType"],
                bytes(value["BinaryValue"]) if "BinaryValue" in value else value["StringValue"],
            )
            for name, value in message.get("MessageAttributes", {}).items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise NotALetter("a message attribute without type or value") from error
    return _letter(
        message.get("MessageId"), message.get("Body"), attributes, message.get("Attributes", {})
    )


def from_event(record: Mapping[str, Any]) -> Letter:
    """The letter in one record of a Lambda event, which spells everything differently.

    Raises NotALetter as `from_api` does, and for a binary value that is not base64.
    """
    try:
        attributes = {
            name: Attribute(
                value["dataType"],
                base64.b64decode(value["binaryValue"], validate=True)
                if value["dataType"].partition(".")[0] == "Binary"
                else value["stringValue"],
            )
            for name, value in record.get("messageAttributes", {}).items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise NotALetter("a message attribute of the event is not readable") from error
    return _letter(
        record.get("messageId"), record.get("body"), attributes, record.get("attributes", {})
    )


def to_event(letter: Letter, *, receipt_handle: str, source_arn: str) -> dict[str, Any]:
    """The record that a consumer would be given for this letter; `from_event` is its inverse."""
    region = source_arn.split(":")[3] if source_arn.count(":") >= 5 else ""
    return {
        "messageId": letter.message_id,
        "receiptHandle": receipt_handle,
        "body": letter.body,
        # Nobody checks it, but the models that people parse records with demand it.
        "md5OfBody": hashlib.md5(utf8(letter.body), usedforsecurity=False).hexdigest(),
        "attributes": dict(letter.system),
        "messageAttributes": {
            name: {
                "dataType": one.data_type,
                "stringListValues": [],
                "binaryListValues": [],
                **(
                    {"binaryValue": base64.b64encode(one.value).decode()}
                    if isinstance(one.value, bytes)
                    else {"stringValue": one.value}
                ),
            }
            for name, one in letter.attributes.items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": source_arn,
        "awsRegion": region,
    }


def to_json(letter: Letter) -> dict[str, Any]:
    """The letter as JSON-ready data, for the router and the waiting room."""
    return {
        "id": letter.message_id,
        "body": letter.body,
        "attributes": {
            name: {
                "type": one.data_type,
                **(
                    {"binary": base64.b64encode(one.value).decode()}
                    if isinstance(one.value, bytes)
                    else {"text": one.value}
                ),
            }
            for name, one in letter.attributes.items()
        },
        "system": dict(letter.system),
    }


def from_json(data: Mapping[str, Any]) -> Letter:
    """The letter that `to_json` wrote; raises NotALetter for anything else."""
    try:
        attributes = {
            name: Attribute(
                one["type"],
                base64.b64decode(one["binary"], validate=True) if "binary" in one else one["text"],
            )
            for name, one in data["attributes"].items()
        }
        return _letter(data["id"], data["body"], attributes, data["system"])
    except NotALetter:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise NotALetter("not the JSON of a letter") from error


def compact_json(data: object) -> bytes:
    """Compact JSON as it goes over the wire; a lone surrogate is escaped rather than fatal."""
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode()


def _letter(
    message_id: object, body: object, attributes: Mapping[str, Attribute], system: object
) -> Letter:
    if not isinstance(message_id, str) or not message_id:
        raise NotALetter("a message without an id")
    if not isinstance(body, str):
        raise NotALetter("a message whose body is not text")
    for one in attributes.values():
        if not isinstance(one.data_type, str) or not isinstance(one.value, str | bytes):
            raise NotALetter("a message attribute that is neither text nor bytes")
    if not isinstance(system, Mapping):
        raise NotALetter("a message whose system attributes are no map")
    return Letter(message_id, body, attributes, dict(system))
