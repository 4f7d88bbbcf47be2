"""Strategies for event patterns and documents, and a slow matcher to compare with.

The slow matcher does what event-ruler's documentation says, word for word: it flattens
the document into leaves that remember in which element of which array they stand, and
tries every choice of one leaf a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

from hypothesis import strategies as st

from deadletter.rules.pattern import Field, Pattern

_TEXTS = st.sampled_from(["", "a", "A", "ab", "aB", "b", "ba", "bab", "1", "10.0.0.1"])
_NUMBERS = st.sampled_from([0, 1, 1.0, Decimal("1"), 2, -3.5, Decimal("-3.5"), 2**53 + 1])
_SCALARS = st.none() | st.booleans() | _TEXTS | _NUMBERS
_NAMES = st.sampled_from(["a", "b", "c"])
_BRANCH_NAMES = st.sampled_from(["x", "y"])


def documents() -> st.SearchStrategy[dict[str, Any]]:
    """Objects with few names, so that patterns often match them, and arrays of all kinds."""
    names = _NAMES | _BRANCH_NAMES
    values = st.recursive(
        _SCALARS,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(names, inner, max_size=3)
            | st.lists(st.dictionaries(names, inner, max_size=3), max_size=3)
        ),
        max_leaves=12,
    )
    return st.dictionaries(names, values, max_size=4)


def _operators() -> st.SearchStrategy[dict[str, Any]]:
    folded = st.fixed_dictionaries({"equals-ignore-case": _TEXTS})
    wildcards = st.sampled_from(["*", "a*", "*b", "*a*", "a*b", "b*a*", "ab", ""])
    some = st.sampled_from(["a", "ab", "b"])
    thresholds = st.sampled_from([-4, 0, 1, 1.5])
    return st.one_of(
        st.fixed_dictionaries({"prefix": _TEXTS | folded}),
        st.fixed_dictionaries({"suffix": _TEXTS | folded}),
        folded,
        st.fixed_dictionaries({"wildcard": wildcards}),
        st.fixed_dictionaries({"exactly": _TEXTS}),
        st.fixed_dictionaries({"exists": st.booleans()}),
        st.fixed_dictionaries({"cidr": st.sampled_from(["10.0.0.0/8", "11.0.0.0/8"])}),
        st.fixed_dictionaries(
            {
                "numeric": st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), thresholds).map(
                    list
                )
                | st.just([">", -4, "<=", 1])
            }
        ),
        st.fixed_dictionaries(
            {
                "anything-but": st.lists(_TEXTS, min_size=1, max_size=2)
                | st.lists(thresholds, min_size=1, max_size=2)
                | st.sampled_from(["prefix", "suffix", "equals-ignore-case", "wildcard"]).flatmap(
                    lambda name: st.fixed_dictionaries({name: st.lists(some, min_size=1)})
                )
            }
        ),
    )


def patterns() -> st.SearchStrategy[dict[str, Any]]:
    """Patterns that compile: names inside a `$or` differ from those outside it."""
    exact = st.lists(_SCALARS, min_size=1, max_size=2)
    field = exact | st.lists(_SCALARS | _operators(), min_size=1, max_size=2)
    value = field | st.dictionaries(_NAMES, field, min_size=1, max_size=2)
    branch = st.dictionaries(_BRANCH_NAMES, value, min_size=1, max_size=2)
    branches = st.fixed_dictionaries({"$or": st.lists(branch, min_size=2, max_size=3)})
    plain = st.dictionaries(_NAMES, value, min_size=1, max_size=3)
    either = st.tuples(plain, branches).map(lambda both: {**both[0], **both[1]})
    nested = st.dictionaries(_NAMES, plain | either, min_size=1, max_size=2)
    return plain | either | nested | branches


@st.composite
def documents_for(draw: st.DrawFn, pattern: Mapping[str, Any]) -> dict[str, Any]:
    """A document of the pattern's shape, with some arrays: it often matches."""
    document: dict[str, Any] = {}
    for key, value in pattern.items():
        if key == "$or":
            document |= draw(documents_for(draw(st.sampled_from(value))))
            continue
        inner: st.SearchStrategy[Any] = _SCALARS
        if isinstance(value, Mapping):
            inner = documents_for(value)
        elif exact := [exact for exact in value if not isinstance(exact, Mapping)]:
            inner = st.sampled_from(exact) | _SCALARS
        if draw(st.sampled_from([False, False, False, True])):
            inner = st.lists(inner | st.lists(inner, max_size=2), max_size=3)
        if draw(st.sampled_from([True] * 7 + [False])):
            document[key] = draw(inner)
    return document


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pattern and a document."""
    pattern = draw(patterns())
    return pattern, draw(documents_for(pattern) | documents())


def counting(pattern: Pattern, calls: list[str]) -> Pattern:
    """The same pattern; each comparison appends the field's name to `calls`."""

    def counted(field: Field) -> Field:
        def test(value: Any) -> bool:
            calls.append(field.name)
            return field.comparison.test(value)

        return replace(field, comparison=replace(field.comparison, test=test))

    fields = {
        field: counted(field) for alternative in pattern.alternatives for field in alternative
    }
    return replace(
        pattern,
        alternatives=tuple(
            tuple(fields[field] for field in alternative) for alternative in pattern.alternatives
        ),
    )


def slowly_matches(pattern: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """True if the pattern matches, by trying every choice."""
    leaves = list(_leaves(document, "", {}, count()))
    return any(_search(sorted(fields.items()), leaves, {}) for fields in _combinations(pattern, ""))


Leaf = tuple[str, Any, dict[int, int]]


def _leaves(value: Any, name: str, within: dict[int, int], arrays: count[int]) -> Iterator[Leaf]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key, within, arrays)
    elif isinstance(value, list):
        array = next(arrays)
        for number, item in enumerate(value):
            nested = isinstance(item, list | Mapping)
            yield from _leaves(item, name, {**within, array: number} if nested else within, arrays)
    else:
        yield name, value, within


def _combinations(pattern: Mapping[str, Any], name: str) -> list[dict[str, list[Any]]]:
    drafts: list[dict[str, list[Any]]] = [{}]
    for key, value in pattern.items():
        if key == "$or":
            more = [fields for branch in value for fields in _combinations(branch, name)]
        elif isinstance(value, Mapping):
            more = _combinations(value, f"{name}.{key}" if name else key)
        else:
            more = [{f"{name}.{key}" if name else key: value}]
        drafts = [{**draft, **fields} for draft in drafts for fields in more]
    return drafts


def _search(
    fields: list[tuple[str, list[Any]]], leaves: list[Leaf], within: dict[int, int]
) -> bool:
    if not fields:
        return True
    (name, accepted), *rest = fields
    possible = [
        (value, {**within, **stands_in})
        for leaf, value, stands_in in leaves
        if leaf == name and all(within.get(a, n) == n for a, n in stands_in.items())
    ]
    if not possible and {"exists": False} in accepted and _search(rest, leaves, within):
        return True
    return any(
        _search(rest, leaves, chosen)
        for value, chosen in possible
        if any(_accepts(entry, value) for entry in accepted)
    )


def _accepts(entry: Any, value: Any) -> bool:
    if not isinstance(entry, Mapping):
        return _same(entry, value)
    ((name, operand),) = entry.items()
    if name == "exists":
        return bool(operand)
    if name == "anything-but":
        if isinstance(operand, Mapping):
            ((inner, texts),) = operand.items()
            return not any(_accepts({inner: text}, value) for text in texts)
        return not any(_same(unwanted, value) for unwanted in operand)
    if name == "numeric":
        return _kind(value) == "number" and all(
            _holds(value, sign, limit)
            for sign, limit in zip(operand[::2], operand[1::2], strict=True)
        )
    if not isinstance(value, str):
        return False
    if isinstance(operand, Mapping):
        return _accepts({name: operand["equals-ignore-case"].lower()}, value.lower())
    if name == "wildcard":
        return slowly_like(operand, value)
    if name == "cidr":
        return value.startswith("10.") and operand == "10.0.0.0/8"
    if name == "equals-ignore-case":
        value, operand = value.lower(), operand.lower()
    if name == "prefix":
        value = value[: len(operand)]
    if name == "suffix":
        value = value[max(0, len(value) - len(operand)) :]
    return bool(value == operand)


def _holds(value: Any, sign: str, limit: Any) -> bool:
    return bool(
        {
            "=": value == limit,
            "<": value < limit,
            "<=": value <= limit,
            ">": value > limit,
            ">=": value >= limit,
        }[sign]
    )


def _same(first: Any, second: Any) -> bool:
    return _kind(first) == _kind(second) and bool(first == second)


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool | str):
        return type(value).__name__
    return "number"


def slowly_like(wildcard: str, text: str) -> bool:
    """True if the text matches the wildcard, one character and one choice at a time."""
    if not wildcard:
        return not text
    if wildcard[0] == "*":
        return any(slowly_like(wildcard[1:], text[at:]) for at in range(len(text) + 1))
    if wildcard[0] == "\\":
        return text[:1] == wildcard[1] and slowly_like(wildcard[2:], text[1:])
    return text[:1] == wildcard[0] and slowly_like(wildcard[1:], text[1:])
