"""Requests in DynamoDB's own language, as the tables in memory read them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from deadletter.aws.dynamodb import worded
from deadletter.aws.table import OrElse
from deadletter.testing.fakes.attribute_values import ValidationError
from deadletter.testing.fakes.words import valued
from tests.aws.test_dynamodb_contract import FALSE, TRUE


@pytest.mark.parametrize("condition", [*TRUE, *FALSE])
def test_a_condition_that_is_written_is_read_as_the_same(condition: Any) -> None:
    for member in ("When", "Where", "Keep"):
        request = {"TableName": "letters", member: condition}
        assert valued(worded(request)).keys() == request.keys()
        assert worded(valued(worded(request))) == worded(request)


def test_a_change_that_is_written_is_read_as_the_same() -> None:
    request = {
        "Sets": {"until": Decimal(7), "ttl": OrElse("kept_until", "x")},
        "Adds": {"tries": Decimal(1)},
        "Removes": ["paused"],
    }
    assert valued(worded(request)) == request
    batch = {"RequestItems": {"letters": {"Keys": [], "Only": ["pk", "sk"]}}}
    assert valued(worded(batch)) == batch
    transaction = {"TransactItems": [{"Update": {"Key": {}, **request}}]}
    assert valued(worded(transaction)) == transaction


def test_a_sum_is_an_addition() -> None:
    numbers = {":a": {"N": "1"}, ":b": {"N": "2"}}
    request = {
        "UpdateExpression": "set a = a + :a, b = b - :b",
        "ExpressionAttributeValues": numbers,
    }
    assert valued(request) == {"Sets": {}, "Adds": {"a": 1, "b": -2}, "Removes": []}


@pytest.mark.parametrize(
    ("expression", "names", "values"),
    [
        ("", {}, {}),
        ("a =", {}, {}),
        ("a = :v AND", {}, {":v": {"S": "x"}}),
        ("(a = :v", {}, {":v": {"S": "x"}}),
        ("a = :v b", {}, {":v": {"S": "x"}}),
        ("a = :v", {}, {}),
        ("#a = :v", {}, {":v": {"S": "x"}}),
        ("a = :v", {"#a": "a"}, {":v": {"S": "x"}}),
        ("a = 'x'", {}, {}),
        ("a = b", {}, {}),
        ("size(a) = :v", {}, {":v": {"N": "1"}}),
        ("contains(a, :v)", {}, {":v": {"S": "x"}}),
        ("l[0] = :v", {}, {":v": {"S": "x"}}),
    ],
)
def test_what_is_not_known_is_refused(
    expression: str, names: dict[str, str], values: dict[str, Any]
) -> None:
    request = {
        "ConditionExpression": expression,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }
    with pytest.raises(ValidationError):
        valued(request)
