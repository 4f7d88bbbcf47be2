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
"""The SQS limit: body, attribute names, types and values together, 1 MiB since August 2025."""


_VALUES = (str, bytes)


class NotALetter(ValueError):
    """The data does not have the shape of an SQS message."""


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
        """Bytes that SQS counts for type and value; the name counts besides."""
        value = self.value
        in_value = len(value) if isinstance(value, bytes) else utf8_size(value)
        return utf8_size(self.data_type) + in_value


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
    _encoded: bytes | None = field(default=None, init=False, repr=False, compare=False)

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
        """The ARN of the queue that SQS moved it here from; None if SQS did not say."""
        return self.system.get("DeadLetterQueueSourceArn")

    @property
    def trace(self) -> str:
        """The id of its X-Ray trace, which every copy of it carries; "" if it has none."""
        for part in self.system.get("AWSTraceHeader", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == "Root":
                return value
        return ""

    @property
    def sent_ms(self) -> int | None:
        """When this copy was sent, in epoch milliseconds; None if SQS did not say."""
        return whole_number(self.system.get("SentTimestamp"))

    @property
    def encoded(self) -> bytes:
        """Its JSON, which is kept until it is taken: it is measured first, and sent later."""
        if self._encoded is None:
            object.__setattr__(self, "_encoded", compact_json(to_json(self)))
            assert self._encoded is not None
        return self._encoded

    def take_encoded(self) -> bytes:
        """Its JSON, to be sent now; it is kept no longer, because it may be large."""
        encoded = self.encoded
        object.__setattr__(self, "_encoded", None)
        return encoded


def utf8(text: str) -> bytes:
    """The text in UTF-8. A lone surrogate, which SQS never delivers, becomes three bytes."""
    return text.encode("utf-8", "surrogatepass")


def utf8_size(text: str) -> int:
    """The length of the text in UTF-8; Python knows whether a text is ASCII."""
    return len(text) if text.isascii() else len(utf8(text))


def digest(*pieces: bytes) -> str:
    """A hash of the pieces and of their lengths: "ab", "c" differs from "a", "bc"."""
    whole = hashlib.sha256()
    for piece in pieces:
        whole.update(len(piece).to_bytes(8, "big"))
        whole.update(piece)
    return whole.hexdigest()


def size_of(body: str, attributes: Mapping[str, Attribute]) -> int:
    """Bytes that SQS counts against its limit: body plus attribute names, types and values."""
    size = utf8_size(body)
    for name, attribute in attributes.items():
        size += utf8_size(name) + attribute.size
    return size


def whole_number(text: object) -> int | None:
    """The number that AWS wrote as text; None if it is not a plain whole number."""
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    return None


def from_api(message: Mapping[str, Any]) -> Letter:
    """The letter in one message of ReceiveMessage.

    Raises NotALetter if the MessageId is missing, the body is not text, or an attribute
    has no type or value.
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
    """The letter in one record of a Lambda event, whose keys differ from ReceiveMessage.

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
    """The record that a consumer receives for this letter; the inverse of `from_event`."""
    region = source_arn.split(":")[3] if source_arn.count(":") >= 5 else ""
    return {
        "messageId": letter.message_id,
        "receiptHandle": receipt_handle,
        "body": letter.body,
        # Not checked by us, but common models of a record require it.
        "md5OfBody": hashlib.md5(utf8(letter.body), usedforsecurity=False).hexdigest(),
        "attributes": dict(letter.system),
        "messageAttributes": {
            name: {
                "dataType": attribute.data_type,
                "stringListValues": [],
                "binaryListValues": [],
                **(
                    {"binaryValue": base64.b64encode(attribute.value).decode()}
                    if isinstance(attribute.value, bytes)
                    else {"stringValue": attribute.value}
                ),
            }
            for name, attribute in letter.attributes.items()
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
            name: {"type": attribute.data_type, "text": attribute.value}
            if isinstance(attribute.value, str)
            else {
                "type": attribute.data_type,
                "binary": base64.b64encode(attribute.value).decode(),
            }
            for name, attribute in letter.attributes.items()
        },
        "system": dict(letter.system),
    }


def from_json(data: Mapping[str, Any]) -> Letter:
    """The letter that `to_json` wrote; raises NotALetter for anything else."""
    try:
        attributes = {
            name: Attribute(
                value["type"],
                base64.b64decode(value["binary"], validate=True)
                if "binary" in value
                else value["text"],
            )
            for name, value in data["attributes"].items()
        }
        return _letter(data["id"], data["body"], attributes, data["system"])
    except NotALetter:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise NotALetter("not the JSON of a message") from error


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def compact_json(data: object) -> bytes:
    """The data as JSON without spaces. Text with a lone surrogate is escaped as ASCII."""
    try:
        return _encode(data).encode()
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode()


def _letter(
    message_id: object, body: object, attributes: Mapping[str, Attribute], system: object
) -> Letter:
    if not isinstance(message_id, str) or not message_id:
        raise NotALetter("a message without an id")
    if not isinstance(body, str):
        raise NotALetter("a message whose body is not text")
    for attribute in attributes.values():
        if not isinstance(attribute.data_type, str) or not isinstance(attribute.value, _VALUES):
            raise NotALetter("a message attribute that is neither text nor bytes")
    if not isinstance(system, dict):
        raise NotALetter("a message whose system attributes are not an object")
    return Letter(message_id, body, attributes, dict(system))
