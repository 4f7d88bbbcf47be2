"""The index finds the same rules as trying each, at a cost that hardly grows with them."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadletter.rules import index as rule_index
from deadletter.rules.index import RuleIndex
from deadletter.rules.lookups import Lookups
from deadletter.rules.pattern import all_hold, compile_pattern
from tests.rules.event_patterns import counting, documents, pairs, patterns


def index(*rules: dict[str, Any]) -> RuleIndex[int]:
    return RuleIndex([(number, compile_pattern(pattern)) for number, pattern in enumerate(rules)])


@pytest.mark.nightly
@settings(max_examples=60)
@given(st.lists(patterns(), max_size=8), st.lists(pairs(), min_size=1, max_size=4))
def test_the_index_agrees_with_trying_the_rules_one_by_one(
    others: list[dict[str, Any]], both: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    rules = others + [pattern for pattern, _ in both]
    document = {name: value for _, part in both for name, value in part.items()}
    expected = [
        number for number, pattern in enumerate(rules) if compile_pattern(pattern).matches(document)
    ]
    ours = index(*rules)
    assert [list(ours.matching(document)) for _ in range(3)] == [expected] * 3


_VALUES = st.sampled_from(["p", "q", 1, True, None])
_EXACT = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.lists(_VALUES, min_size=1, max_size=3), min_size=1
)


@pytest.mark.nightly
@settings(max_examples=40)
@given(st.lists(_EXACT, min_size=20, max_size=60), documents() | _EXACT)
def test_the_index_agrees_for_many_rules_that_share_values(
    rules: list[dict[str, Any]], document: dict[str, Any]
) -> None:
    expected = [
        number for number, pattern in enumerate(rules) if compile_pattern(pattern).matches(document)
    ]
    assert list(index(*rules).matching(document)) == expected


def test_rules_come_in_the_order_given_and_each_once() -> None:
    rules = index(
        {"a": [{"anything-but": "z"}]},
        {"a": ["x", "y"]},
        {"$or": [{"a": ["x"]}, {"a": ["y"]}, {"b": [{"exists": False}]}]},
        {"b": [{"exists": False}]},
        {"a": ["q"]},
        {"a": ["y"]},
    )
    assert list(rules.matching({"a": ["x", "y"]})) == [0, 1, 2, 3, 5]


def test_what_is_remembered_of_a_value_is_what_the_patterns_say() -> None:
    rules = [
        {"a": [{"anything-but": {"wildcard": [f"*{letter}*", "*z*"]}}], "b": [number % 2]}
        for number, letter in enumerate("abcdef" * 3)
    ]
    ours, compiled = index(*rules), [compile_pattern(rule) for rule in rules]
    random = Random(3)
    texts = ["".join(random.choices("abcdefgz", k=3)) for _ in range(2_000)]
    for text in [*texts, *(["gag"] * 3), *(["x" * 300] * 3), *texts]:
        document = {"a": text, "b": random.randrange(2)}
        expected = [number for number, pattern in enumerate(compiled) if pattern.matches(document)]
        assert list(ours.matching(document)) == expected


def test_a_value_that_has_come_before_is_tested_no_more() -> None:
    calls: list[str] = []
    pattern = compile_pattern({"a": [{"anything-but": {"wildcard": ["*x*", "*y*"]}}]})
    rules = RuleIndex([("a", counting(pattern, calls))])
    for _ in range(2):
        assert list(rules.matching({"a": "x"})) == []
    asked = len(calls)
    assert list(rules.matching({"a": "x"})) == []
    assert len(calls) == asked


def test_of_the_texts_of_a_name_five_hundred_are_known_and_fifty_remembered() -> None:
    lookups: Lookups[Any] = Lookups({}, {}, {})
    known = [lookups.known_of_any_value(str(number)) for number in range(500)]
    assert known == [None] * 500
    # All of them are known; of those that come again the fifty-first begins anew.
    assert [lookups.known_of_any_value(str(number)) for number in range(51)] == [[]] * 51
    assert list(lookups._remembered) == ["50"]
    assert lookups.known_of_any_value("one more") is None
    assert lookups.known_of_any_value("499") is None
    # A long text hardly comes twice.
    assert [lookups.known_of_any_value("x" * 200) for _ in range(2)] == [None, []]
    assert [lookups.known_of_any_value("x" * 201) for _ in range(2)] == [None, None]


def test_keys_may_repeat() -> None:
    pattern = compile_pattern({"a": [1]})
    assert list(RuleIndex([("k", pattern), ("k", pattern)]).matching({"a": 1})) == ["k", "k"]


def test_no_rules_match_nothing() -> None:
    assert list(index().matching({"a": 1})) == []


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has one item for each rule of which more than the look-up is checked."""
    seen: list[int] = []

    def counting(*arguments: Any) -> bool:
        seen.append(1)
        return all_hold(*arguments)

    monkeypatch.setattr(rule_index, "all_hold", counting)
    return seen


def test_after_a_match_the_next_rule_is_checked_only_on_demand(tried: list[int]) -> None:
    rules = index(*({"a": [1], "b": [{"exists": True}]} for _ in range(1000)))
    matching = rules.matching({"a": 1, "b": 1})
    assert (next(matching), len(tried)) == (0, 1)
    assert (next(matching), len(tried)) == (1, 2)


@pytest.mark.parametrize("size", [10, 1_000, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_the_number_of_rules_tried_does_not_grow_with_the_number_of_rules(
    size: int, tried: list[int]
) -> None:
    rules = index(*({"context": {"tenantId": [f"t-{number}"]}} for number in range(size)))
    assert list(rules.matching({"context": {"tenantId": "t-7"}})) == [7]
    assert len(tried) == 1


def test_rules_that_share_each_value_are_looked_up_by_several_names(tried: list[int]) -> None:
    names = [f"{letter}{number}" for letter, number in product("xyz", range(10))]
    rules = [
        {"context": {"tenantId": [tenant], "messageType": [kind]}, "pipeline": ["orders"]}
        for tenant, kind in product(names, names)
    ]
    document = {"pipeline": "orders", "context": {"tenantId": "y3", "messageType": "z9"}}
    assert [rules[number] for number in index(*rules).matching(document)] == [
        {"context": {"tenantId": ["y3"], "messageType": ["z9"]}, "pipeline": ["orders"]}
    ]
    assert len(tried) == 1


def test_a_value_repeated_in_a_long_array_is_looked_up_once(tried: list[int]) -> None:
    rules = index(*({"tags": [tag], "b": [{"exists": True}]} for tag in ("a", "b", "c")))
    assert list(rules.matching({"tags": ["a", "b"] * 100_000})) == []
    assert len(tried) == 2


def test_a_list_of_values_and_operators_is_not_looked_up_by_its_values_alone() -> None:
    rules = index({"a": ["x", {"prefix": "y"}]}, {"a": ["x", {"exists": False}]})
    assert [list(rules.matching(document)) for document in ({"a": "yy"}, {})] == [[0], [1]]


def test_a_rule_without_exact_values_still_needs_one_array_element() -> None:
    rules = index({"lines": {"sku": [{"prefix": "x"}], "code": [{"prefix": "y"}]}})
    together, apart = [{"sku": "x", "code": "y"}], [{"sku": "x"}, {"code": "y"}]
    assert list(rules.matching({"lines": together})) == [0]
    assert list(rules.matching({"lines": apart})) == []


def test_branches_of_or_share_the_test_of_a_field_outside_it() -> None:
    calls: list[str] = []
    branches = [{"kind": [{"prefix": f"k{number}"}]} for number in range(100)]
    pattern = compile_pattern({"body": [{"wildcard": "*x*"}], "$or": branches})
    rules = RuleIndex([("a", counting(pattern, calls))])
    assert list(rules.matching({"body": "yxy", "kind": "k99"})) == ["a"]
    assert calls.count("body") == 1
    assert list(rules.matching({"body": "y", "kind": "k99"})) == []
    assert calls.count("kind") <= 100


def test_a_rule_without_exact_values_is_looked_up_by_its_narrowest_field() -> None:
    calls: list[str] = []
    pattern = compile_pattern({"a": [{"anything-but": "x"}], "b": [{"prefix": "y"}]})
    rules = RuleIndex([(number, counting(pattern, calls)) for number in range(100)])
    assert list(rules.matching({"a": "a", "b": "b"})) == []
    assert calls == []
