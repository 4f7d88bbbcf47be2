"""A DynamoDB attribute value, `{"S": "…"}`: what is accepted, how big it is, how numbers behave.

Values that came through `accept` are canonical: numbers have one spelling and sets one order, so
that two values are equal when their dicts are. They are never changed in place.
"""

import re
from collections.abc import Collection, Mapping
from decimal import Context, Decimal, Inexact
from typing import Any

from deadletter.testing.fakes.errors import Declined, malformed

Value = dict[str, Any]
Item = dict[str, Value]

# Levels of lists and maps within each other.
_DEEPEST = 31
# Significant digits of a number, and the power of ten of its first one.
_MOST_DIGITS = 38
_LARGEST_POWER = 125
_SMALLEST_POWER = -130

_MATHS = Context(prec=_MOST_DIGITS, traps=[Inexact])
_PLAIN = re.compile(r"0|-?[1-9][0-9]{0,37}").fullmatch
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?").fullmatch
_SCALARS = frozenset(("S", "N", "B", "BOOL", "NULL"))
_ELEMENTS = {"SS": "S", "NS": "N", "BS": "B"}
_ACCEPTED: Mapping[str, Any] = {
    **dict.fromkeys(("BOOL", "NULL"), bool),
    "S": str,
    "L": (list, tuple),
    **dict.fromkeys(_ELEMENTS, (list, tuple, set, frozenset)),
}


class ValidationError(Declined):
    """DynamoDB refuses a value, an expression or a key: at AWS, a ValidationException."""

    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)


def accept(value: object, depth: int = 0) -> Value:
    """Our own canonical copy of a caller's value."""
    if type(value) is not dict:
        raise malformed("an attribute value is a dict with one key, its type")
    if len(value) != 1:
        raise ValidationError(
            "Supplied AttributeValue must contain exactly one of the supported datatypes"
        )
    ((kind, content),) = value.items()
    if kind == "N":
        return {"N": canonical(content)}
    if kind == "B":
        return {"B": _binary(content)}
    if kind in ("M", "L"):
        if depth == _DEEPEST:
            raise ValidationError("Nesting Levels have exceeded supported limits")
        if kind == "M":
            return {"M": accept_item(content, depth + 1)}
    accepted = _ACCEPTED.get(kind)
    if accepted is None or not isinstance(content, accepted):
        raise malformed(f"no such attribute value: {kind}, {type(content).__name__}")
    if kind == "NULL" and not content:
        raise ValidationError("Null attribute value types must have the value of true")
    if kind == "L":
        return {"L": [accept(element, depth + 1) for element in content]}
    if kind in _ELEMENTS:
        return _accept_set(kind, content)
    return {kind: content}


def accept_item(attributes: object, depth: int = 0) -> Item:
    """The same for a map of attributes."""
    if not isinstance(attributes, Mapping):
        raise malformed("an item is a mapping of names to attribute values")
    return {name: accept(value, depth) for name, value in attributes.items()}


def _accept_set(kind: str, content: Collection[Any]) -> Value:
    if not content:
        raise ValidationError("One or more parameter values were invalid: a set may not be empty")
    element = _ELEMENTS[kind]
    members = [accept({element: member})[element] for member in content]
    if len(set(members)) != len(members):
        raise ValidationError(
            "One or more parameter values were invalid: Input collection contains duplicates"
        )
    return set_of(kind, members)


def set_of(kind: str, members: list[Any]) -> Value:
    """A set in its canonical order."""
    return {kind: sorted(members)}


def canonical(text: object) -> str:
    """A number as DynamoDB gives it back: no leading or trailing zeros, no exponent."""
    if type(text) is not str:
        raise malformed("N is a string")
    if _PLAIN(text):
        return text
    if not _NUMBER(text):
        raise ValidationError("The parameter cannot be converted to a numeric value")
    number = Decimal(text)
    if not number:
        return "0"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    if len(digits) > _MOST_DIGITS:
        raise ValidationError("Attempting to store more than 38 significant digits in a Number")
    if number.adjusted() > _LARGEST_POWER:
        raise ValidationError(
            "Number overflow. Attempting to store a number with magnitude larger than "
            "supported range"
        )
    if number.adjusted() < _SMALLEST_POWER:
        raise ValidationError(
            "Number underflow. Attempting to store a number with magnitude smaller than "
            "supported range"
        )
    return f"{number.normalize(_MATHS):f}"


def add(left: str, right: str) -> str:
    """The sum of two canonical numbers; more than 38 digits are refused, never rounded."""
    try:
        return canonical(str(_MATHS.add(Decimal(left), Decimal(right))))
    except Inexact:
        raise ValidationError(
            "Attempting to store more than 38 significant digits in a Number"
        ) from None


def size_of_item(item: Mapping[str, Value]) -> int:
    """Bytes of a stored item, names included."""
    return sum(_octets(name) + _size_of(value) for name, value in item.items())


def _size_of(value: Value) -> int:
    ((kind, content),) = value.items()
    if kind == "S":
        return _octets(content)
    if kind == "N":
        return _number_size(content)
    if kind == "B":
        return len(content)
    if kind == "M":
        return 3 + len(content) + size_of_item(content)
    if kind == "L":
        return 3 + len(content) + sum(map(_size_of, content))
    if kind in _ELEMENTS:
        element = _ELEMENTS[kind]
        return sum(_size_of({element: member}) for member in content)
    return 1


def copied_item(item: Mapping[str, Value]) -> Item:
    """A copy that a caller may do with as they please."""
    return {
        name: value.copy() if next(iter(value)) in _SCALARS else _copied(value)
        for name, value in item.items()
    }


def _copied(value: Value) -> Value:
    ((kind, content),) = value.items()
    if kind == "M":
        return {"M": copied_item(content)}
    if kind == "L":
        return {"L": [_copied(element) for element in content]}
    if kind in _ELEMENTS:
        return {kind: list(content)}
    return {kind: content}


def _binary(content: object) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray):
        return bytes(content)
    raise malformed("B is bytes")


def _octets(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ValidationError("A string holds a character that UTF-8 can't encode") from None


def _number_size(text: str) -> int:
    digits = len(text.lstrip("-").replace(".", "").strip("0"))
    return (digits + 1) // 2 + 1 + text.startswith("-")
