"""A rule has a budget of counted steps on one letter, which index and pattern spend alike."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from deadletter.rules import index as rule_index
from deadletter.rules import pattern as rule_pattern
from deadletter.rules import work
from deadletter.rules.fields import Outline
from deadletter.rules.index import RuleIndex
from deadletter.rules.pattern import Likeness, all_hold, compile_pattern
from tests.each_row import each_row
from tests.rules import book_pairs

PRESENT = {"exists": True}


def judged(rule: dict[str, Any], document: dict[str, Any]) -> Likeness:
    pattern = compile_pattern(rule)
    likeness = pattern.judge(document)
    found = [too_costly for _, too_costly in RuleIndex([("r", pattern)]).judged(document)]
    assert (
        found
        == {
            Likeness.MATCHES: [False],
            Likeness.DIFFERS: [],
            Likeness.TOO_COSTLY: [True],
        }[likeness]
    )
    return likeness


@pytest.mark.long
@pytest.mark.parametrize(
    "steps", [12, *(pytest.param(steps, marks=pytest.mark.nightly) for steps in (4, 40))]
)
def test_index_and_pattern_find_the_same_rules_too_costly(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner in (rule_index, rule_pattern, work):
        monkeypatch.setattr(owner, "STEPS", steps)
    random = Random(steps)
    seen: Counter[Likeness] = Counter()
    for _ in range(300):
        book = [book_pairs.pattern_for(random) for _ in range(8)]
        document = book_pairs.document_for(random)
        patterns = [compile_pattern(rule) for rule in book]
        by_pattern = [pattern.judge(document) for pattern in patterns]
        by_index = dict(RuleIndex(enumerate(patterns)).judged(document))
        seen.update(by_pattern)
        assert by_index == {
            number: likeness is Likeness.TOO_COSTLY
            for number, likeness in enumerate(by_pattern)
            if likeness is not Likeness.DIFFERS
        }
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
    spent = work.Work()
    all_hold(fields, leaves, {}, spent)
    assert work.STEPS - spent.left == steps


def test_a_rule_may_take_all_its_steps_and_no_more() -> None:
    spent = work.Work()
    spent.spend(work.STEPS)
    with pytest.raises(work.TooCostly):
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
    costly = compile_pattern({"text": [{"wildcard": f"*a{n}b*c*"} for n in range(30)]})
    other = compile_pattern({"text": [{"prefix": "x"}]})
    index = RuleIndex([("a", other), ("b", costly), ("c", other), ("d", costly)])
    document = {"text": "x" * 1_000_000}
    assert list(index.judged(document)) == [("a", False), ("b", True), ("c", False), ("d", True)]
    assert list(index.matching(document)) == ["a", "c"]
    assert costly.explain(document) == []
