"""Whether a validator refused the letter: where it looks, and how far."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pydantic import BaseModel

from deadletter.failure.refused import refuses_the_letter
from tests.failure.exceptions import caught, fake
from tests.samples import letter


class Meta(BaseModel):
    """A part of a message."""

    sku: str


class Order(BaseModel):
    """A message."""

    count: int = 0
    meta: Meta | None = None


def refuses(error: BaseException, body: Any) -> bool:
    return refuses_the_letter(error, letter(body if isinstance(body, str) else json.dumps(body)))


def invalid(data: Any, *path: Any) -> BaseException:
    """As jsonschema refuses a piece of data at its place."""
    return fake("jsonschema.ValidationError", instance=data, absolute_path=path)


def test_a_missing_field_is_looked_for_at_the_object_that_lacks_it() -> None:
    error = caught(lambda: Order.model_validate({"meta": {}}))
    assert refuses(error, {"meta": {}})
    assert not refuses(error, {"meta": {"sku": "a-1"}, "more": {}})


def test_a_null_is_not_found_where_the_letter_has_nothing() -> None:
    error = caught(lambda: Order.model_validate({"count": None}))
    assert refuses(error, {"count": None})
    assert not refuses(error, {"size": 1})


def test_a_text_that_is_no_json_is_compared_with_the_whole_body() -> None:
    error = caught(lambda: Order.model_validate_json("{oops"))
    assert refuses(error, "{oops")
    assert not refuses(error, '{"note": "{oops"}')


def test_a_path_loses_only_the_name_of_the_whole_document() -> None:
    error = fake("fastjsonschema.JsonSchemaException", value="a-1", path=["data", "second", "sku"])
    assert refuses(error, {"first": {"sku": "b-2"}, "second": {"sku": "a-1"}})
    assert not refuses(error, {"first": {"sku": "a-1"}, "second": {"sku": "b-2"}})


@pytest.mark.parametrize(
    ("document", "characters", "found"), [('{"a":"b"}', 12, False), ('{"id":"b"}', 16, True)]
)
def test_base64_is_read_from_sixteen_characters_on(
    document: str, characters: int, found: bool
) -> None:
    encoded = base64.b64encode(document.encode()).decode()
    assert len(encoded) == characters
    (name,) = json.loads(document)
    assert refuses(invalid("b", name), encoded) is found


def test_base64_in_the_midst_of_a_text_is_no_document() -> None:
    encoded = base64.b64encode(b'{"state": "down"}').decode()
    error = invalid("down", "state")
    assert refuses(error, encoded)
    assert not refuses(error, f"*** {encoded} ***")


@pytest.mark.parametrize(("own", "refused"), [(19, False), (20, True)])
def test_twenty_errors_of_a_validation_are_compared(own: int, refused: bool) -> None:
    errors = [{"type": "int_type", "loc": ("count",), "input": "many"}] * own
    errors.append({"type": "int_type", "loc": ("count",), "input": "an answer"})
    error = fake("pydantic_core.ValidationError", errors=lambda _: errors)
    assert refuses(error, {"count": "many"}) is refused


@pytest.mark.parametrize(("before", "found"), [(497, True), (498, False)])
def test_five_hundred_pieces_of_a_letter_are_compared(before: int, found: bool) -> None:
    """The body and the list in it are the first two."""
    piece = {"count": "many"}
    error = fake("marshmallow.ValidationError", data=piece)
    assert refuses(error, [0] * before + [piece]) is found


@pytest.mark.parametrize(("steps", "found"), [(20, True), (21, False)])
def test_twenty_steps_of_a_path_are_followed(steps: int, found: bool) -> None:
    path = [f"step {number}" for number in range(steps)]
    body: Any = "many"
    for step in reversed(path):
        body = {step: body}
    assert refuses(invalid("many", *path), body) is found
