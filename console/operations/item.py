"""A DynamoDB item as JSON-ready data, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from .problem import Exit, Problem


def plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item without its type tags.

    Numbers are int or float; a set is a sorted list and a binary value base64 text, so
    that even a column nobody should have typed can be shown.
    """
    from deadletter.aws import table

    return {key: _jsonable(value) for key, value in table.plain(item).items()}


def stored(data: Mapping[str, Any]) -> dict[str, Any]:
    """JSON-ready data with DynamoDB's type tags; Problem for a number that it can't hold."""
    from deadletter.aws import table

    try:
        return table.stored({key: _exact(value) for key, value in data.items()})
    except ArithmeticError as error:
        raise Problem(
            "DynamoDB holds numbers of up to 38 digits, below 10^126: shorten the number.",
            Exit.USAGE,
        ) from error


def _jsonable(value: Any) -> Any:
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case dict():
            return {key: _jsonable(one) for key, one in value.items()}
        case list():
            return [_jsonable(one) for one in value]
        case set():
            return sorted((_jsonable(one) for one in value), key=str)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


def _exact(value: Any) -> Any:
    match value:
        case float():
            return Decimal(repr(value))
        case dict():
            return {key: _exact(one) for key, one in value.items()}
        case list():
            return [_exact(one) for one in value]
        case _:
            return value
