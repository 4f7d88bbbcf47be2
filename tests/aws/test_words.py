"""Requests in DynamoDB's own language, as the tables in memory read them."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest

from deadletter.aws.dynamodb import worded
from deadletter.aws.table import OrElse
from deadletter.testing.fakes.attribute_values import ValidationError
from deadletter.testing.fakes.words import valued
from tests.aws.test_generated_writes import row, some_condition


def in_order(words: Any) -> Any:
    """Words of a request, with the members of sets in an order."""
    match words:
        case {"SS": members} | {"NS": members} | {"BS": members}:
            return sorted(members)
        case dict():
            return {name: in_order(value) for name, value in words.items()}
    return words


def test_a_condition_that_is_written_is_read_as_the_same() -> None:
    for seed in range(500):
        random = Random(seed)
        condition = some_condition(random, row(random))
        for member in ("When", "Where", "Keep"):
            words = worded({"TableName": "messages", member: condition})
            assert valued(words).keys() == {"TableName", member}
            assert in_order(worded(valued(words))) == in_order(words), f"seed {seed}"


def test_a_change_that_is_written_is_read_as_the_same() -> None:
    request = {
        "Sets": {"until": Decimal(7), "ttl": OrElse("kept_until", "x")},
        "Adds": {"tries": Decimal(1)},
        "Removes": ["paused"],
    }
    assert valued(worded(request)) == request
    batch = {"RequestItems": {"messages": {"Keys": [], "Only": ["pk", "sk"]}}}
    assert valued(worded(batch)) == batch
    transaction = {"TransactItems": [{"Update": {"Key": {}, **request}}]}
    assert valued(worded(transaction)) == transaction


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
