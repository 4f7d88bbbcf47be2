"""Random rule books and documents made to disagree: `$or`, arrays of objects, arrays in arrays.

Plain `random` and few names: hundreds of pairs of rule and document each second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

from tests.rules.event_patterns import slowly_matches

RULES_IN_BOOK = 8

Book = list[dict[str, Any]]
Matcher = Callable[[Book, Mapping[str, Any]], list[int]]
"""The numbers of the rules that match a document."""

# Mostly text, which most operators are about.
_VALUES = ("p", "q", "pq", "p", "q", "pq", 1, 2.5, True, None)
_NAMES = ("x", "y", "z")


def deviations(matcher: Matcher, seed: int, pairs: int) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each rule and document on which the matcher and the slow matcher disagree."""
    random = Random(seed)
    for _ in range(-(-pairs // RULES_IN_BOOK)):
        book = [pattern_for(random) for _ in range(RULES_IN_BOOK)]
        document = document_for(random)
        matched = matcher(book, document)
        expected = [number for number, rule in enumerate(book) if slowly_matches(rule, document)]
        if matched != expected:
            wrong = _first_difference(matched, expected)
            yield book[wrong], document


def _first_difference(matched: Iterable[int], expected: Iterable[int]) -> int:
    return min(set(matched) ^ set(expected), default=0)


def document_for(random: Random) -> dict[str, Any]:
    """Arrays `a` and `b` with objects, values and arrays as elements; a name may be dotted."""
    document: dict[str, Any] = {"c": random.choice(_VALUES)}
    for name in ("a", "b"):
        kind = random.random()
        if kind < 0.8:
            document[name] = [_element(random, 2) for _ in range(random.randrange(5))]
        elif kind < 0.9:
            document[name] = _element(random, 2)
    if random.random() < 0.1:
        document["a.x"] = _element(random, 1)
    return document


def _element(random: Random, depth: int) -> Any:
    kind = random.random()
    if depth and kind < 0.65:
        return {
            name: _element(random, depth - 1) if random.random() < 0.4 else random.choice(_VALUES)
            for name in random.sample(_NAMES, random.choice((1, 1, 2, 3)))
        }
    if depth and kind < 0.8:
        return [_element(random, depth - 1) for _ in range(random.randrange(3))]
    return random.choice(_VALUES)


def pattern_for(random: Random) -> dict[str, Any]:
    """A rule over `a`, `b` and `c`; a `$or` shares fields with what stands beside it."""
    pattern = {}
    if random.random() < 0.3:
        pattern["c"] = _accepted(random)
    for name in random.sample(("a", "b"), random.choice((1, 1, 1, 2))):
        pattern |= _about_array(random, name)
    return pattern


def _about_array(random: Random, name: str) -> dict[str, Any]:
    kind = random.random()
    first, *others = random.sample(_NAMES, 3)
    if kind < 0.15:
        # The values in the array itself, together with those of its objects.
        return {name: _accepted(random), f"{name}.{first}": _accepted(random)}
    if kind < 0.3:
        return {name: {first: {others[0]: _accepted(random), others[1]: _accepted(random)}}}
    inside: dict[str, Any] = {first: _accepted(random)}
    if kind < 0.5:
        inside[others[0]] = _accepted(random)
        return {name: inside}
    branches: list[dict[str, Any]] = [
        {branch: _accepted(random) for branch in random.sample(others, random.choice((1, 2)))}
        for _ in range(random.choice((2, 3)))
    ]
    if kind < 0.6:
        branches = [{**branch, first: _accepted(random)} for branch in branches]
        inside = {}
    return {name: {**inside, "$or": branches}}


def _accepted(random: Random) -> list[Any]:
    return [_value_or_operator(random) for _ in range(random.choice((1, 1, 1, 2)))]


def _value_or_operator(random: Random) -> Any:
    if random.random() < 0.25:
        return random.choice(_VALUES)
    return random.choice(
        (
            {"prefix": "p"},
            {"suffix": "q"},
            {"prefix": {"equals-ignore-case": "P"}},
            {"suffix": {"equals-ignore-case": "Q"}},
            {"equals-ignore-case": "PQ"},
            {"wildcard": "p*q"},
            {"wildcard": "*p*"},
            {"exists": True},
            {"exists": False},
            {"anything-but": ["p", "pq"]},
            {"anything-but": [1]},
            {"anything-but": {"prefix": "p"}},
            {"numeric": [">", 0, "<=", 1]},
            {"numeric": ["<", 3]},
        )
    )
