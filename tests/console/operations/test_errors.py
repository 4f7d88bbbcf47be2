"""Errors of the library's adapters become errors that the console can explain."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from console.operations.errors import Cause, Problem, aws_errors
from deadletter.aws.errors import Unknown
from deadletter.aws.lease import read_last_run
from deadletter.aws.waiting_room import DynamoDBLanes
from deadletter.circuit.state import CircuitsUnavailable
from deadletter.routing.router import RouterUnavailable


class Refusal:
    """A DynamoDB client that is refused everything."""

    def __getattr__(self, name: str) -> object:
        def call(**_: object) -> None:
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, name)

        return call


def test_an_adapter_error_is_raised_as_the_aws_error_that_it_comes_from() -> None:
    with pytest.raises(ClientError, match="query"), aws_errors():
        DynamoDBLanes(Refusal(), "messages", "orders").count("due")  # type: ignore[arg-type]
    with pytest.raises(ClientError, match="get_item"), aws_errors():
        read_last_run(Refusal(), "messages", "orders", "dlq")  # type: ignore[arg-type]


def test_the_aws_error_is_found_below_several_others() -> None:
    lost = EndpointConnectionError(endpoint_url="https://dynamodb")
    middle = CircuitsUnavailable("no answer")
    middle.__cause__ = lost
    with pytest.raises(EndpointConnectionError), aws_errors():
        raise RouterUnavailable("CircuitsUnavailable") from middle


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CircuitsUnavailable("the table is throttling"), "Try again: the table is throttling."),
        (Unknown("the table is throttling"), "Try again: the table is throttling."),
    ],
)
def test_without_an_aws_error_it_is_a_sentence(error: Exception, text: str) -> None:
    with pytest.raises(Problem) as raised, aws_errors():
        raise error
    assert raised.value.says == text
    assert raised.value.cause == Cause.UNREACHABLE


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), aws_errors():
        raise KeyError("a bug")
