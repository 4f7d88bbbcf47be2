"""DynamoDB's attribute values from plain data and back.

boto3 has such a converter too. It walks through a value type by type and looks each one's method
up by name, which takes half of the time in which a page of rows is read; and its module brings
the whole of boto3 into a function that needs botocore alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from decimal import Clamped, Context, Decimal, Inexact, Overflow, Rounded, Underflow
from typing import Any

# DynamoDB's numbers have 38 digits. What does not fit is an error, and is not rounded.
_NUMBERS = Context(
    prec=38, Emin=-128, Emax=126, traps=[Clamped, Overflow, Inexact, Rounded, Underflow]
)
_DIGITS = 38
_MOST_DIGITS = 10**_DIGITS
_LONG = Context(prec=200, traps=[Inexact])


def stored(item: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data as DynamoDB attribute values. Raises TypeError for what has none."""
    return {name: _value(value) for name, value in item.items()}


def plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """DynamoDB attribute values as plain data; numbers are Decimal, binaries bytes."""
    plain_item = {}
    for name, value in item.items():
        # Most values are texts and numbers: they are not worth a call each.
        kind = next(iter(value), None)
        if kind == "S":
            plain_item[name] = value["S"]
        elif kind == "N":
            plain_item[name] = Decimal(value["N"])
        else:
            plain_item[name] = _plain_value(value)
    return plain_item


def _plain_value(value: Mapping[str, Any]) -> Any:
    for kind, content in value.items():
        return content if kind == "S" else _READ[kind](content)
    raise TypeError("a value without a type")


def _value(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is str:
        return {"S": value}
    if kind is int:
        return {"N": _number(value)}
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int() | Decimal():
            return {"N": _number(value)}
        # One of an enumeration is a text too.
        case str():
            return {"S": value}
        case bytes() | bytearray():
            return {"B": value}
        case Mapping():
            return {"M": stored(value)}
        case list() | tuple():
            return {"L": [_value(each) for each in value]}
        case Set():
            return _set(value)
    raise TypeError(f"{kind.__name__} has no attribute value in DynamoDB")


def _number(value: int | Decimal) -> str:
    if type(value) is int and -_MOST_DIGITS < value < _MOST_DIGITS:
        return str(value)
    number = Decimal(value)
    if number.adjusted() >= _DIGITS:
        # As DynamoDB shows a large number, with all its zeros.
        number = number.normalize(_LONG)
    number = _NUMBERS.create_decimal(number)
    if not number.is_finite():
        raise TypeError("DynamoDB has neither infinity nor NaN")
    return str(number)


def _set(values: Set[Any]) -> dict[str, Any]:
    """A set, whose values have one type."""
    typed = [_value(value) for value in values]
    kinds = {kind for each in typed for kind in each}
    if len(kinds) != 1 or not kinds <= {"S", "N", "B"}:
        raise TypeError("a set in DynamoDB has texts, numbers or binaries, and at least one")
    [kind] = kinds
    return {f"{kind}S": [each[kind] for each in typed]}


def _same(value: Any) -> Any:
    return value


def _list(values: list[dict[str, Any]]) -> list[Any]:
    return [*map(_plain_value, values)]


_READ: Mapping[str, Callable[[Any], Any]] = {
    "S": _same,
    "N": Decimal,
    "B": bytes,
    "BOOL": _same,
    "NULL": lambda _: None,
    "M": plain,
    "L": _list,
    "SS": set,
    "NS": lambda values: set(map(Decimal, values)),
    "BS": lambda values: set(map(bytes, values)),
}
