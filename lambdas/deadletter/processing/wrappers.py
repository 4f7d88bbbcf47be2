"""Opens the wrappers that SNS and EventBridge put around a producer's message."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deadletter.message.letter import Attribute
from deadletter.message.strict_json import Unreadable, read_json

MOST_WRAPPERS = 3
"""Wrappers within each other that are opened, such as an event that reached a queue by a topic."""

# The ids and times that a service writes anew each time a message is published, and signatures
# over them. SNS spells its URLs in two ways.
_OF_ONE_NOTIFICATION = frozenset(
    {
        *("Type", "MessageId", "SequenceNumber", "Timestamp", "SignatureVersion", "Signature"),
        *("SigningCertURL", "SigningCertUrl", "UnsubscribeURL", "UnsubscribeUrl"),
    }
)
_OF_ONE_EVENT = frozenset({"version", "id", "time", "replay-name"})


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
    while readable and len(wrappers) < MOST_WRAPPERS:
        if _is_notification(body):
            wrappers.append(_wrapper("SNS", body, _OF_ONE_NOTIFICATION, inner="Message"))
            attributes |= _attributes(body.get("MessageAttributes"))
            body, readable = _read(body["Message"], exact)
        elif _is_event(body):
            wrappers.append(_wrapper("EventBridge", body, _OF_ONE_EVENT, inner="detail"))
            body = body["detail"]
        else:
            break
        bodies.append(body)
    return Opened(tuple(bodies), readable, tuple(wrappers), attributes)


def _read(text: str, exact: bool) -> tuple[Any, bool]:
    try:
        return read_json(text, exact=exact), True
    except Unreadable:
        return text, False


def _is_notification(body: Any) -> bool:
    """Whether this is a message of SNS to a queue without raw message delivery."""
    texts = ("MessageId", "TopicArn", "Message")
    return (
        isinstance(body, dict)
        and body.get("Type") == "Notification"
        and all(isinstance(body.get(name), str) for name in texts)
    )


def _is_event(body: Any) -> bool:
    """Whether this is an event as EventBridge delivers it."""
    texts = ("id", "detail-type", "source", "time")
    return (
        isinstance(body, dict)
        and isinstance(body.get("detail"), dict)
        and all(isinstance(body.get(name), str) for name in texts)
    )


def _wrapper(
    service: str, body: Mapping[str, Any], of_one_publish: frozenset[str], inner: str
) -> Wrapper:
    left_out = of_one_publish | {inner}
    facts = {name: value for name, value in body.items() if name not in left_out}
    if _is_attributes(facts.get("MessageAttributes")):
        del facts["MessageAttributes"]
    return Wrapper(service, facts)


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
    if data_type.partition(".")[0] != "Binary":
        return Attribute(data_type, value)
    try:
        return Attribute(data_type, base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return Attribute(data_type, value)
