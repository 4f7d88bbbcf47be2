"""The calls that letters need most, with how their bodies are written and read.

SQS and DynamoDB speak AWS JSON 1.0: https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.aws.wire.connections import Received
from deadletter.message.letter import utf8

Arguments = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HotCall:
    """One operation of a service.

    Calls with equal `place`s differ in nothing but their bodies. `write` gives the body, or None
    if only boto3 can write it.
    """

    name: str
    place: Callable[[Arguments], Hashable]
    write: Callable[[Arguments], bytes | None]
    read: Callable[[Received], Answer]


def _base64(value: Any) -> str:
    """Bytes as JSON has them. Other types are no JSON; boto3 would refuse them too."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} in a request")


_encoder = json.JSONEncoder(default=_base64, check_circular=False)


def _json(arguments: Arguments) -> bytes:
    return _encoder.encode(arguments).encode("ascii")


def _plain(received: Received, read: Callable[[Answer], Any] | None = None) -> Answer:
    answer = json.loads(received.body, object_hook=read) if received.body else {}
    # boto3 leaves out what has no value.
    return {name: value for name, value in answer.items() if value is not None}


def _messages(received: Received) -> Answer:
    """Received messages, without those that did not arrive as SQS has them.

    A damaged message stays in the queue until its lock ends, and is received again.
    """
    answer = _plain(received)
    if "Messages" in answer:
        answer["Messages"] = [message for message in answer["Messages"] if _is_whole(message)]
    for message in answer.get("Messages", ()):
        for attribute in message.get("MessageAttributes", {}).values():
            if "BinaryValue" in attribute:
                attribute["BinaryValue"] = base64.b64decode(attribute["BinaryValue"])
    return answer


def _is_whole(message: Mapping[str, Any]) -> bool:
    digest = message.get("MD5OfBody")
    body = utf8(message.get("Body", ""))
    return digest is None or digest == hashlib.md5(body, usedforsecurity=False).hexdigest()


def _items(received: Received) -> Answer:
    """Items of a table with bytes for binaries, which JSON has in base64."""
    # Most answers have none, and a look at the text is faster than one at each value.
    if b'"B"' not in received.body and b'"BS"' not in received.body:
        return _plain(received)
    return _plain(received, _with_bytes)


def _with_bytes(value: Answer) -> Answer:
    """A binary, or a set of them, as bytes. What an item calls B or BS is an object itself."""
    if isinstance(binary := value.get("B"), str):
        return {"B": base64.b64decode(binary)}
    if isinstance(binaries := value.get("BS"), list):
        return {"BS": [base64.b64decode(member) for member in binaries]}
    return value


def _payload(arguments: Arguments) -> bytes | None:
    match arguments.get("Payload", b""):
        case str() as text:
            return utf8(text)
        case bytes() as data:
            return data
    return None


_INVOCATION_HEADERS = {
    "FunctionError": "x-amz-function-error",
    "LogResult": "x-amz-log-result",
    "ExecutedVersion": "x-amz-executed-version",
}


def _invoked(received: Received) -> Answer:
    headers = {
        member: received.headers[header]
        for member, header in _INVOCATION_HEADERS.items()
        if header in received.headers
    }
    return {"StatusCode": received.status, "Payload": io.BytesIO(received.body), **headers}


def _queue(arguments: Arguments) -> Hashable:
    return arguments.get("QueueUrl")


def _table(arguments: Arguments) -> Hashable:
    return arguments.get("TableName")


def _tables(arguments: Arguments) -> Hashable:
    return tuple(arguments.get("RequestItems", ()))


def _invocation(arguments: Arguments) -> Hashable:
    """All but the payload is in the URL and in headers."""
    return tuple(sorted((name, str(arguments[name])) for name in arguments if name != "Payload"))


HOT_CALLS: Mapping[str, Mapping[str, HotCall]] = {
    "sqs": {
        "receive_message": HotCall("ReceiveMessage", _queue, _json, _messages),
        "send_message_batch": HotCall("SendMessageBatch", _queue, _json, _plain),
        "delete_message_batch": HotCall("DeleteMessageBatch", _queue, _json, _plain),
        "change_message_visibility_batch": HotCall(
            "ChangeMessageVisibilityBatch", _queue, _json, _plain
        ),
        "get_queue_attributes": HotCall("GetQueueAttributes", _queue, _json, _plain),
    },
    "dynamodb": {
        "get_item": HotCall("GetItem", _table, _json, _items),
        "put_item": HotCall("PutItem", _table, _json, _items),
        "update_item": HotCall("UpdateItem", _table, _json, _items),
        "delete_item": HotCall("DeleteItem", _table, _json, _items),
        "query": HotCall("Query", _table, _json, _items),
        "batch_get_item": HotCall("BatchGetItem", _tables, _json, _items),
        "batch_write_item": HotCall("BatchWriteItem", _tables, _json, _items),
    },
    "lambda": {"invoke": HotCall("Invoke", _invocation, _payload, _invoked)},
}
"""By service, and by the name that boto3 gives the operation."""
