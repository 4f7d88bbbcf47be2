"""DynamoDB's own form of values, which is boto3's, and of conditions and changes."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws.dynamodb import plain, stored, worded
from deadletter.aws.errors import NotSent
from deadletter.aws.table import (
    Condition,
    OrElse,
    above,
    absent,
    at_least,
    at_most,
    begins,
    below,
    between,
    differs,
    equals,
    every,
    is_number,
    kept,
    one_of,
    present,
    unchanged,
)
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


@each_row("value", [1.5, object(), set(), {1, "a"}, {None}])
def test_what_dynamodb_has_no_value_for_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        stored({"a": value})


@pytest.mark.parametrize(
    "value", [10**38 + 1, Decimal("1" * 39), Decimal("1e127"), Decimal("NaN"), 10**120 + 1]
)
def test_a_number_that_would_be_rounded_is_not_sent(value: object) -> None:
    """It is as if the call had been refused: no run ends with an error of arithmetic."""
    with pytest.raises(NotSent):
        stored({"a": value})


def test_a_change_sets_keeps_adds_and_removes_attributes_by_placeholder() -> None:
    sets = {"until": 7, **kept({"since": 1}), "ttl": OrElse("kept_until", 9)}
    adds = {"tries": 1, "tenants": {5}}
    assert worded({"Sets": sets, "Adds": adds, "Removes": ["paused", "until"]}) == {
        "UpdateExpression": "SET #n0 = :v0, #n1 = if_not_exists(#n1, :v1),"
        " #n2 = if_not_exists(#n3, :v2) ADD #n4 :v3, #n5 :v4 REMOVE #n6, #n0",
        "ExpressionAttributeNames": {
            "#n0": "until",
            "#n1": "since",
            "#n2": "ttl",
            "#n3": "kept_until",
            "#n4": "tries",
            "#n5": "tenants",
            "#n6": "paused",
        },
        "ExpressionAttributeValues": {
            ":v0": {"N": "7"},
            ":v1": {"N": "1"},
            ":v2": {"N": "9"},
            ":v3": {"N": "1"},
            ":v4": {"NS": ["5"]},
        },
    }


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (absent("a"), "attribute_not_exists(#n0)"),
        (present("a"), "attribute_exists(#n0)"),
        (equals(("a", "b"), 1), "#n0.#n1 = :v0"),
        (differs("a", 1), "#n0 <> :v0"),
        (below("a", 1) & at_most("b", 1), "(#n0 < :v0 AND #n1 <= :v1)"),
        (above("a", 1) | at_least("a", 1), "(#n0 > :v0 OR #n0 >= :v1)"),
        (between("a", 1, 2), "#n0 BETWEEN :v0 AND :v1"),
        (one_of("a", [1, 2]), "#n0 IN (:v0, :v1)"),
        (~begins("a", "x"), "NOT begins_with(#n0, :v0)"),
        (is_number("a"), "attribute_type(#n0, :v0)"),
        (every([absent("a"), equals("b", 1)]), "(attribute_not_exists(#n0) AND #n1 = :v0)"),
        (
            unchanged({"b": 1}, ["a column, as typed", "b"]),
            "(attribute_not_exists(#n0) AND #n1 = :v0)",
        ),
    ],
)
def test_a_condition_is_written_with_a_placeholder_for_each_name_and_value(
    condition: Condition, text: str
) -> None:
    arguments = worded({"When": condition})
    assert arguments["ConditionExpression"] == text
    places = {
        *arguments["ExpressionAttributeNames"],
        *arguments.get("ExpressionAttributeValues", {}),
    }
    assert places == {*re.findall(r"[#:]\w+", text)}
    assert arguments["ExpressionAttributeNames"]["#n0"] in ("a", "a column, as typed")


def test_the_expressions_of_a_request_share_their_placeholders() -> None:
    where, keep = equals("pk", "p"), ~begins("lane", "x")
    arguments = worded({"Where": where, "Keep": keep, "Only": ["pk", "lane", "sk"]})
    assert arguments["KeyConditionExpression"] == "#n0 = :v0"
    assert arguments["FilterExpression"] == "NOT begins_with(#n1, :v1)"
    assert arguments["ProjectionExpression"] == "#n0, #n1, #n2"
    assert arguments["ExpressionAttributeValues"] == {":v0": {"S": "p"}, ":v1": {"S": "x"}}


def test_the_other_members_of_a_request_stay_as_they_are() -> None:
    assert worded({"TableName": "messages", "Limit": 1}) == {"TableName": "messages", "Limit": 1}


def test_each_part_of_a_batch_and_of_a_transaction_is_worded_by_itself() -> None:
    key = {"pk": {"S": "p"}}
    shown = {"ProjectionExpression": "#n0", "ExpressionAttributeNames": {"#n0": "pk"}}
    assert worded({"RequestItems": {"messages": {"Keys": [key], "Only": ["pk"]}}}) == {
        "RequestItems": {"messages": {"Keys": [key], **shown}}
    }
    puts = {"RequestItems": {"messages": [{"PutRequest": {"Item": key}}]}}
    assert worded(puts) == puts
    [check] = worded({"TransactItems": [{"ConditionCheck": {"When": absent("pk")}}]})[
        "TransactItems"
    ]
    assert check["ConditionCheck"]["ConditionExpression"] == "attribute_not_exists(#n0)"
