"""A DynamoDB item as JSON-ready data, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from .errors import Cause, Problem


def plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item without its type tags.

    Numbers are int or float, a set is a sorted list, a binary value is base64 text: a
    column of any type can be shown.
    """
    from deadletter.aws import dynamodb

    return {key: jsonable(value) for key, value in dynamodb.plain(item).items()}


def exact(data: Mapping[str, Any]) -> dict[str, Any]:
    """JSON-ready data as a table takes it; Problem for a number that DynamoDB does not hold."""
    stored(data)
    return {key: _exact(value) for key, value in data.items()}


def stored(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same with DynamoDB's type tags."""
    from deadletter.aws import dynamodb
    from deadletter.aws.errors import NotSent

    try:
        return dynamodb.stored({key: _exact(value) for key, value in data.items()})
    except NotSent as error:
        raise Problem(
            "DynamoDB holds numbers of up to 38 digits, below 10^126: shorten the number.",
            Cause.INPUT,
        ) from error


def jsonable(value: Any) -> Any:
    """A value of a table, its type tag removed, as JSON-ready data."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case dict():
            return {key: jsonable(member) for key, member in value.items()}
        case list():
            return [jsonable(member) for member in value]
        case set():
            return sorted((jsonable(member) for member in value), key=str)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


def _exact(value: Any) -> Any:
    match value:
        case float():
            return Decimal(repr(value))
        case dict():
            return {key: _exact(member) for key, member in value.items()}
        case list():
            return [_exact(member) for member in value]
        case _:
            return value
