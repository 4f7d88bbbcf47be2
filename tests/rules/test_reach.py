"""Rules that can match nothing, and rules that match every letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadletter.rules.pattern import compile_pattern
from deadletter.rules.reach import FAILURE, is_broad, reach_of
from deadletter.rules.rule import RuleRefused, notes_of, read_rule
from tests.each_row import each_row
from tests.rules.rule_items import GONE, PIPELINE, item
from tests.samples import NOW


def reach(pattern: Any) -> tuple[bool, tuple[str, ...]]:
    found = reach_of(compile_pattern(pattern), PIPELINE)
    return found.never, found.misses


@each_row(
    ("pattern", "why"),
    [
        (
            {"context": {"tenentId": ["a"]}},
            "no message has context.tenentId; did you mean tenantId?",
        ),
        (
            {"context": {"tenantId": {"x": ["a"]}}},
            "no message has context.tenantId.x; did you mean",
        ),
        ({"context": {"zz": ["a"]}}, "no message has context.zz; there are messageType, tenantId"),
        ({"failure": {"http-status": [503]}}, "no message has failure.http-status; did you mean"),
        ({"failure": {"http_status": ["503"]}}, "failure.http_status is a number in every message"),
        (
            {"failure": {"category": ["TRANSIENT"]}},
            "failure.category is one of transient, schema, business, integration",
        ),
        ({"failure": {"error_type": [5]}}, "failure.error_type is text in every message"),
        ({"redrive": {"attempts": [2]}}, "no message has redrive.attempts; did you mean attempt?"),
        ({"redrive": {"attempt": ["2"]}}, "redrive.attempt is a number in every message"),
        (
            {"redrive": {"attempt": [{"prefix": "2"}]}},
            "redrive.attempt is a number in every message",
        ),
        (
            {"system": {"ApproximateReceiveCount": [{"numeric": [">", 3]}]}},
            "system.ApproximateReceiveCount is text in every message",
        ),
        ({"system": {"senderId": ["a"]}}, "no message has system.senderId; did you mean SenderId?"),
        ({"pipeline": ["refunds"]}, "pipeline is orders here"),
        ({"boddy": {"x": [1]}}, "no message has boddy.x; did you mean body?"),
    ],
)
def test_a_rule_that_no_letter_of_the_pipeline_can_match_is_invalid(pattern: Any, why: str) -> None:
    never, [miss] = reach(pattern)
    assert never
    assert miss.startswith(why)
    with pytest.raises(RuleRefused, match="matches nothing that this pipeline can produce") as bad:
        read_rule(item(tenantId=GONE, pattern=json.dumps(pattern)), PIPELINE)
    assert why in str(bad.value)
    assert why not in bad.value.gist


@each_row(
    "pattern",
    [
        {"body": {"tenentId": [5]}, "attributes": {"any": [{"numeric": [">", 1]}]}},
        {"failure": {"http_status": [503, {"numeric": [">=", 500]}], "category": ["transient"]}},
        {"failure": {"error_type": [{"wildcard": "*Error"}, {"anything-but": ["A"]}]}},
        {"failure": {"fingerprint": [{"exists": False}]}, "system": {"MessageGroupId": ["g"]}},
        {"redrive": {"attempt": [2, {"numeric": [">", 3]}], "age_seconds": [{"exists": True}]}},
        {"context": {"region": [{"exists": False}]}},
        {"pipeline": ["orders", "refunds"]},
        {"failure": {"blame": [{"anything-but": "dependency"}], "http_status": ["503", 503]}},
    ],
)
def test_a_rule_that_some_letter_can_match_is_valid(pattern: Any) -> None:
    assert reach(pattern) == (False, ())


def test_a_branch_that_matches_nothing_is_a_note() -> None:
    pattern = {"$or": [{"context": {"tenentId": ["a"]}}, {"context": {"tenantId": ["a"]}}]}
    never, misses = reach(pattern)
    assert not never
    stored = item(tenantId=GONE, pattern=pattern)
    rule = read_rule(stored, PIPELINE)
    assert notes_of(rule, stored, PIPELINE, NOW) == [f"a branch matches nothing: {misses[0]}"]


def test_a_condition_on_the_absence_of_what_no_letter_has_always_holds() -> None:
    """A mistyped name stops every letter, not those without the right one."""
    pattern = {"context": {"tenentId": [{"exists": False}]}}
    assert is_broad(compile_pattern(pattern), PIPELINE)
    assert reach(pattern) == (False, ())
    stored = item(tenantId=GONE, pattern=pattern, breadth="all")
    note = "a condition always holds: no message has context.tenentId; did you mean tenantId?"
    assert notes_of(read_rule(stored, PIPELINE), stored, PIPELINE, NOW) == [note]
    beside = {"context": {"tenentId": [{"exists": False}], "tenantId": ["a"]}}
    assert not is_broad(compile_pattern(beside), PIPELINE)


def all_but(number: int) -> list[Any]:
    return [{"numeric": ["<", number]}, {"numeric": [">", number]}]


@each_row(
    ("redrive", "broad"),
    [
        ({"attempt": [{"numeric": ["<", 100]}]}, True),
        ({"attempt": [{"numeric": [">=", 0]}]}, True),
        ({"age_seconds": [{"numeric": [">", 0]}]}, True),
        ({"attempt": [{"numeric": [">", 0]}]}, False),
        ({"attempt": [{"numeric": ["<", 5]}]}, False),
        ({"age_seconds": [{"numeric": [">", 3600]}]}, False),
        ({"attempt": [{"numeric": ["<=", 20]}]}, True),
        ({"age_seconds": [{"numeric": [">=", 60, "<=", 14 * 86_400]}]}, True),
        # All but one of the usual attempts, and of the usual ages.
        *(({"attempt": all_but(number)}, False) for number in (0, 1, 2, 5, 20)),
        *(({"age_seconds": all_but(age)}, False) for age in (60, 3_600, 86_400, 14 * 86_400)),
    ],
)
def test_a_bound_that_no_letter_comes_near_tells_none_apart(redrive: Any, broad: bool) -> None:
    assert is_broad(compile_pattern({"redrive": redrive}), PIPELINE) is broad


def test_the_words_of_a_rule_do_not_depend_on_the_order_of_its_columns() -> None:
    one = item(messageType="m")
    other = dict(reversed(one.items()))
    patterns = [read_rule(columns, PIPELINE).pattern for columns in (one, other)]
    assert json.dumps(patterns[0]) == json.dumps(patterns[1])


def test_what_shorthand_does_not_mean_is_a_note() -> None:
    stored = item(tenantId=" acme* ")
    rule = read_rule(stored, PIPELINE)
    assert notes_of(rule, stored, PIPELINE, NOW) == [
        "spaces around tenantId are left out",
        "* has no special meaning in tenantId: use a pattern with wildcard, or a list",
    ]


scalars = st.sampled_from(["a", "transient", "503", "", 503, 0, 2, True, None])
comparisons = st.sampled_from(
    [
        *({"exists": True}, {"exists": False}, {"prefix": "5"}, {"suffix": "nt"}),
        *({"numeric": [">=", 2]}, {"anything-but": ["a"]}, {"anything-but": 503}),
        *({"wildcard": "*5*3"}, {"wildcard": "*"}, {"cidr": "10.0.0.0/8"}),
        *({"equals-ignore-case": "TRANSIENT"}, {"anything-but": {"prefix": "t"}}),
    ]
)
names = st.sampled_from(
    [
        *("context.tenantId", "context.other", "pipeline", "failure.category", "failure.nothing"),
        *("failure.http_status", "failure.error_type", "redrive.attempt", "redrive.no", "top.x"),
        *("system.SenderId", "system.MessageGroupId", "system.None"),
    ]
)


@st.composite
def letters(draw: st.DrawFn) -> dict[str, Any]:
    """The closed part of a document, as DocumentBuilder makes it."""
    failure = {
        "category": draw(st.sampled_from(FAILURE["category"])),
        "error_type": draw(st.sampled_from(["a", "503", "", "transient"])),
        **draw(st.sampled_from([{}, {"http_status": 503}, {"http_status": 200}])),
    }
    context = draw(st.sampled_from(["a", "503", 503, 2, True]))
    return {
        "pipeline": "orders",
        "context": draw(st.sampled_from([{}, {"tenantId": context}])),
        "redrive": {"attempt": draw(st.integers(0, 5)), "age_seconds": 9},
        "system": {
            "SenderId": draw(st.sampled_from(["", "503", "10.1.1.1"])),
            "MessageGroupId": "a",
        },
        **draw(st.sampled_from([{}, {"failure": failure}])),
    }


@settings(max_examples=300)
@given(st.dictionaries(names, st.lists(scalars | comparisons, min_size=1), min_size=1), letters())
def test_no_rule_that_matches_a_letter_is_called_one_that_matches_nothing(
    fields: dict[str, list[Any]], letter: dict[str, Any]
) -> None:
    pattern: dict[str, Any] = {}
    for name, values in fields.items():
        top, _, rest = name.partition(".")
        if rest:
            pattern.setdefault(top, {})[rest] = values
        else:
            pattern[top] = values
    compiled = compile_pattern(pattern)
    if compiled.matches(letter):
        assert not reach_of(compiled, PIPELINE).never


BROAD = [
    {"pipeline": ["orders"]},
    {"pipeline": [{"exists": True}]},
    {"body": {"x": [{"prefix": ""}]}},
    {"body": {"x": [{"wildcard": "*"}]}},
    {"body": {"x": [{"exists": True}, {"exists": False}]}},
    {"context": {"tenantId": [{"exists": True}]}},
    {"context": {"tenantId": [{"anything-but": "x"}]}},
    {"redrive": {"attempt": [{"numeric": [">=", 0]}]}},
    {"system": {"SenderId": [{"exists": True}]}},
    {"$or": [{"body": {"x": [1]}}, {"pipeline": ["orders"]}]},
]


@each_row("pattern", BROAD)
@each_row("action", ["HOLD", "QUARANTINE"])
def test_a_rule_that_stops_every_letter_has_to_say_so(pattern: Any, action: str) -> None:
    stored = item(tenantId=GONE, action=action, pattern=pattern)
    with pytest.raises(RuleRefused, match="needs the column breadth = all"):
        read_rule(stored, PIPELINE)
    assert read_rule({**stored, "breadth": " All"}, PIPELINE)
    assert read_rule({**stored, "mode": "shadow"}, PIPELINE)
    assert read_rule({**stored, "action": "DEFAULT"}, PIPELINE)
    with pytest.raises(RuleRefused, match="breadth 'some' is unknown; allowed are all"):
        read_rule({**stored, "breadth": "some"}, PIPELINE)


@each_row(
    "pattern",
    [
        {"body": {"x": [{"exists": True}]}},
        {"body": {"x": [{"exists": False}]}},
        {"failure": {"category": [{"exists": True}]}},
        {"redrive": {"attempt": [{"numeric": [">=", 1]}]}},
        {"pipeline": ["orders"], "context": {"tenantId": ["a"]}},
        {"context": {"tenantId": [{"prefix": "a"}]}},
        {"system": {"SenderId": [{"prefix": "AROA"}]}},
    ],
)
def test_a_rule_that_tells_letters_apart_is_not_broad(pattern: Any) -> None:
    assert not is_broad(compile_pattern(pattern), PIPELINE)


@each_row(("typed", "notes"), [("5", []), ("1.000", ["1"]), ("1e3", ["1000"]), ("1_0", ["10"])])
def test_a_limit_that_is_written_in_another_way_is_said(typed: str, notes: list[str]) -> None:
    stored = item(max_matches=typed)
    said = notes_of(read_rule(stored, PIPELINE), stored, PIPELINE, NOW)
    assert said == [f"max_matches means {number}" for number in notes]


def test_a_broad_rule_that_was_valid_stays_so_with_a_note_until_it_is_edited() -> None:
    stored = item(tenantId=GONE, pattern=BROAD[0], status="VALID")
    rule = read_rule(stored, PIPELINE)
    [note] = notes_of(rule, stored, PIPELINE, NOW)
    assert "breadth = all" in note
    assert read_rule({**stored, "version": rule.version}, PIPELINE) == rule
    for edited in ({"status": "INVALID"}, {"version": "another"}):
        with pytest.raises(RuleRefused, match="breadth"):
            read_rule({**stored, **edited}, PIPELINE)
