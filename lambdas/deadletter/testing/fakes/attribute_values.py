"""A DynamoDB attribute value, `{"S": "…"}`: what is accepted, how big it is, how numbers behave.

Values that came through `accept` are canonical: numbers have one spelling and sets one order, so
that two values are equal when their dicts are. They are never changed in place.
"""

import re
from collections.abc import Mapping
from decimal import Context, Decimal, Inexact
from typing import Any

from deadletter.testing.fakes.errors import malformed

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


class ValidationError(ValueError):
    """DynamoDB refuses a value, an expression or a key: at AWS, a ValidationException."""


def accept(value: object, depth: int = 0) -> tuple[Value, int]:
    """Our own canonical copy of a caller's value, and its size in bytes as DynamoDB counts it."""
    if type(value) is not dict:
        raise malformed("an attribute value is a dict with one key, its type")
    if len(value) != 1:
        raise ValidationError(
            "Supplied AttributeValue must contain exactly one of the supported datatypes"
        )
    ((kind, content),) = value.items()
    if kind == "S":
        if type(content) is not str:
            raise malformed("S is a string")
        return {"S": content}, _octets(content)
    if kind == "N":
        text = canonical(content)
        return {"N": text}, _number_size(text)
    if kind == "M" or kind == "L":
        return _accept_document(kind, content, depth + 1)
    if kind == "B":
        octets = _binary(content)
        return {"B": octets}, len(octets)
    if kind == "BOOL":
        if type(content) is not bool:
            raise malformed("BOOL is True or False")
        return {"BOOL": content}, 1
    if kind == "NULL":
        if content is not True:
            raise ValidationError("Null attribute value types must have the value of true")
        return {"NULL": True}, 1
    if kind in _ELEMENTS:
        return _accept_set(kind, content)
    raise malformed(f"no such attribute type: {kind}")


def accept_item(attributes: object, depth: int = 0) -> tuple[Item, int]:
    """The same for a map of attributes. Names count, too."""
    if type(attributes) is not dict and not isinstance(attributes, Mapping):
        raise malformed("an item is a mapping of names to attribute values")
    item = {}
    total = 0
    for name, value in attributes.items():
        if type(name) is not str:
            raise malformed("an attribute's name is a string")
        item[name], size = accept(value, depth)
        total += size + (len(name) if name.isascii() else _octets(name))
    return item, total


def _accept_document(kind: str, content: object, depth: int) -> tuple[Value, int]:
    if depth > _DEEPEST:
        raise ValidationError("Nesting Levels have exceeded supported limits")
    # Three bytes for the container and one for each element.
    if kind == "M":
        fields, size = accept_item(content, depth)
        return {"M": fields}, size + 3 + len(fields)
    if not isinstance(content, list | tuple):
        raise malformed("L is a list")
    elements = []
    total = 3 + len(content)
    for element in content:
        accepted, size = accept(element, depth)
        elements.append(accepted)
        total += size
    return {"L": elements}, total


def _accept_set(kind: str, content: object) -> tuple[Value, int]:
    if not isinstance(content, list | tuple | set | frozenset):
        raise malformed(f"{kind} is a list")
    if not content:
        raise ValidationError("One or more parameter values were invalid: a set may not be empty")
    element = _ELEMENTS[kind]
    members: list[Any] = []
    total = 0
    for member in content:
        accepted, size = accept({element: member})
        members.append(accepted[element])
        total += size
    if len(set(members)) != len(members):
        raise ValidationError(
            "One or more parameter values were invalid: Input collection contains duplicates"
        )
    return set_of(kind, members), total


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


def negative(number: str) -> str:
    """The canonical number's opposite."""
    return canonical(number[1:] if number.startswith("-") else "-" + number)


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
