"""Arguments of DynamoDB calls, and batches and pages that are read to their end."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import DYNAMODB_CONTEXT, Binary, TypeDeserializer
from botocore.exceptions import ClientError, ReadTimeoutError
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws.dynamodb import MOST_TRIES, DynamoDBTable, conflicting_item, plain, stored
from deadletter.aws.errors import StillUnprocessed
from deadletter.aws.table import stored_number

KEY = {"pk": {"S": "orders#lease"}, "sk": {"S": "dlq"}}


class Client:
    """A DynamoDB client that gives these answers in turn, and the last one again and again."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        def call(**request: Any) -> dict[str, Any]:
            self.requests.append(request)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

        return call


@pytest.mark.parametrize(
    ("value", "expected"), [(3, 3), (0.1 + 0.2, Decimal("0.3")), (1.23456, Decimal("1.235"))]
)
def test_a_float_is_stored_as_a_decimal_of_thousandths(
    value: float, expected: Decimal | int
) -> None:
    assert stored_number(value) == expected
    assert not isinstance(stored_number(value), float)


def failed(code: str, **response: Any) -> ClientError:
    return ClientError({"Error": {"Code": code}, **response}, "PutItem")


def test_a_failed_condition_gives_the_stored_item() -> None:
    assert conflicting_item(failed("ConditionalCheckFailedException", Item=KEY)) == {
        "pk": "orders#lease",
        "sk": "dlq",
    }
    assert conflicting_item(failed("ConditionalCheckFailedException")) == {}


@pytest.mark.parametrize("error", [failed("Throttling"), ReadTimeoutError(endpoint_url="aws")])
def test_any_other_error_gives_no_item(error: Any) -> None:
    assert conflicting_item(error) is None


def test_the_unprocessed_rest_of_a_batch_is_requested_again() -> None:
    rest = {"letters": {"Keys": [KEY]}}
    client: Any = Client(
        {"Responses": {"letters": []}, "UnprocessedKeys": rest},
        {"Responses": {"letters": [KEY]}},
    )
    key = ("orders#lease", "dlq")
    assert DynamoDBTable(client, "letters").get_many([key]) == {key: {"pk": key[0], "sk": key[1]}}
    assert client.requests[1] == {"RequestItems": rest}


def test_a_batch_that_stays_unprocessed_is_given_up() -> None:
    reads: Any = Client({"UnprocessedKeys": {"letters": {"Keys": [KEY]}}})
    with pytest.raises(StillUnprocessed, match="letters"):
        DynamoDBTable(reads, "letters").get_many([("a", "b")])
    writes: Any = Client({"UnprocessedItems": {"letters": []}})
    with pytest.raises(StillUnprocessed, match="letters"):
        DynamoDBTable(writes, "letters").write_many(deletes=[("a", "b")])
    assert len(reads.requests) == len(writes.requests) == MOST_TRIES


def test_every_page_of_a_query_is_read() -> None:
    first = {"Items": [KEY], "Count": 1, "ScannedCount": 4, "LastEvaluatedKey": KEY}
    client: Any = Client(first, {"Count": 2, "ScannedCount": 2})
    assert DynamoDBTable(client, "letters").count("x") == (3, 6)
    assert client.requests[1]["ExclusiveStartKey"] == KEY


def test_a_query_with_a_limit_ends_at_it() -> None:
    client: Any = Client({"Items": [KEY, KEY], "LastEvaluatedKey": KEY})
    assert len(DynamoDBTable(client, "letters").query("x", limit=1)) == 1
    assert len(client.requests) == 1


_numbers = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(
    lambda number: DYNAMODB_CONTEXT.create_decimal(str(number % 10**9))
)
_plain_values: Any = st.recursive(
    st.one_of(
        st.text(max_size=5),
        st.booleans(),
        st.none(),
        _numbers,
        st.binary(max_size=4),
        st.sets(st.text(max_size=3), min_size=1, max_size=3),
        st.sets(_numbers, min_size=1, max_size=3),
        st.sets(st.binary(max_size=3), min_size=1, max_size=3),
    ),
    # Names that are types too.
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["S", "N", "M", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(item=st.dictionaries(st.sampled_from(["pk", "S", "x"]), _plain_values, max_size=3))
def test_an_item_becomes_the_plain_data_that_it_was_made_of(item: dict[str, Any]) -> None:
    made = stored(item)
    assert plain(made) == item
    deserialize = TypeDeserializer().deserialize
    assert plain(made) == {name: _unwrapped(deserialize(value)) for name, value in made.items()}
    assert _types(plain(made)) == _types(item)


def _unwrapped(value: Any) -> Any:
    """boto3 has a class of its own for bytes."""
    match value:
        case Binary():
            return value.value
        case dict():
            return {name: _unwrapped(member) for name, member in value.items()}
        case list():
            return [_unwrapped(member) for member in value]
        case set():
            return {_unwrapped(member) for member in value}
    return value


def _types(value: Any) -> Any:
    match value:
        case dict():
            return {name: _types(member) for name, member in value.items()}
        case list():
            return [_types(member) for member in value]
        case set():
            return {type(member) for member in value}
    return type(value)


@pytest.mark.parametrize("value", [{}, {"X": "1"}])
def test_a_value_of_no_known_type_is_an_error(value: dict[str, str]) -> None:
    with pytest.raises((KeyError, TypeError)):
        plain({"name": value})
