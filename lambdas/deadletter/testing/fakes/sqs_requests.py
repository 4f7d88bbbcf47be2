"""What SQS turns down before it looks at any queue's messages, and the codes it says so with."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from deadletter.testing.fakes.errors import Declined, malformed

# Bytes: one message with its attributes, and also one whole batch of them.
LARGEST_MESSAGE = 1_048_576
# Entries of a batch, and messages of one receive.
LARGEST_BATCH = 10
_MOST_ATTRIBUTES = 10

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch
# The guide says A-Z and a-z; SQS takes letters of other alphabets, too.
_ATTRIBUTE_NAME = re.compile(r"[\w-]+(\.[\w-]+)*").fullmatch
_DATA_TYPE = re.compile(r"(String|Number|Binary)(\..+)?").fullmatch
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?").fullmatch
# Letters, digits and ASCII punctuation: everything printable but the space.
_TOKEN = re.compile("[!-~]{1,128}").fullmatch
_VALUE_KEYS = frozenset(
    ("DataType", "StringValue", "BinaryValue", "StringListValues", "BinaryListValues")
)


def invalid(message: str) -> Declined:
    return Declined("InvalidParameterValue", message)


def invalid_value(value: object, parameter: str, reason: str) -> Declined:
    return invalid(f"Value {value} for parameter {parameter} is invalid. Reason: {reason}")


def missing(parameter: str) -> Declined:
    return Declined("MissingParameter", f"The request must contain the parameter {parameter}.")


def prefixed(name: str, message: str) -> Declined:
    return Declined(f"AWS.SimpleQueueService.{name}", message)


def unknown_attribute(names: Iterable[str]) -> Declined:
    return Declined("InvalidAttributeName", f"Unknown Attribute {min(names)}.")


def check_batch(entries: Sequence[Mapping[str, Any]], known: frozenset[str], needed: str) -> None:
    if not isinstance(entries, list | tuple):
        raise malformed("Entries is a list")
    if not entries:
        raise prefixed("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > LARGEST_BATCH:
        raise prefixed(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are 10. You have sent {len(entries)}.",
        )
    seen = set()
    for entry in entries:
        entry_id = entry.get("Id")
        if not (isinstance(entry_id, str) and isinstance(entry.get(needed), str)):
            raise malformed(f"an entry has Id and {needed}, which are strings")
        if not entry.keys() <= known:
            raise malformed(f"an entry has no member but {', '.join(known)}")
        if not _ENTRY_ID(entry_id):
            raise prefixed(
                "InvalidBatchEntryId",
                "A batch entry id has 1 to 80 letters, digits, hyphens and underscores.",
            )
        if entry_id in seen:
            raise prefixed("BatchEntryIdsNotDistinct", f"Id {entry_id} repeated.")
        seen.add(entry_id)


def check_token(token: str, parameter: str) -> None:
    """MessageGroupId and MessageDeduplicationId share their alphabet; "" means not given."""
    if type(token) is not str:
        raise malformed(f"{parameter} is a string")
    if token and not _TOKEN(token):
        raise invalid_value(token, parameter, "It has 1 to 128 printable ASCII characters.")


def check_range(value: int, parameter: str, most: int, least: int = 0) -> None:
    if type(value) is not int:
        raise malformed(f"{parameter} is a whole number")
    if not least <= value <= most:
        raise invalid_value(value, parameter, f"Must be between {least} and {most}, if provided.")


def accept_body(body: str) -> bytes:
    """The body as SQS counts it."""
    if type(body) is not str:
        raise malformed("MessageBody is a string")
    if not body:
        raise missing("MessageBody")
    if _has_forbidden(body):
        raise Declined(
            "InvalidMessageContents", "The message holds characters outside the allowed set."
        )
    return body.encode()


def accept_attributes(
    attributes: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, dict[str, Any]], int]:
    """Our own copy of message attributes, and their size in bytes."""
    if not isinstance(attributes, Mapping):
        raise malformed("MessageAttributes is a mapping")
    if len(attributes) > _MOST_ATTRIBUTES:
        raise invalid(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [10]."
        )
    accepted = {}
    size = 0
    for name, value in attributes.items():
        _check_name(name)
        data_type = value.get("DataType")
        if type(data_type) is not str or not value.keys() <= _VALUE_KEYS:
            raise malformed("a message attribute has a DataType and one value")
        field = _field(data_type)
        content = value.get(field)
        if not content or len(value) != 2:
            raise invalid(
                f"Message (user) attribute '{name}' must contain a non-empty value "
                f"in {field}, and no other."
            )
        if field == "BinaryValue":
            content = content.encode() if isinstance(content, str) else bytes(content)
            size += len(content)
        else:
            if type(content) is not str:
                raise malformed("StringValue is a string")
            if data_type[0] == "N" and not _NUMBER(content):
                raise invalid(
                    f"Can't cast the value of message (user) attribute '{name}' to a number."
                )
            if _has_forbidden(content):
                raise invalid(f"Message (user) attribute '{name}' holds invalid characters.")
            size += len(content) if content.isascii() else len(content.encode())
        size += len(name.encode()) + len(data_type.encode())
        accepted[name] = {field: content, "DataType": data_type}
    return accepted, size


# Producers use few names and types, over and over.


@lru_cache(4096)
def _check_name(name: str) -> None:
    if not _ATTRIBUTE_NAME(name) or len(name) > 256:
        raise invalid(
            "A message attribute name has 1 to 256 letters, digits, hyphens, underscores "
            "and single periods, none at its ends."
        )
    if name.lower().startswith(("aws.", "amazon.")):
        raise invalid("Message attribute names that begin with AWS. or Amazon. are reserved.")


@lru_cache(4096)
def _field(data_type: str) -> str:
    if not _DATA_TYPE(data_type) or len(data_type) > 256 or _has_forbidden(data_type):
        raise invalid("A message attribute's type is String, Number or Binary, or begins so.")
    return "BinaryValue" if data_type.startswith("Binary") else "StringValue"


def _has_forbidden(text: str) -> bool:
    # `isprintable` is an order of magnitude faster than the search, and true of most texts.
    return not text.isprintable() and _FORBIDDEN.search(text) is not None
