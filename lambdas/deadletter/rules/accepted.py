"""The values that one entry of a pattern's list accepts, and the refusal of an entry."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from deadletter.rules.fields import exact_key
from deadletter.rules.wildcard import NO_SCAN, Scan


class PatternRefused(ValueError):
    """The reason why a pattern is refused: the path, what is wrong, and what is allowed."""


class Absent:
    """The value of a field that a document does not have; `null` is a value."""


ABSENT: Final = Absent()

Test = Callable[[Any], bool]
"""Called with one leaf value, or with ABSENT. Its cost is bounded by the length of the value
times a constant of the pattern: no test backtracks."""

TextTest = Callable[[str], bool]
"""The test of an operator that accepts strings only; called with a string."""


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedText:
    """Accepts the texts that pass a test.

    `steps` is what one test costs, and `scan` what the search of a text costs. Each accepted text
    contains each of `pieces`.
    """

    test: TextTest
    steps: float = 1
    scan: Scan = NO_SCAN
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedValue:
    """The same for values of any kind, or for numbers only."""

    test: Test
    steps: float = 1
    scan: Scan = NO_SCAN
    only_numbers: bool = False


Accepts = AcceptedValue | AcceptedText | frozenset[Hashable]
"""What one operator accepts: the values that pass a test, or a set of exact values."""


def refuse(where: str, why: str) -> NoReturn:
    """Raise PatternRefused for this place in the pattern."""
    raise PatternRefused(f"{where}: {why}")


def quoted(value: Any) -> str:
    """A piece of a pattern for an error message, cut to 60 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(words: list[str]) -> str:
    shown = " or ".join(words[:5])
    return shown if len(words) <= 5 else f"{shown} or {len(words) - 5} more"


def only_entry(where: str, expression: Mapping[Any, Any]) -> tuple[Any, Any]:
    if len(expression) != 1:
        refuse(where, f"one operator in each {{...}}, not {len(expression)}; use one {{...}} each")
    return next(iter(expression.items()))


def string(where: str, name: str, operand: Any) -> str:
    if not isinstance(operand, str):
        refuse(where, f"{name} takes a string, not {quoted(operand)}")
    return operand


def as_test(accepts: Accepts) -> Test:
    if isinstance(accepts, AcceptedText):
        text = accepts.test
        return lambda value: value.__class__ is str and text(value)
    if isinstance(accepts, frozenset):
        keys = accepts
        if all(isinstance(key, str) for key in keys):
            return keys.__contains__
        return lambda value: exact_key(value) in keys
    return accepts.test


def any_test(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda value: any(test(value) for test in tests)
