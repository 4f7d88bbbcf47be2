"""Arguments of DynamoDB calls, and batches and pages that are read to their end."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from boto3.dynamodb.types import DYNAMODB_CONTEXT, Binary, TypeDeserializer
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.parsers import ResponseParserError
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws.dynamodb import MOST_TRIES, DynamoDBTable, plain, stored
from deadletter.aws.errors import Conflict, Failed, NotSent, Unknown, ours
from deadletter.aws.table import absent, stored_number
from deadletter.failure.ledger import LedgerUnavailable
from tests.aws.failing import Failing

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


def refused_with(error: Exception) -> Any:
    """A call of a table whose client gets this error."""
    client: Any = Failing(error)
    return partial(DynamoDBTable(client, "messages").put, {"pk": "p", "sk": "s"}, absent("pk"))


def failed(code: str, status: int = 400, retries: int = 0, **response: Any) -> ClientError:
    metadata = {"HTTPStatusCode": status, "RetryAttempts": retries}
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": metadata, **response}
    return ClientError(answer, "PutItem")


def test_a_conflict_names_the_row_that_is_not_as_the_write_wants_it() -> None:
    not_met = "ConditionalCheckFailedException"
    with pytest.raises(Conflict) as conflict:
        refused_with(failed(not_met, Item=KEY))()
    assert conflict.value.item == {"pk": "orders#lease", "sk": "dlq"}
    with pytest.raises(Conflict) as conflict:
        refused_with(failed(not_met))()
    assert conflict.value.item == {}
    with pytest.raises(Conflict) as conflict:
        refused_with(failed("TransactionCanceledException"))()
    assert conflict.value.item is None


@pytest.mark.parametrize(
    ("error", "kind", "why"),
    [
        (failed("Throttling"), NotSent, "Throttling for dynamodb:PutItem on messages"),
        (failed("Throttling", retries=1), Unknown, "Throttling for dynamodb:PutItem on messages"),
        (failed("InternalError", 500), Unknown, "InternalError for dynamodb:PutItem on messages"),
        (
            ReadTimeoutError(endpoint_url="aws"),
            Unknown,
            "ReadTimeoutError for dynamodb on messages",
        ),
        (
            failed("TransactionInProgressException"),
            NotSent,
            "TransactionInProgressException for dynamodb:PutItem on messages",
        ),
    ],
)
def test_a_call_was_surely_not_sent_or_its_effect_is_unknown(
    error: Exception, kind: type[Failed], why: str
) -> None:
    with pytest.raises(kind) as raised:
        refused_with(error)()
    assert type(raised.value) is kind
    assert str(raised.value) == why


@pytest.mark.parametrize("error", [NotSent("why"), Unknown("why")])
def test_an_adapter_raises_its_own_error_with_the_words_of_the_call(error: Failed) -> None:
    with pytest.raises(LedgerUnavailable, match="why"), ours(LedgerUnavailable):
        raise error
    of_s3 = ours(LedgerUnavailable, "s3", "bodies")
    with pytest.raises(LedgerUnavailable, match="Throttling for s3:PutItem on bodies"), of_s3:
        raise failed("Throttling")


def test_the_unprocessed_rest_of_a_batch_is_requested_again() -> None:
    rest = {"messages": {"Keys": [KEY]}}
    client: Any = Client(
        {"Responses": {"messages": []}, "UnprocessedKeys": rest},
        {"Responses": {"messages": [KEY]}},
    )
    key = ("orders#lease", "dlq")
    assert DynamoDBTable(client, "messages").get_many([key]) == {key: {"pk": key[0], "sk": key[1]}}
    assert client.requests[1] == {"RequestItems": rest}


def test_a_batch_that_stays_unprocessed_is_given_up() -> None:
    reads: Any = Client({"Responses": {}, "UnprocessedKeys": {"messages": {"Keys": [KEY]}}})
    with pytest.raises(Unknown, match="throttling by dynamodb on messages"):
        DynamoDBTable(reads, "messages").get_many([("a", "b")])
    writes: Any = Client({"UnprocessedItems": {"messages": []}})
    with pytest.raises(Unknown, match="throttling by dynamodb on messages"):
        DynamoDBTable(writes, "messages").write_many(deletes=[("a", "b")])
    assert len(reads.requests) == len(writes.requests) == MOST_TRIES


@pytest.mark.parametrize(
    "read",
    [
        lambda table: table.get_many([("a", "b")]),
        lambda table: table.query("x"),
        lambda table: table.count("x"),
        lambda table: [*table.scan()],
    ],
)
def test_an_answer_that_says_nothing_of_rows_does_not_say_that_there_are_none(read: Any) -> None:
    client: Any = Client({})
    with pytest.raises(Unknown, match="IncompleteAnswer for dynamodb on messages"):
        read(DynamoDBTable(client, "messages"))


def test_a_write_whose_answer_cannot_be_read_may_have_had_its_effect() -> None:
    with pytest.raises(Unknown, match="ResponseParserError for dynamodb on messages"):
        refused_with(ResponseParserError("cut off"))()


def test_every_page_of_a_query_is_read() -> None:
    first = {"Items": [KEY], "Count": 1, "ScannedCount": 4, "LastEvaluatedKey": KEY}
    client: Any = Client(first, {"Count": 2, "ScannedCount": 2})
    assert DynamoDBTable(client, "messages").count("x") == (3, 6, False)


def test_a_query_of_so_many_pages_says_whether_there_are_more() -> None:
    page = {"Count": 2, "ScannedCount": 3, "LastEvaluatedKey": KEY}
    client: Any = Client(page, page, page)
    assert DynamoDBTable(client, "messages").count("x", pages=2) == (4, 6, True)
    assert client.requests[1]["ExclusiveStartKey"] == KEY


def test_a_query_with_a_limit_ends_at_it() -> None:
    client: Any = Client({"Items": [KEY, KEY], "Count": 2, "LastEvaluatedKey": KEY})
    assert len(DynamoDBTable(client, "messages").query("x", limit=1)) == 1
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
