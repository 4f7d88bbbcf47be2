"""A rule has a budget of counted steps on one letter, alone and in a book."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from deadletter.rules import fields as rule_fields
from deadletter.rules import pattern as rule_pattern
from deadletter.rules.fields import Outline
from deadletter.rules.pattern import Likeness, WorkOnLetter, all_hold, compile_pattern
from tests.each_row import each_row
from tests.rules import book_pairs
from tests.rules.rule_items import GONE, book, item
from tests.samples import NOW

PRESENT = {"exists": True}


def judged(rule: dict[str, Any], document: dict[str, Any]) -> Likeness:
    return compile_pattern(rule).judge(document)


@pytest.mark.long
@pytest.mark.parametrize(
    "steps", [12, *(pytest.param(steps, marks=pytest.mark.nightly) for steps in (4, 40))]
)
def test_a_rule_in_a_book_is_as_costly_as_it_is_alone(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner in (rule_pattern, rule_fields):
        monkeypatch.setattr(owner, "STEPS", steps)
    random = Random(steps)
    seen: Counter[Likeness] = Counter()
    for _ in range(300):
        document = book_pairs.document_for(random)
        patterns = [compile_pattern(book_pairs.pattern_for(random)) for _ in range(8)]
        alone = [pattern.judge(document) for pattern in patterns]
        seen.update(alone)
        leaves = Outline({f.name for pattern in patterns for f in pattern.fields}).read(document)
        assert [pattern.judge_leaves(leaves) for pattern in patterns] == alone
    assert min(seen[likeness] for likeness in Likeness) > 5


def test_combinations_that_are_never_in_one_element_are_given_up() -> None:
    names = "abcdefghij"
    rule: dict[str, Any] = {"l": {"$or": [{name: [PRESENT]} for name in names]}}
    rule["l"] |= {f"m{n}": {"$or": [{name: [PRESENT]} for name in names]} for n in range(2)}
    lines: list[dict[str, Any]] = [{name: 1} for name in names for _ in range(300)]
    lines += [{f"m{n}": {name: 1}} for name in names for _ in range(150) for n in range(2)]
    assert judged(rule, {"l": lines}) is Likeness.TOO_COSTLY
    assert judged(rule, {"l": lines[:10]}) is Likeness.DIFFERS


@each_row(
    ("rule", "elements", "steps"),
    [
        ({"a": [1], "b": [2]}, [{"a": 1, "b": 2}], 14),
        ({"a": [1], "b": [2]}, [{"a": 1}] * 3 + [{"b": 2}], 16),
        ({"a": [PRESENT], "b": [PRESENT]}, [{"a": 1}] * 3 + [{"b": 2}], 16),
        ({"a": [1], "b": [{"exists": False}]}, [{"a": 1}, {"b": 1}], 13),
        ({"a": [1], "b": {"c": [2]}}, [{"a": 1, "b": [{"c": 2}, {"c": 2}]}], 36),
        ({"a": [1], "b": [2]}, [{"a": [1, [1]]}, {"b": 2, "a": 1}], 36),
    ],
)
def test_each_combination_in_an_array_has_a_number_of_steps(
    rule: dict[str, Any], elements: list[Any], steps: int
) -> None:
    [fields] = compile_pattern({"l": rule}).alternatives
    leaves = Outline(field.name for field in fields).read({"l": elements})
    spent = WorkOnLetter()
    all_hold(fields, leaves, {}, spent)
    assert rule_fields.STEPS - spent.left == steps


def test_a_rule_may_take_all_its_steps_and_no_more() -> None:
    spent = rule_fields.Work()
    spent.spend(rule_fields.STEPS)
    with pytest.raises(rule_fields.TooCostly):
        spent.spend(1)


def test_long_texts_count_by_their_characters() -> None:
    rule = {"text": [{"wildcard": f"*a{n}b*c*"} for n in range(30)]}
    assert judged(rule, {"text": "x" * 100_000}) is Likeness.DIFFERS
    assert judged(rule, {"text": "x" * 1_000_000}) is Likeness.TOO_COSTLY
    assert judged(rule, {"text": ["x" * 10_000] * 100}) is Likeness.TOO_COSTLY


def test_fields_beside_an_exact_value_that_the_letter_does_not_have_are_free() -> None:
    text = [{"wildcard": f"*a{n}b*c*"} for n in range(30)]
    rule = {"tenant": ["acme"], "text": text}
    long = "x" * 1_000_000
    assert judged(rule, {"tenant": "acme", "text": long}) is Likeness.TOO_COSTLY
    assert judged(rule, {"tenant": "other", "text": long}) is Likeness.DIFFERS


def test_a_simple_rule_can_be_judged_on_the_largest_letter() -> None:
    lines = [{"sku": f"sku-{n}", "kind": f"k{n % 9}"} for n in range(30_000)]
    rule = {"lines": {"sku": [{"suffix": "-29999"}], "kind": [{"prefix": "k2"}]}}
    assert judged(rule, {"lines": lines}) is Likeness.MATCHES
    assert judged(
        {"t": [{"wildcard": "*a long error text*of two lines*"}]}, {"t": "x" * 10**6}
    ) is (Likeness.DIFFERS)


def test_one_rule_too_costly_hides_no_other() -> None:
    costly: dict[str, Any] = {"body": {"text": [{"wildcard": f"*a{n}b*c*"} for n in range(30)]}}
    other: dict[str, Any] = {"body": {"text": [{"prefix": "x"}]}}
    patterns = {"a": other, "b": costly, "c": other, "d": costly}
    rows = [
        item(name, tenantId=GONE, mode="shadow", pattern=pattern)
        for name, pattern in patterns.items()
    ]
    document = {"body": {"text": "x" * 1_000_000}}
    match = book(*rows).first(document, NOW, {})
    assert (match.shadows, match.costly) == (("a", "c"), ("b", "d"))
    assert compile_pattern(costly).explain(document) == []
