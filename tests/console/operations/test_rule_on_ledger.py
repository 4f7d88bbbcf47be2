"""What can be told of a rule from the ledger alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from console.operations.matching import holds, known_of, unkept
from console.operations.rule_on_ledger import nearest_value
from deadletter.contract import LedgerKeeps
from deadletter.failure.cause_index import CUT, CauseEntry
from deadletter.failure.ledger import AboutLetter
from deadletter.rules.pattern import compile_pattern
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row

PLAIN = Pipeline("orders", context={"tenantId": "body.tenantId", "region": "body.region"})
HASHED = Pipeline("orders", context=PLAIN.context, ledger=LedgerKeeps.HASHED)
ENTRY = CauseEntry(
    origin="m1",
    fingerprint="f1",
    seen=10.0,
    first_at=5.0,
    category="transient",
    error_type="Timeout",
    http_status=503,
    attempt=2,
    about=AboutLetter({"tenantId": "42"}),
)


def told(pattern: Any, pipeline: Pipeline = PLAIN) -> bool | None:
    return holds(compile_pattern(pattern), known_of(ENTRY, pipeline))


@each_row(
    ("pattern", "says"),
    [
        ({"context": {"tenantId": ["42"]}}, None),
        ({"context": {"tenantId": ["42", 42]}}, True),
        ({"context": {"tenantId": ["43", 43]}}, False),
        ({"context": {"tenantId": [{"prefix": "4"}, {"numeric": [">", 0]}]}}, True),
        ({"context": {"region": ["eu"]}}, False),
        ({"context": {"region": [{"exists": False}]}}, True),
        ({"failure": {"http_status": [{"numeric": [">=", 500]}]}}, True),
        ({"failure": {"category": ["schema"]}}, False),
        ({"failure": {"error_type": ["Timeout"], "fingerprint": ["f1"]}}, True),
        ({"redrive": {"attempt": [2]}}, True),
        ({"redrive": {"age_seconds": [{"numeric": [">", 60]}]}}, None),
        ({"body": {"amount": [5]}}, None),
        ({"body": {"amount": [5]}, "failure": {"category": ["schema"]}}, False),
        ({"$or": [{"body": {"amount": [5]}}, {"failure": {"category": ["transient"]}}]}, True),
        ({"$or": [{"body": {"amount": [5]}}, {"failure": {"category": ["schema"]}}]}, None),
    ],
)
def test_a_rule_is_judged_as_far_as_the_ledger_goes(pattern: Any, says: bool | None) -> None:
    assert told(pattern) is says


def test_what_can_not_be_told_is_named() -> None:
    assert told({"context": {"tenantId": ["42", 42]}}, HASHED) is None
    pattern = compile_pattern({"context": {"tenantId": ["42"]}, "body": {"x": [1]}})
    assert unkept(pattern, PLAIN) == {"bodies and attributes are not kept"}
    assert unkept(pattern, HASHED) == {
        "bodies and attributes are not kept",
        "contexts are hashed or left out",
    }


values = st.sampled_from([["42", 42], ["x"], [{"exists": True}], [{"exists": False}]])
bodies = st.sampled_from([["a"], [5], [{"exists": False}], [{"anything-but": "a"}]])
fields = st.fixed_dictionaries(
    {},
    optional={
        "context": st.fixed_dictionaries({}, optional={"tenantId": values, "region": values}),
        "failure": st.fixed_dictionaries(
            {}, optional={"http_status": st.sampled_from([[503], [{"exists": False}]])}
        ),
        "body": st.fixed_dictionaries({"x": bodies}),
    },
)


@settings(max_examples=200)
@given(st.lists(fields, min_size=2, max_size=3), st.sampled_from([{}, {"x": "a"}, {"x": 5}]))
def test_what_is_told_is_true_whatever_the_body_is(
    branches: list[dict[str, Any]], body: dict[str, Any]
) -> None:
    branches = [
        filled for each in branches if (filled := {top: sub for top, sub in each.items() if sub})
    ]
    if len(branches) < 2:
        return
    pattern = compile_pattern({"$or": branches})
    letter = {
        "pipeline": "orders",
        "context": {"tenantId": "42"},
        "failure": {"category": "transient", "http_status": 503},
        "body": body,
    }
    says = holds(pattern, known_of(ENTRY, PLAIN))
    assert says is None or says == pattern.matches(letter)


@each_row(
    ("expected", "values", "near"),
    [
        ('"Cedar"', {"cedar": 3, "birch": 9}, "cedar"),
        ('"ceder"', {"cedar": 3, "birch": 9}, "cedar"),
        ('" cedar-eu "', {"cedar-eu": 3}, "cedar-eu"),
        ('"cedar"', {"prod/cedar/eu": 1, "x": 9}, "prod/cedar/eu"),
        ('"CEDAR"', {"Cedar": 1, "cedar": 2}, "cedar"),
        ('"oak" or "bich"', {"cedar": 3, "birch": 9}, "birch"),
        ('starts with "Ced"', {"cedar": 3, "birch": 9}, "cedar"),
        ('"ce"', {"x-ce-y": 1}, None),
        ('"oak"', {"cedar": 3, "birch": 9}, None),
        ('"oak"', {}, None),
        ("> 500", {"503": 2}, None),
    ],
)
def test_the_nearest_value_is_the_one_that_is_spelled_alike(
    expected: str, values: dict[str, int], near: str | None
) -> None:
    assert nearest_value(expected, values) == near


def test_a_text_that_was_cut_is_not_compared() -> None:
    cut = replace(ENTRY, about=AboutLetter({"tenantId": f"42{CUT}"}))
    pattern = compile_pattern({"context": {"tenantId": [{"prefix": "42"}]}})
    assert holds(pattern, known_of(cut, PLAIN)) is None


def test_a_body_field_is_known_where_the_context_keeps_it() -> None:
    assert told({"body": {"tenantId": ["42", 42]}}) is True
    assert told({"body": {"tenantId": ["43"]}}) is False
    assert told({"body": {"other": ["43"]}}) is None
