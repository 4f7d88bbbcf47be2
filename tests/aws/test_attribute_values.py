"""DynamoDB's attribute values are those that boto3 makes of plain data, and reads."""

from __future__ import annotations

from decimal import Decimal, DecimalException
from enum import StrEnum
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws.attribute_values import plain, stored
from tests.each_row import each_row

numbers = st.integers(-(10**37), 10**37) | st.decimals(-(10**20), 10**20, allow_nan=False, places=6)
binaries = st.binary(max_size=5)
texts = st.text(max_size=5)
single = st.none() | st.booleans() | numbers | texts | binaries
sets = (
    st.sets(numbers, min_size=1, max_size=3)
    | st.sets(texts, min_size=1, max_size=3)
    | st.sets(binaries, min_size=1, max_size=3)
)
values: st.SearchStrategy[Any] = st.recursive(
    single | sets,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_a_value_is_stored_as_boto3_stores_it_and_comes_back(value: Any) -> None:
    item = stored({"a": value})
    assert item == {"a": TypeSerializer().serialize(value)}
    assert plain(item) == {"a": value}
    # boto3 wraps binaries in a class that equals them.
    assert plain(item) == {"a": TypeDeserializer().deserialize(item["a"])}


def test_numbers_come_back_as_decimals_and_binaries_as_bytes() -> None:
    item = plain({"n": {"N": "1.50"}, "b": {"B": bytearray(b"x")}, "l": {"L": [{"N": "2"}]}})
    assert [*map(type, (item["n"], item["b"], item["l"][0]))] == [Decimal, bytes, Decimal]


class Colour(StrEnum):
    RED = "red"


def test_one_of_an_enumeration_is_a_text() -> None:
    assert stored({"a": Colour.RED, "b": (1, True)}) == {
        "a": {"S": "red"},
        "b": {"L": [{"N": "1"}, {"BOOL": True}]},
    }


@each_row("value", [1.5, object(), set(), {1, "a"}, {None}, Decimal("NaN")])
def test_what_dynamodb_has_no_value_for_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        stored({"a": value})


@pytest.mark.parametrize("value", [10**38 + 1, Decimal("1" * 39), Decimal("1e127")])
def test_a_number_that_would_be_rounded_is_refused(value: object) -> None:
    with pytest.raises(DecimalException):
        stored({"a": value})
