"""Opens what SNS, EventBridge, Pipes and CloudEvents put around a producer's message.

What they and S3 write anew each time a message is published is no part of it: ids, times, traces.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from deadletter.message.letter import Attribute
from deadletter.message.strict_json import Unreadable, read_json

SERVICES = ("SNS", "EventBridge", "DynamoDB", "Kinesis", "S3", "CloudEvents")
"""What puts wrappers around messages."""

MOST_WRAPPERS = 3
"""Wrappers within each other that are opened, such as an event that reached a queue by a topic."""

# Attributes and fields that tracing libraries set anew at each send (W3C, B3, Jaeger, X-Ray,
# Datadog, New Relic, Sentry): a producer's second send of one message differs in nothing else.
TRACING = frozenset(
    {
        *("traceparent", "tracestate", "baggage", "b3", "uber-trace-id", "awstraceheader"),
        *("x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"),
        *("x-amzn-trace-id", "_datadog", "newrelic", "sentry-trace"),
    }
)

NEW_IN_CLOUDEVENTS = frozenset({"id", "time", "traceparent", "tracestate"})
"""What each publishing of a CloudEvent sets anew."""

# The attributes of a message that are the context of a CloudEvent begin with one of these.
_CONTEXTS = ("ce-", "ce_", "cloudevents_")


def lasting(attributes: Mapping[str, Attribute]) -> Iterator[tuple[str, Attribute]]:
    """The attributes that are the same each time a message is published."""
    lower = {name.lower() for name in attributes}
    new = [
        context + name
        for context in _CONTEXTS
        if f"{context}specversion" in lower
        for name in NEW_IN_CLOUDEVENTS
    ]
    for name, attribute in attributes.items():
        if name.lower() not in TRACING and name.lower() not in new:
            yield name, attribute


# What each service writes anew, and signatures over it. SNS spells its URLs in two ways.
_OF_ONE_NOTIFICATION = frozenset(
    {
        *("Type", "MessageId", "SequenceNumber", "Timestamp", "SignatureVersion", "Signature"),
        *("SigningCertURL", "SigningCertUrl", "UnsubscribeURL", "UnsubscribeUrl"),
    }
)
_OF_ONE_EVENT = frozenset({"version", "id", "time", "replay-name"})
_OF_ONE_CHANGE = frozenset({"eventID", "eventVersion"})
_OF_ONE_WRITE = frozenset({"ApproximateCreationDateTime", "SequenceNumber", "SizeBytes"})
# A partition key places a record. Many producers draw it at random.
_OF_ONE_RECORD = frozenset(
    {
        *("kinesisSchemaVersion", "sequenceNumber", "approximateArrivalTimestamp", "eventID"),
        *("eventVersion", "invokeIdentityArn", "encryptionType", "partitionKey"),
    }
)
_OF_ONE_REQUEST = frozenset(
    {
        *("eventVersion", "eventTime", "requestParameters", "responseElements"),
        # The same in an event of EventBridge.
        *("version", "request-id", "source-ip-address"),
    }
)
_OF_ONE_CLOUDEVENT = frozenset({"specversion"}) | NEW_IN_CLOUDEVENTS | TRACING


@dataclass(frozen=True, slots=True)
class Wrapper:
    """One wrapper: its `service`, and the `facts` in it that are part of the message.

    Facts are what neither the wrapped message nor the act of publishing explains, such as the
    detail type of an event.
    """

    service: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Opened:
    """A message without its wrappers.

    `bodies` are the body as it was received and, behind it, what each wrapper held; the last is
    the producer's own. `readable` is False if that is a text that is not JSON. `attributes` are
    those that its producer gave a notification.
    """

    bodies: tuple[Any, ...]
    readable: bool = True
    wrappers: tuple[Wrapper, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def body(self) -> Any:
        """The producer's own message."""
        return self.bodies[-1]


def opened(text: str, *, exact: bool = False) -> Opened:
    """The message in a body, without the wrappers that are known. Never raises.

    With `exact` its numbers are ExactFloat where a float may differ from what was written.
    """
    body, readable = _read(text, exact)
    bodies: list[Any] = [body]
    wrappers: list[Wrapper] = []
    attributes: dict[str, Attribute] = {}
    while readable and len(wrappers) < MOST_WRAPPERS and isinstance(body, dict):
        wrapper, held = _opened(body)
        if wrapper is None:
            break
        if wrapper.service == "SNS":
            attributes |= _attributes(body.get("MessageAttributes"))
        body, readable = _read(held, exact) if isinstance(held, str) else (held, True)
        wrappers.append(wrapper)
        bodies.append(body)
    return Opened(tuple(bodies), readable, tuple(wrappers), attributes)


def _opened(body: Mapping[str, Any]) -> tuple[Wrapper | None, Any]:
    """The wrapper that a body is, and what it holds: a text may be JSON."""
    if _is_notification(body):
        facts = _without(body, _OF_ONE_NOTIFICATION, "Message")
        if _is_attributes(facts.get("MessageAttributes")):
            del facts["MessageAttributes"]
        return Wrapper("SNS", facts), body["Message"]
    if _is_event(body):
        held = body["detail"]
        # What S3 says to EventBridge is an event with a request in it.
        held = _stored_object(held) if body["source"] == "aws.s3" else held
        return Wrapper("EventBridge", _without(body, _OF_ONE_EVENT, "detail")), held
    if _is_cloudevent(body):
        facts = _without(body, _OF_ONE_CLOUDEVENT, "data", "data_base64")
        encoded = body.get("data_base64")
        held = _text(encoded) if isinstance(encoded, str) else body.get("data")
        return Wrapper("CloudEvents", facts), held
    match body.get("eventSource"):
        case "aws:dynamodb" if isinstance(body.get("dynamodb"), dict):
            change = _without(body["dynamodb"], _OF_ONE_WRITE)
            return Wrapper("DynamoDB", _without(body, _OF_ONE_CHANGE, "dynamodb")), change
        case "aws:kinesis" if isinstance(body.get("data"), str):
            facts = _without(body, _OF_ONE_RECORD, "data")
            return Wrapper("Kinesis", facts), _text(body["data"])
    if _is_of_bucket(body):
        records = [_of_bucket(record) for record in body["Records"]]
        return Wrapper("S3", _without(body, frozenset(), "Records")), {"Records": records}
    return None, None


def _read(text: str, exact: bool) -> tuple[Any, bool]:
    try:
        return read_json(text, exact=exact), True
    except Unreadable:
        return text, False


def _without(data: Mapping[str, Any], names: frozenset[str], *more: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names and name not in more}


def _text(encoded: str) -> str:
    """The text in base64. Of what is no text the base64, which must not be read as JSON."""
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return f"base64 {encoded}"


def _has_texts(body: Mapping[str, Any], *names: str) -> bool:
    return all(isinstance(body.get(name), str) for name in names)


def _is_notification(body: Mapping[str, Any]) -> bool:
    """Whether this is a message of SNS to a queue without raw message delivery."""
    is_named = body.get("Type") == "Notification"
    return is_named and _has_texts(body, "MessageId", "TopicArn", "Message")


def _is_event(body: Mapping[str, Any]) -> bool:
    """Whether this is an event as EventBridge delivers it."""
    is_object = isinstance(body.get("detail"), dict)
    return is_object and _has_texts(body, "id", "detail-type", "source", "time")


def _is_cloudevent(body: Mapping[str, Any]) -> bool:
    """Whether this is an event in the JSON form of CloudEvents."""
    return _has_texts(body, "specversion", "id", "source", "type")


def _is_of_bucket(body: Mapping[str, Any]) -> bool:
    """Whether this is what S3 tells of the objects in a bucket."""
    records = body.get("Records")
    return (
        isinstance(records, list)
        and bool(records)
        and all(
            isinstance(record, dict)
            and record.get("eventSource") == "aws:s3"
            and isinstance(record.get("s3"), dict)
            for record in records
        )
    )


def _of_bucket(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**_without(record, _OF_ONE_REQUEST), "s3": _stored_object(record["s3"])}


def _stored_object(data: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of an object in a bucket, without the request that wrote it."""
    said, stored = _without(data, _OF_ONE_REQUEST), data.get("object")
    if isinstance(stored, dict):
        said["object"] = _without(stored, frozenset(), "sequencer")
    return said


def _is_attributes(data: Any) -> bool:
    return isinstance(data, dict) and all(
        isinstance(value, dict)
        and isinstance(value.get("Type"), str)
        and isinstance(value.get("Value"), str)
        for value in data.values()
    )


def _attributes(data: Any) -> dict[str, Attribute]:
    """The attributes of a notification, as SQS would deliver them."""
    if not _is_attributes(data):
        return {}
    return {name: _attribute(value["Type"], value["Value"]) for name, value in data.items()}


def _attribute(data_type: str, value: str) -> Attribute:
    if data_type.partition(".")[0] == "Binary":
        with suppress(ValueError):
            return Attribute(data_type, base64.b64decode(value, validate=True))
    return Attribute(data_type, value)
