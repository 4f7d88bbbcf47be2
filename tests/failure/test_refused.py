"""Whether a validator refused the letter: where it looks, and how far."""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import ipaddress
import json
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, PositiveInt, TypeAdapter

from deadletter.failure.refused import refuses_the_letter
from tests.each_row import each_row
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


def test_a_key_of_thousands_of_digits_is_a_step_of_a_path() -> None:
    key = "1" * 5_000
    error = fake("fastjsonschema.JsonSchemaException", value="a-1", path=f"data.{key}")
    assert refuses(error, {key: "a-1"})


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


class Side(enum.Enum):
    """A choice."""

    LEFT = "left"


@each_row(
    ("fail", "refused", "other"),
    [
        (int, "many", "few"),
        (float, "many", "few"),
        (datetime.datetime.fromisoformat, "soon", "late"),
        (lambda text: datetime.datetime.strptime(text, "%Y %z"), "soon", "late"),
        (Side, "cyan", "grey"),
        (uuid.UUID, "cyan", "grey"),
        (ipaddress.ip_address, "cyan", "grey"),
        (lambda text: base64.b64decode(text, validate=True), "cyan!", "grey!"),
        (ET.fromstring, "<a><b></a>", "<html><a></html>"),
        (lambda text: yaml.safe_load(text), "a: b: c", "502: bad: x"),
        (TypeAdapter(int).validate_python, "many", "few"),
        (TypeAdapter(PositiveInt).validate_python, -3, -4),
        (lambda value: raise_(fake("shop.InvalidAmount", value=value)), -3, -4),
        (lambda value: raise_(fake("dacite.WrongTypeError", value=value)), "many", "few"),
        (
            lambda value: raise_(
                fake(
                    "mashumaro.InvalidFieldValue < ValueError",
                    field_name="value",
                    field_value=value,
                )
            ),
            "many",
            "few",
        ),
        (
            lambda doc: raise_(fake("simplejson.JSONDecodeError < ValueError", doc=doc)),
            "{oops",
            "<html>",
        ),
    ],
)
def test_a_conversion_blames_the_letter_if_the_letter_has_the_value(
    fail: Callable[[Any], Any], refused: Any, other: Any
) -> None:
    """A dependency's answer fails in the same way, and then the message comes back."""
    body = refused if refused == "{oops" else {"lines": [{"value": refused}], "note": "ok"}
    assert refuses(caught(lambda: fail(refused)), body)
    assert not refuses(caught(lambda: fail(other)), body)


def raise_(error: BaseException) -> None:
    raise error


def to_decimal(text: str) -> Any:
    return decimal.Decimal(text)


def total_of(order: dict[str, Any]) -> Any:
    return decimal.Decimal(order["total"])


def date_of(order: dict[str, Any]) -> Any:
    return datetime.date.fromisoformat(order["due"])


def test_a_conversion_whose_error_holds_no_data_blames_the_letter_that_it_read() -> None:
    bad = {"total": "12,50", "due": "2026-13-01", "name": "Bo"}
    good = {"total": "12.50", "due": "soon", "name": "Bo"}
    for fail in (lambda: to_decimal("12,50"), lambda: total_of(bad), lambda: date_of(bad)):
        assert refuses(caught(fail), bad)
        assert not refuses(caught(fail), good)
    assert not refuses(caught(lambda: to_decimal("12;50")), bad)


def price_of(order: dict[str, Any], at: int = 0) -> Any:
    return decimal.Decimal(order["lines"][0]["price"])


def price_or_none(order: dict[str, Any]) -> Any:
    return decimal.Decimal(order.get("price"))  # type: ignore[arg-type]


def price_elsewhere(order: dict[str, Any], answer: str) -> Any:
    return decimal.Decimal(order["price"] + answer)


def price_by_name(order: dict[str, Any], name: str) -> Any:
    return decimal.Decimal(order[name])


def price_of_a_call(sku: str) -> Any:
    return decimal.Decimal(asked(sku))


def asked(sku: str) -> str:
    return f"no price of {sku}"


def test_a_conversion_was_given_a_variable_or_what_constants_select_in_it() -> None:
    nested = {"lines": [{"price": "12,50"}]}
    assert refuses(caught(lambda: price_of(nested)), nested)
    assert not refuses(caught(lambda: price_of(nested)), {"price": "12;50"})
    flat = {"price": "12,50"}
    assert refuses(caught(lambda: price_or_none(flat)), flat)
    for fail in (
        lambda: price_elsewhere(flat, "1"),
        lambda: price_by_name(flat, "price"),
        lambda: price_of_a_call("12,50"),
    ):
        assert not refuses(caught(fail), flat)


@pytest.mark.parametrize("common", ["", "error", "OK", "null"])
def test_a_value_that_answers_have_too_does_not_blame_the_letter(common: str) -> None:
    assert not refuses(caught(lambda: int(common)), {"count": common})
    assert not refuses(caught(lambda: TypeAdapter(int).validate_python(common)), {"a": common})


def test_a_client_that_was_given_a_text_of_the_letter_is_no_parser() -> None:
    """Only a library that asks nobody can have refused its argument."""
    names: dict[str, Any] = {"__name__": "requests.api"}
    exec("def get(url):\n    raise ValueError('refused')", names)  # noqa: S102 - a client
    assert not refuses(caught(lambda: names["get"]("cyan")), {"colour": "cyan"})
    names = {"__name__": "csv"}
    exec("def read(text):\n    raise ValueError('refused')", names)  # noqa: S102 - a parser
    assert refuses(caught(lambda: names["read"]("cyan")), {"colour": "cyan"})
