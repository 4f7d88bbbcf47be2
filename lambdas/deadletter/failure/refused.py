"""Whether what a parser or a validator refused was the message itself.

The same errors come from an answer of a dependency, which is not the message's fault. So an error
counts against the message only if it holds what was refused, and the message contains that.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from deadletter.failure.foreign import attribute, names_of, text_of
from deadletter.failure.place import argument_of, called_library, frames_of, module_of
from deadletter.failure.vocabulary import words
from deadletter.message.letter import Letter, NotALetter, utf8
from deadletter.message.strict_json import Unreadable, read_json

# Parts of the names of classes that validators and parsers raise: pydantic, jsonschema,
# fastjsonschema, marshmallow, Powertools, dacite, mashumaro, trafaret, typedload, msgspec.
_VALIDATOR = re.compile(
    r"Validat|Schema|Malformed|Decod|Deserializ|Structur|WrongType|Invalid(?!ation)|FieldValue|"
    r"DataError|TypeCheck|Coerc|Conversion|Typedload|Pars(e|ing|er)|BadValue"
)

# Attributes with what was refused: jsonschema; fastjsonschema, Powertools, dacite and trafaret;
# marshmallow; mashumaro; avro; and as validators of teams call it.
_REFUSED = (
    *("instance", "value", "data", "field_value", "datum", "input", "input_value", "document"),
    *("invalid_value", "bad_value", "obj", "payload", "item"),
)
_PLACES = ("absolute_path", "path", "field_path", "instance_path", "field_name", "loc", "field")

# What a dependency answers with too, so that it is no evidence against the letter.
_COMMON = frozenset({"", "ok", "error", "null", "none", "true", "false", "failed", "success"})
_COMMON_NUMBERS = frozenset({-1, 0, 1})

# Python's own texts about a value that it can't convert, in quotation marks.
_UNCONVERTED = re.compile(
    r"(?:invalid literal for \w{1,20}(?:\(\) with base \d{1,2})?|"
    r"could not convert string to \w{1,20}|Invalid isoformat string|Invalid literal for Fraction): "
    r"(?P<last>['\"].{1,500}['\"])$|"
    r"time data (?P<date>['\"].{1,500}['\"]) does not match format |"
    r"(?P<choice>.{1,500}) is not a valid \w{1,80}$",
    re.DOTALL,
)

# What Python says of a date without naming it.
_OF_DATE = re.compile(
    r"(year|month|day|hour|minute|second|microsecond)( \d+)? (must be|is out of)|unconverted data"
)
_DATE_TEXT = 80
_DATE_LIKE = re.compile(r"\s*\d{1,4}[-/.:]?\d")
_DECIMAL = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:[+-]?(nan|inf(inity)?))")
_LONGEST_NUMBER = 100

# Libraries that parse what they are given, and ask nobody.
_PARSERS = words(
    """
    arrow avro bson ciso8601 dateutil defusedxml fastavro feedparser iso8601 isodate jose jwt lxml
    msgpack pendulum phonenumbers pytz simplejson toml tomlkit ujson xmlschema xmltodict yaml
    """
) | (set(sys.stdlib_module_names) - {"http", "urllib", "socket", "ssl", "asyncio", "concurrent"})
_PARSE_ERROR = re.compile(
    r"Pars(e|er|ing)Error|ExpatError|YAMLError|ScannerError|DecodeError|BadGzipFile|BadZipFile"
)

# The least characters of a document that is searched for inside a body; a document that is
# equal to the body may be shorter.
_RECOGNISABLE = 16

# What stands beside a document inside a text.
_ENDS = frozenset({"", '"', "'", "\\", "\n", "\r"})

# The limits of a search: errors of one validation, pieces of a message, documents inside
# documents, and steps of a path.
_ERRORS = 20
_PARTS = 500
_LAYERS = 3
_STEPS = 20


class Part(NamedTuple):
    """A piece of a letter: a whole document, or something in one."""

    data: Any
    is_whole_document: bool


class RefusedData(NamedTuple):
    """A piece of data that a validator refused, and its place; None if it is not known."""

    data: Any
    place: tuple[Any, ...] | None


def refuses_the_letter(error: BaseException, letter: Letter | None) -> bool:
    """True if a parser or a validator refused the letter, or a part of it.

    False where that can't be told: the letter is then tried again.
    """
    if isinstance(error, NotALetter | Unreadable):
        return True
    if letter is None:
        return False
    if isinstance(error, json.JSONDecodeError):
        return _contains_document(letter, error.doc)
    if isinstance(error, UnicodeDecodeError):
        return _contains_bytes(letter, error.object)
    document = attribute(error, "doc")
    if isinstance(error, ValueError) and isinstance(document, str | bytes):
        return _contains_document(letter, document) or _contains_bytes(letter, document)
    if any(_VALIDATOR.search(name) for name, _ in names_of(error)):
        refused = _refused_by(error)
        parts = [*_records(letter), *_parts(letter)] if refused else []
        if refused:
            return all(_is_part(piece, parts) for piece in refused)
    return (
        _is_unconverted(error, letter)
        or _was_given(error, letter)
        or _is_unread(error, letter)
        or _is_beyond_json(error, letter)
    )


def _is_unconverted(error: BaseException, letter: Letter) -> bool:
    """True if Python could not convert a value that the letter has as a whole."""
    match = _UNCONVERTED.match(text_of(error)) if type(error) is ValueError else None
    if match is None:
        return False
    try:
        value = ast.literal_eval(match["last"] or match["date"] or match["choice"])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return _is_leaf(value, list(_parts(letter)))


def _was_given(error: BaseException, letter: Letter) -> bool:
    """True if a parser that holds no data was called with a text of the letter."""
    is_parsers = any(_PARSE_ERROR.search(name) for name, _ in names_of(error))
    call = called_library(error) if is_parsers or isinstance(error, ValueError) else None
    if call is None or call.library not in _PARSERS:
        return False
    given = [value for value in call.arguments if type(value) in (str, bytes) and value]
    parts = list(_parts(letter)) if given else []
    # Some parsers encode their argument first.
    texts = [item if isinstance(item, str) else item.decode("utf-8", "replace") for item in given]
    return any(_is_leaf(text, parts) for text in texts) or any(
        _contains_bytes(letter, item) for item in given if isinstance(item, bytes)
    )


def _is_unread(error: BaseException, letter: Letter) -> bool:
    """True if a conversion in C, whose error holds no data, was given a text of the letter."""
    can_be = _conversion(error)
    value = None if can_be is None else argument_of(error)
    is_text = can_be is not None and type(value) is str and bool(can_be(value))
    return is_text and _is_leaf(value, list(_parts(letter)))


def _conversion(error: BaseException) -> Callable[[str], object] | None:
    """Tells the texts that may have made such an error; None for any other error."""
    if any(name == "InvalidOperation" for name, _ in names_of(error)):
        return None if "ConversionSyntax" not in text_of(error) else _is_no_decimal
    if type(error) is ValueError and _OF_DATE.match(text_of(error)[:_DATE_TEXT]):
        return _DATE_LIKE.match
    return None


def _is_no_decimal(text: str) -> bool:
    return _DECIMAL.fullmatch(text.strip()[:_LONGEST_NUMBER]) is None


def _refused_by(error: BaseException) -> Sequence[RefusedData]:
    """What a validator refused, from any attribute in which libraries keep it."""
    try:
        # pydantic. Of a missing field, it gives the object that should have it.
        return [
            RefusedData(
                detail["input"], tuple(detail["loc"][: -1 if detail["type"] == "missing" else None])
            )
            for detail in error.errors()[:_ERRORS]  # type: ignore[attr-defined]
        ]
    except Exception:  # code of a foreign class
        values = (attribute(error, name) for name in _REFUSED)
        data = next((value for value in values if value is not None), None)
        return [] if data is None else [RefusedData(data, _place_of(error))]


def _place_of(error: BaseException) -> tuple[Any, ...] | None:
    places = (attribute(error, name) for name in _PLACES)
    place = next((place for place in places if place is not None), None)
    if isinstance(place, str):
        # A key of the message may have thousands of digits, which Python reads as no number.
        texts = place.split(".")[:_STEPS]
        place = [int(text) if text.isdecimal() and len(text) < 10 else text for text in texts]
    if not isinstance(place, Iterable):
        return None
    steps = tuple(islice(place, _STEPS))
    # fastjsonschema begins a path with the name of the whole document.
    return steps[1:] if steps[:1] == ("data",) else steps


def _is_part(refused: RefusedData, parts: Sequence[Part]) -> bool:
    """True if the letter has this data, at this place unless it is distinctive by itself.

    An empty object or a number is in many answers too.
    """
    data, place = refused
    try:
        if isinstance(data, dict | list) and data and any(part.data == data for part in parts):
            return True
        if not place and not _is_document(data) and _is_leaf(data, parts):
            return True
        if place is None:
            return False
        return any(
            _at(part.data, place) == data for part in parts if place or part.is_whole_document
        )
    except Exception:  # comparing runs code of a foreign class
        return False


def _is_document(data: Any) -> bool:
    return isinstance(data, str) and data.lstrip()[:1] in ("{", "[", "<")


def _is_leaf(value: Any, parts: Sequence[Part]) -> bool:
    """True if the letter has this text or number as a whole, and answers seldom have it."""
    is_text = isinstance(value, str) and value.strip().lower() not in _COMMON
    is_number = type(value) in (int, float) and value not in _COMMON_NUMBERS
    return (is_text or is_number) and any(
        type(part.data) is type(value) and part.data == value for part in parts
    )


def _at(node: Any, place: Sequence[Any]) -> Any:
    for step in place:
        try:
            node = node[step] if isinstance(node, dict | list) else _NOTHING
        except (LookupError, TypeError):
            return _NOTHING
    return node


_NOTHING = float("nan")
"""Equal to nothing, so that a place that does not exist matches no data."""


def _records(letter: Letter) -> Iterator[Part]:
    """The letter's record, as a model of it sees it: a validator may be given the whole."""
    for body in (letter.body, *_inside(letter.body)):
        yield Part({"body": body}, True)


def _parts(letter: Letter) -> Iterator[Part]:
    """The documents of a letter, and everything in them."""
    attributes = (attribute.value for attribute in letter.attributes.values())
    waiting = [(Part(text, True), 0) for text in (letter.body, *attributes)]
    for part, layer in islice(waiting, _PARTS):
        yield part
        if isinstance(part.data, str) and layer < _LAYERS:
            waiting += [(Part(inner, True), layer + 1) for inner in _inside(part.data)]
        elif isinstance(part.data, dict | list):
            inner = part.data.values() if isinstance(part.data, dict) else part.data
            waiting += [(Part(value, False), layer) for value in islice(inner, _PARTS)]


def _inside(text: str) -> Iterator[Any]:
    """The document that a text is, as JSON or in base64."""
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        if len(text) >= _RECOGNISABLE:
            with suppress(ValueError):
                yield base64.b64decode(text, validate=True).decode()


def _contains_document(letter: Letter, document: Any) -> bool:
    if not isinstance(document, str):
        return False
    texts = [letter.body, *(str(attribute.value) for attribute in letter.attributes.values())]
    if document in texts:
        return True
    # JSON inside JSON is escaped.
    escaped = json.dumps(document)[1:-1]
    return len(document.strip()) >= _RECOGNISABLE and any(
        _has_whole(text, form) for text in texts for form in (document, escaped)
    )


def _has_whole(text: str, document: str) -> bool:
    """True if a text has a document between quotation marks or the ends of lines.

    An answer of a dependency may repeat the message, and break off.
    """
    at = text.find(document)
    ends = text[at - 1 : at] if at > 0 else "", text[at + len(document) :][:1]
    return at >= 0 and all(end in _ENDS for end in ends)


def _contains_bytes(letter: Letter, document: Any) -> bool:
    if not isinstance(document, bytes) or not document:
        return False
    body = utf8(letter.body)
    attributes = letter.attributes.values()
    values = [item.value for item in attributes if isinstance(item.value, bytes)]
    return document in (body, *values) or base64.b64encode(document) == body.strip()


def _is_beyond_json(error: BaseException, letter: Letter) -> bool:
    """True if `json` failed on a body with too deep nesting or with too long a number."""
    too_deep = isinstance(error, RecursionError)
    too_long = type(error) is ValueError and _raised_by_json(error)
    if not too_deep and not too_long:
        return False
    try:
        read_json(letter.body)
    except Unreadable as refusal:
        return type(refusal.__cause__) is type(error)
    return False


def _raised_by_json(error: BaseException) -> bool:
    frames = frames_of(error)
    return bool(frames) and module_of(frames[-1]).startswith("json.")
