"""Strict reading of JSON from untrusted senders."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


class Unreadable(ValueError):
    """The text is not JSON that every parser reads the same way; the message says why."""


class ExactFloat(float):
    """A number with a fraction or an exponent; `text` is how its sender wrote it."""

    def __new__(cls, text: str) -> ExactFloat:
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def read_json(text: str, *, exact: bool = False) -> Any:
    """The value in a body. Raises Unreadable, and no other error, for any text.

    With `exact` its numbers are ExactFloat where a float may differ from what was written.

    Stricter than `json.loads`, it refuses: a duplicate key (the last value would win here,
    and the first elsewhere), NaN and infinities (not JSON), a number with too many digits
    or too large for a float, nesting that is too deep, and a lone surrogate, which cannot
    be encoded again. The reason never quotes the text.
    """
    try:
        value = (_EXACT if exact else _STRICT).decode(text)
    except RecursionError as error:
        raise Unreadable("nested too deep") from error
    except Unreadable:
        raise
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON at line {error.lineno} column {error.colno}") from error
    except ValueError as error:
        # Python refuses to convert integers of more than 4,300 digits.
        raise Unreadable("a number too long to read") from error
    if "\\u" in text:
        _refuse_lone_surrogates(text, value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Unreadable("a key appears twice in one object")
    return value


def _constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Unreadable("a number too large to read")
    return value


def _exact_float(text: str) -> ExactFloat:
    _float(text)
    return ExactFloat(text)


# Made once: a decoder takes longer to make than a small body to read.
_STRICT, _EXACT = (
    json.JSONDecoder(
        object_pairs_hook=_object, parse_constant=_constant, parse_float=number_with_fraction
    )
    for number_with_fraction in (_float, _exact_float)
)


def _refuse_lone_surrogates(text: str, value: Any) -> None:
    # Only an escape can contain a lone surrogate: SQS itself never delivers one.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Unreadable("half of a surrogate pair") from error
    except RecursionError as error:
        raise Unreadable("nested too deep") from error
