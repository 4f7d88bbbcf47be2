"""Failures of one cause have one fingerprint, and those of two causes have two."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from deadletter.failure.classify import diagnose
from deadletter.failure.naming import OwnNames
from tests.each_row import each_row
from tests.failure.causes_cases import CAUSES, NASTY, Data, data_of, throw
from tests.failure.exceptions import caught
from tests.failure.pair_cases import ONE, TWO, Fail, Pair
from tests.samples import NOW, letter
from tests.speed import is_quick

LETTERS = 60


def fail_for(name: str, data: Data) -> None:
    """Fails for a cause."""
    CAUSES[name](data)


def groups_of(
    names: Iterable[str],
    letters: int = LETTERS,
    fail: Callable[[str, Data], None] = fail_for,
) -> dict[str, Counter[str]]:
    """For each fingerprint, how many failures of which cause have it."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    number = random.Random(7)
    for name in names:
        for _ in range(letters):
            data = data_of(number)
            error = caught(lambda data=data, name=name: fail(name, data))
            found = diagnose(error, letter(json.dumps(data)), now=NOW)
            groups[found.fingerprint][name] += 1
    return groups


@pytest.mark.parametrize("letters", [15, pytest.param(60, marks=pytest.mark.nightly)])
def test_each_cause_has_one_fingerprint_of_its_own(letters: int) -> None:
    groups = groups_of(CAUSES, letters=letters)
    split = Counter(name for counts in groups.values() for name in counts)
    assert {name: count for name, count in split.items() if count > 1} == {}
    assert [sorted(counts) for counts in groups.values() if len(counts) > 1] == []


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 10))]
)
def test_a_thousand_errors_of_twelve_causes_make_twelve_groups(seed: int) -> None:
    names = random.Random(seed).sample(sorted(CAUSES), 12)
    groups = groups_of(names, letters=84)
    pure = sum(counts.most_common(1)[0][1] for counts in groups.values())
    assert len(groups) == 12
    assert pure == 12 * 84


MOST_GROUPS = 1.05
"""Groups a nasty cause, on average; the goal is 1.2."""

LEAST_PURITY = 0.99
"""The share of the failures that are in a group whose other failures are mostly of their cause."""


@pytest.mark.parametrize("letters", [15, pytest.param(60, marks=pytest.mark.nightly)])
def test_nasty_causes_have_hardly_more_groups_than_causes(letters: int) -> None:
    groups = groups_of(NASTY, letters=letters, fail=throw)
    split = Counter(name for counts in groups.values() for name in counts)
    pure = sum(counts.most_common(1)[0][1] for counts in groups.values())
    shown = {name: count for name, count in split.items() if count > 1}
    mixed = [sorted(counts) for counts in groups.values() if len(counts) > 1]
    assert sum(split.values()) / len(NASTY) <= MOST_GROUPS, shown
    assert pure / (len(NASTY) * letters) >= LEAST_PURITY, mixed


def print_of(fail: Fail, body: str = '{"count": "many", "sku": "a-1"}') -> str:
    return diagnose(caught(fail), letter(body), now=NOW).fingerprint


@each_row("pair", TWO, ids=lambda pair: pair.name)
def test_two_causes_at_one_place_have_two_fingerprints(pair: Pair) -> None:
    assert print_of(pair.first) == print_of(pair.first)
    assert print_of(pair.first) != print_of(pair.second)


@each_row("pair", ONE, ids=lambda pair: pair.name)
def test_one_cause_in_two_forms_has_one_fingerprint(pair: Pair) -> None:
    assert print_of(pair.first) == print_of(pair.second)


def test_the_same_failure_of_two_named_dependencies_has_two_fingerprints() -> None:
    error = caught(lambda: exec("raise TimeoutError()"))  # noqa: S102 - at one place
    prints = {
        diagnose(error, letter(), now=NOW, dependency=name).fingerprint for name in ("", "a", "b")
    }
    assert len(prints) == 3


def test_a_name_of_the_letters_is_data_unless_it_is_a_key_of_a_document() -> None:
    """A table is looked up by a product of the letter; a field is looked up in the letter."""

    def look_up(name: str) -> Fail:
        return lambda: {}[name]

    for body, is_same in (
        ('{"sku": "pear", "x": ["plum"]}', True),
        ('{"pear": 1, "plum": 2}', False),
    ):
        assert (print_of(look_up("pear"), body) == print_of(look_up("plum"), body)) is is_same


def test_a_text_is_of_the_letter_as_it_is_or_as_json_writes_it() -> None:
    names = OwnNames(letter('{"said": "a \\"hi\\" caf\\u00e9 for naïve"}'), frozenset())
    texts = ('a "hi"', "café", "naïve", "zebra")
    assert [names.quotes_letter(text) for text in texts] == [True, True, True, False]


class Hostile(Exception):
    """An exception all of whose parts raise, or lie."""

    def __str__(self) -> str:
        return Text("x" * 10**6)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name == "args":
            return super().__getattribute__(name)
        raise RuntimeError(name)


class Text(str):
    """A text whose methods raise."""

    def replace(self, *_: Any) -> str:  # type: ignore[override]
        raise RuntimeError

    split = partition = replace  # type: ignore[assignment]


class Odd(Exception):
    """An exception whose attributes answer anything."""

    def __getattr__(self, name: str) -> Any:
        return Odd() if name.startswith("o") else lambda *_: [{}, Odd()]


@each_row(
    "error",
    [
        Hostile(),
        Odd(),
        KeyError(["unhashable"]),
        KeyError(),
        KeyError(1, 2),
        ExceptionGroup("two", [Hostile(), Odd()]),
        ValueError(Text("x")),
        OSError(1, Text("y")),
        type("Odd", (Exception,), {"url": property(lambda _: 1 / 0), "args": ({},)})(),
    ],
    ids=ascii,
)
def test_the_fingerprint_of_a_hostile_exception_exists(error: Exception) -> None:
    for item in (error, caught(lambda: exec("raise error", {"error": error}))):  # noqa: S102 - no file
        assert len(diagnose(item, letter(), now=NOW).fingerprint) == 16


LONG = [
    "word ",
    " ",
    "'",
    '"',
    "a.",
    "{",
    "http://",
    "host ",
    "\n",
    "é",
    "connect to ",
    "1:",
    "x=",
    "A",
]


@pytest.mark.long
@each_row("part", LONG, ids=ascii)
def test_a_failure_costs_little_whatever_its_text(part: str) -> None:
    error = caught(lambda: exec("raise TimeoutError(text)", {"text": part * 2**18}))  # noqa: S102 - no file
    assert is_quick(lambda: [diagnose(error, letter(), now=NOW) for _ in range(10)], 0.5)
