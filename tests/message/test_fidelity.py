"""Ten thousand random letters keep every byte through all their serialized forms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest

from deadletter.message import stamp as stamps
from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.letter import (
    MAX_BYTES,
    Attribute,
    Letter,
    compact_json,
    from_api,
    from_event,
    from_json,
    to_event,
    to_json,
)
from deadletter.message.stamp import Stamp
from deadletter.routing.router import Question
from deadletter.routing.wire import question_from_json, question_to_json

LETTERS = 10_000
LARGE_EVERY = 1_000
ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"

_ALPHABETS = (
    "abcdefgh 0123456789{}[]:,",
    "\t\n\r \"\\/<&'\u007f\u0085",
    "äöüßéñžçåø",
    "漢字かなカナ한글\u200d\u2028\ufeff",
    "😀👩‍👩‍👧𝄞\U0010ffff",
)
_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
_NUMBERS = ("0", "-1", "1e-7", "007", "3.1400", "12345678901234567890123456789012345678")


def random_text(random: Random, most: int) -> str:
    return "".join(random.choices(random.choice(_ALPHABETS), k=random.randrange(most)))


def random_attribute(random: Random) -> dict[str, Any]:
    """A message attribute in the API's shape: sometimes empty, often with a custom type."""
    suffix = random.choice(("", "", ".int", ".my.type", ".é"))
    kind = random.randrange(3)
    if kind == 0:
        return {"DataType": f"String{suffix}", "StringValue": random_text(random, 30)}
    if kind == 1:
        return {"DataType": f"Number{suffix}", "StringValue": random.choice(_NUMBERS)}
    return {"DataType": f"Binary{suffix}", "BinaryValue": random.randbytes(random.randrange(30))}


def random_message(random: Random, number: int) -> dict[str, Any]:
    """A message in the shape of ReceiveMessage; a few have the largest size that SQS accepts."""
    names = {"".join(random.choices(_NAMES, k=8)) for _ in range(random.randrange(11))}
    attributes = {name: random_attribute(random) for name in names}
    body = random_text(random, 60)
    if number % LARGE_EVERY == 0:
        room = (
            MAX_BYTES
            - from_api({"MessageId": "x", "Body": "", "MessageAttributes": attributes}).size
        )
        character = random.choice(_ALPHABETS)[0]
        body = character * (room // len(character.encode()))
    return {
        "MessageId": f"{random.getrandbits(128):032x}",
        "Body": body,
        "MessageAttributes": attributes,
        "Attributes": {
            "SentTimestamp": str(random.randrange(2**41)),
            "SenderId": f"AIDA{random.getrandbits(40):x}",
            "ApproximateReceiveCount": str(random.randrange(1, 1_000)),
            **({"MessageGroupId": random_text(random, 9)} if random.random() < 0.5 else {}),
        },
    }


def api_shape(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    return {
        name: {
            "DataType": attribute.data_type,
            (
                "BinaryValue" if isinstance(attribute.value, bytes) else "StringValue"
            ): attribute.value,
        }
        for name, attribute in attributes.items()
    }


def through_every_shape(message: dict[str, Any]) -> Iterator[Letter]:
    shape = from_api(message)
    yield shape
    shape = from_json(json.loads(compact_json(to_json(shape))))
    yield shape
    shape = from_event(
        json.loads(compact_json(to_event(shape, receipt_handle="h", source_arn=ARN)))
    )
    yield shape
    shape = question_from_json(json.loads(compact_json(question_to_json(Question(shape))))).letter
    yield shape


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def messages() -> list[dict[str, Any]]:
    random = Random(20261120)
    return [random_message(random, number) for number in range(LETTERS)]


def test_ten_thousand_letters_survive_every_shape(messages: list[dict[str, Any]]) -> None:
    unmarked = 0
    for number, message in enumerate(messages):
        for shape in through_every_shape(message):
            assert shape.message_id == message["MessageId"]
            assert shape.body == message["Body"]
            assert api_shape(shape.attributes) == message["MessageAttributes"]
            assert shape.system == message["Attributes"]
        envelope = seal(shape, Stamp(shape.message_id, 1, 1), QueueTraits())
        carried = dict(envelope.attributes)
        mark = carried.pop(stamps.NAME, None)
        has_room = len(shape.attributes) < 10 and number % LARGE_EVERY != 0
        assert envelope.body == message["Body"]
        assert api_shape(carried) == message["MessageAttributes"]
        assert envelope.group == message["Attributes"].get("MessageGroupId")
        assert (mark is not None) == envelope.marked == has_room
        assert envelope.size <= MAX_BYTES
        unmarked += not has_room
    # Both cases occurred often: with our stamp, and without room for it.
    assert LETTERS // 20 < unmarked < LETTERS // 5


def test_the_random_letters_cover_the_rare_cases(messages: list[dict[str, Any]]) -> None:
    attributes = [
        attribute for message in messages for attribute in message["MessageAttributes"].values()
    ]
    sizes = [from_api(message).size for message in messages[::LARGE_EVERY]]
    assert all(MAX_BYTES - 4 < size <= MAX_BYTES for size in sizes)
    assert any(attribute.get("BinaryValue") == b"" for attribute in attributes)
    assert any(attribute.get("StringValue") == "" for attribute in attributes)
    assert any(message["Body"] == "" for message in messages)
    kinds = {attribute["DataType"].partition(".")[0] for attribute in attributes}
    assert kinds == {"String", "Number", "Binary"}
