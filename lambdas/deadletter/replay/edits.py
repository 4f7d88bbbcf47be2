"""Edits of letters in the custody of a replay run: a JSON Patch, or a new body.

An edit changes the body and the producer's attributes alone. Numbers keep the digits that their
sender wrote.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from deadletter.message import stamp as stamps
from deadletter.message.letter import MAX_ATTRIBUTES, MAX_BYTES, Attribute, Letter
from deadletter.message.strict_json import ExactFloat, Unreadable, read_json

MOST_STEPS = 100
"""Operations of one patch."""


_NAME = re.compile(r"(?!\.)(?!.*\.\.)(?!.*\.\Z)[A-Za-z0-9_.-]{1,256}")
"""The names of message attributes that SQS takes, but for those of AWS."""

_OF_AWS = ("aws.", "amazon.")
"""What no name of an attribute may begin with, in any case."""

_TYPE = re.compile(r"(?=.{1,256}\Z)(String|Number|Binary)(\.[A-Za-z0-9_.-]+)?")

_NUMBER = re.compile(r"(?=.{1,400}\Z)[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
"""Numbers that are short enough to be judged."""

_DIGITS, _LEAST_POWER, _MOST_POWER = 38, -128, 126
"""The digits of a number that SQS takes, and its powers of ten."""

_NO_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What SQS takes in no text."""


class EditRefused(ValueError):
    """The edit can't be made; the message says why, without a word of the letter."""


def checked_patch(data: object) -> Sequence[Mapping[str, Any]]:
    """A JSON Patch (RFC 6902) in decoded JSON. Raises EditRefused for anything else."""
    if not isinstance(data, list) or not 0 < len(data) <= MOST_STEPS:
        raise EditRefused(f"a JSON Patch is a list of 1 to {MOST_STEPS} operations")
    for number, step in enumerate(data, start=1):
        needed = _FIELDS.get(step.get("op")) if isinstance(step, dict) else None
        if needed is None:
            raise EditRefused(f"operation {number} has no op; allowed are {', '.join(_FIELDS)}")
        for name in needed:
            if name not in step:
                raise EditRefused(f"operation {number} ({step['op']}) has no {name}")
        for name in ("path", "from"):
            if name in needed:
                _pointer(step[name])
    return data


_FIELDS: Mapping[Any, Sequence[str]] = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}


def patched(body: str, patch: Sequence[Mapping[str, Any]]) -> str:
    """The body after a JSON Patch: all of its operations, or EditRefused."""
    document = _document(body)
    for number, step in enumerate(patch, start=1):
        try:
            document = _step(document, step)
        except (LookupError, EditRefused) as error:
            why = str(error) if isinstance(error, EditRefused) else "its path is not there"
            raise EditRefused(f"operation {number} ({step['op']}): {why}") from error
    return to_text(document)


def typed_attribute(text: str) -> tuple[str, Attribute]:
    """The attribute in `NAME=TYPE:VALUE`; a Binary's value is base64. Raises EditRefused."""
    name, is_named, rest = text.partition("=")
    data_type, is_typed, value = rest.partition(":")
    if not is_named or not is_typed:
        raise EditRefused("an attribute is NAME=TYPE:VALUE, such as tenant=String:acme")
    if not data_type.startswith("Binary"):
        return name, Attribute(data_type, value)
    try:
        return name, Attribute(data_type, base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError) as error:
        raise EditRefused("the value of a Binary attribute is base64") from error


def edited(letter: Letter, body: str, attributes: Mapping[str, Attribute] | None = None) -> Letter:
    """The letter with another body, or other attributes. EditRefused if SQS would not take it.

    A body that was JSON must stay JSON: a slip in an editor must not reach the consumer. The
    attribute `Redrive` is ours. Attributes that stay as they are are not judged: SQS took them.
    """
    after = replace(letter, body=body)
    if attributes is not None:
        after = replace(after, attributes=dict(attributes))
    if after == letter:
        raise EditRefused("it changes nothing")
    if not body:
        raise EditRefused("the body would be empty, and SQS takes no empty body")
    _check_attributes(letter.attributes, after.attributes)
    if after.size > MAX_BYTES:
        raise EditRefused(
            f"the message would have {after.size:,} bytes, and SQS takes {MAX_BYTES:,}"
        )
    if _is_json(letter.body) and not _is_json(body):
        raise EditRefused("the body was JSON and would be JSON no longer")
    return after


def _check_attributes(before: Mapping[str, Attribute], after: Mapping[str, Attribute]) -> None:
    """Raises EditRefused for what SQS takes no attribute with; no text quotes a value."""
    if before.get(stamps.NAME) != after.get(stamps.NAME):
        raise EditRefused(f"the attribute {stamps.NAME} is ours and can't be edited")
    changed = {name: each for name, each in after.items() if before.get(name) != each}
    for name, attribute in changed.items():
        if not _NAME.fullmatch(name) or name.lower().startswith(_OF_AWS):
            raise EditRefused(
                "a name of an attribute has 1 to 256 letters, digits, _ - and ., no . at its ends "
                "and no two together, and does not begin with AWS. or Amazon."
            )
        if not _TYPE.fullmatch(attribute.data_type):
            raise EditRefused(
                "the type of an attribute is String, Number or Binary, and may go on as in "
                "Number.int"
            )
        if isinstance(attribute.value, bytes) is not attribute.data_type.startswith("Binary"):
            raise EditRefused("bytes are the value of a Binary attribute, and of no other")
        if not attribute.value:
            raise EditRefused("SQS takes no attribute with an empty value")
        if isinstance(attribute.value, str):
            _check_text(attribute.data_type, attribute.value)
    others = len(after) - (stamps.NAME in after)
    if changed and others > MAX_ATTRIBUTES:
        raise EditRefused(f"it would have {others} attributes, and SQS takes {MAX_ATTRIBUTES}")


def _check_text(data_type: str, value: str) -> None:
    if _NO_TEXT.search(value):
        raise EditRefused("the value of an attribute has a character that SQS takes in no text")
    if not data_type.startswith("Number"):
        return
    if not _NUMBER.fullmatch(value):
        raise EditRefused("the value of a Number attribute is no number")
    number = Decimal(value)
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    is_small_enough = not number or _LEAST_POWER <= number.adjusted() <= _MOST_POWER
    if len(digits) > _DIGITS or not is_small_enough:
        raise EditRefused(
            f"SQS takes numbers of {_DIGITS} digits from 1e{_LEAST_POWER} to 1e{_MOST_POWER}"
        )


def to_text(value: Any) -> str:
    """A value that `read_json` read as compact JSON, each number as it was written."""
    match value:
        case ExactFloat():
            return value.text
        case dict():
            members = (
                f"{json.dumps(key, ensure_ascii=False)}:{to_text(member)}"
                for key, member in value.items()
            )
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(map(to_text, value))}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _document(body: str) -> Any:
    try:
        return read_json(body, exact=True)
    except Unreadable as error:
        raise EditRefused(f"the body can't be read ({error})") from error


def _is_json(body: str) -> bool:
    try:
        read_json(body)
    except Unreadable:
        return False
    return True


def _step(document: Any, step: Mapping[str, Any]) -> Any:
    path = _pointer(step["path"])
    match step["op"]:
        case "add":
            return _added(document, path, step["value"])
        case "remove":
            return _removed(document, path)
        case "replace":
            _at(document, path)
            in_list = path and isinstance(_at(document, path[:-1]), list)
            # In an object the member keeps its place.
            rest = _removed(document, path) if in_list else document
            return _added(rest, path, step["value"])
        case "test":
            if not _same(_at(document, path), step["value"]):
                raise EditRefused("the value there is another")
            return document
        case "copy":
            return _added(document, path, _at(document, _pointer(step["from"])))
        case _:
            source = _pointer(step["from"])
            if path[: len(source)] == source and path != source:
                raise EditRefused("a value can't move into itself")
            value = _at(document, source)
            return _added(_removed(document, source), path, value)


def _pointer(pointer: object) -> Sequence[str]:
    """The parts of a JSON Pointer (RFC 6901)."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise EditRefused("a path is empty or begins with /, as in /order/total")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _at(document: Any, path: Sequence[str]) -> Any:
    """The value at a path. Raises LookupError if the path leads nowhere."""
    for part in path:
        if isinstance(document, list):
            document = document[_index(part, len(document) - 1)]
        elif isinstance(document, dict):
            document = document[part]
        else:
            raise LookupError(part)
    return document


def _added(document: Any, path: Sequence[str], value: Any) -> Any:
    """A copy of the document with a value at a path; in a list it is inserted."""
    if not path:
        return value
    part, *rest = path
    if isinstance(document, list):
        if rest:
            at = _index(part, len(document) - 1)
            return [*document[:at], _added(document[at], rest, value), *document[at + 1 :]]
        at = len(document) if part == "-" else _index(part, len(document))
        return [*document[:at], value, *document[at:]]
    if not isinstance(document, dict):
        raise LookupError(part)
    return {**document, part: _added(document[part], rest, value) if rest else value}


def _removed(document: Any, path: Sequence[str]) -> Any:
    """A copy of the document without the value at a path."""
    if not path:
        return None
    part, *rest = path
    if isinstance(document, list):
        at = _index(part, len(document) - 1)
        inner = [_removed(document[at], rest)] if rest else []
        return [*document[:at], *inner, *document[at + 1 :]]
    if not isinstance(document, dict) or part not in document:
        raise LookupError(part)
    if rest:
        return {**document, part: _removed(document[part], rest)}
    return {key: value for key, value in document.items() if key != part}


def _index(part: str, most: int) -> int:
    if not (part.isascii() and part.isdigit()) or (part != "0" and part.startswith("0")):
        raise LookupError(part)
    index = int(part)
    if index > most:
        raise LookupError(part)
    return index


def _same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
