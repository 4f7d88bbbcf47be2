"""A rule matches the same letters alone and in a book, whose rules share the reading of a letter.

Both are compared with a slow matcher that tries every choice; `make nightly` with 200,000 pairs.
The deviations that are planted here were or could be real ones, and the comparison finds each.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from deadletter.rules import fields as rule_fields
from deadletter.rules import pattern as rule_pattern
from deadletter.rules.comparison import Comparison
from deadletter.rules.fields import FieldValues, Leaves, Outline, Work
from deadletter.rules.pattern import (
    Alternative,
    KnownAnswers,
    Likeness,
    WorkOnLetter,
    all_hold,
    compile_pattern,
)
from deadletter.rules.together import Part
from tests.rules.book_pairs import Book, deviations

PAIRS = 200_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 8_000

# A planted deviation has to be found among as few pairs as every test run tries.
PAIRS_TO_FIND_IT = 8_000


def by_book(book: Book, document: Mapping[str, Any]) -> list[int]:
    patterns = [compile_pattern(rule) for rule in book]
    leaves = Outline({field.name for each in patterns for field in each.fields}).read(document)
    likenesses = [pattern.judge_leaves(leaves) for pattern in patterns]
    return [n for n, likeness in enumerate(likenesses) if likeness is Likeness.MATCHES]


def by_pattern(book: Book, document: Mapping[str, Any]) -> list[int]:
    return [number for number, rule in enumerate(book) if compile_pattern(rule).matches(document)]


# A mutant meets the few pairs only.
@pytest.mark.parametrize("pairs", [800, pytest.param(PAIRS, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("matcher", [by_book, by_pattern])
def test_book_and_pattern_match_what_a_slow_matcher_matches(matcher: Any, pairs: int) -> None:
    assert list(deviations(matcher, seed=20, pairs=pairs)) == []


def _trusting_known_answers(
    fields: Alternative, leaves: Leaves, answers: KnownAnswers, work: WorkOnLetter | None
) -> bool:
    """What an index once did: fields that other branches have tried need no common element."""
    known = all(field in answers for field in fields)
    return all_hold(fields, leaves, answers, None if known else work)


def _one_element_is_like_another(parts: list[Part], work: Work) -> bool:
    return all(spot.any_hit or (absent and not spot.within) for absent, spot in parts)


def _without_missing_fields(comparison: Comparison, leaf: FieldValues) -> Any:
    return (placed for placed in _HITS(comparison, leaf) if placed[1])


_HITS = rule_pattern._hits


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "planted", "matcher"),
    [
        pytest.param(
            rule_pattern, "all_hold", _trusting_known_answers, by_book, id="known answers"
        ),
        pytest.param(
            rule_pattern, "hold_together", _one_element_is_like_another, by_pattern, id="elements"
        ),
        pytest.param(rule_pattern, "_hits", _without_missing_fields, by_pattern, id="missing"),
        pytest.param(rule_fields, "_MAX_ARRAYS", 1, by_pattern, id="nested arrays"),
        pytest.param(rule_fields, "_MAX_ARRAYS", 1, by_book, id="nested arrays in a book"),
    ],
)
def test_a_planted_deviation_is_found(
    owner: Any, name: str, planted: Any, matcher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert next(deviations(matcher, seed=20, pairs=PAIRS_TO_FIND_IT), None) is not None


def test_branches_of_or_that_share_a_field_match_within_one_element_of_an_array() -> None:
    branches = [{"code": [{"prefix": "c"}]}, {"note": [{"prefix": "n"}]}]
    rule = {"lines": {"kind": [{"prefix": "k"}], "$or": branches}}
    together = {"lines": [{"kind": "k", "code": "c"}]}
    apart = {"lines": [{"code": "c"}, {"kind": "k"}]}
    assert by_pattern([rule], together) == by_book([rule], together) == [0]
    assert by_pattern([rule], apart) == by_book([rule], apart) == []


@pytest.mark.parametrize(
    ("rule", "document", "matches"),
    [
        pytest.param(
            {"a": [1], "a.b": [3]}, {"a": [[1, {"b": 2}], [{"b": 3}]]}, False, id="elsewhere"
        ),
        pytest.param({"a": [1], "a.b": [3]}, {"a": [[1, {"b": 3}]]}, True, id="same element"),
        pytest.param({"a": [1], "a.b": [3]}, {"a": [1, [{"b": 3}]]}, True, id="no element"),
        pytest.param(
            {"a": {"b": [1], "c": [2]}},
            {"a": [[{"b": 1}], [{"c": 2}]]},
            False,
            id="objects of two arrays",
        ),
        pytest.param(
            {"a": [1, 2], "a.b": [3]}, {"a": [1, [2, {"b": 3}]]}, True, id="beside or within"
        ),
        pytest.param(
            {"a": [1, 2], "a.b": [3], "a.c": [4]},
            {"a": [1, [2, {"b": 3}], [2, {"c": 4}]]},
            False,
            id="beside, and two apart",
        ),
    ],
)
def test_values_of_a_nested_array_belong_to_its_element(
    rule: dict[str, Any], document: dict[str, Any], matches: bool
) -> None:
    assert by_pattern([rule], document) == by_book([rule], document) == [0] * matches
