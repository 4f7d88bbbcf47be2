"""The rows that are valid rules, and the reasons why others are refused."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.rules.rule import Action, Rule, RuleMode, RuleRefused, read_rule
from deadletter.rules.rulebook import RefusedRule
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.rules.rule_items import ACTIONS, GONE, PIPELINE, book, document, item, rule_of
from tests.samples import NOW, json_values

# The version of a rule.


@each_row(
    "edited",
    [
        {"action": "QUARANTINE"},
        {"tenantId": "b"},
        {"pattern": '{"body": {"x": [1]}}'},
        {"policy": "gold"},
        {"max_matches": 5},
        {"action": "DELAYED_REDRIVE", "delay_seconds": 60},
        {"action": "DEDICATED_DLQ", "queue": "slow"},
        {"action": "THROTTLE", "rate": 1},
    ],
    ids=lambda edited: ", ".join(edited),
)
def test_an_edit_of_what_a_rule_does_gives_another_version(edited: dict[str, Any]) -> None:
    assert read_rule(item(**edited), PIPELINE).version != read_rule(item(), PIPELINE).version


@each_row(
    "edited",
    [
        {"rule_id": "other"},
        {"enabled": False},
        {"mode": "shadow"},
        {"priority": 7},
        {"expires_at": NOW},
        {"reason": "another", "ticket": "T-1", "created_by": "me"},
        {"action": " hold "},
        {"tenantId": GONE, "pattern": '{"context": {"tenantId": ["a"]}}'},
    ],
    ids=lambda edited: ", ".join(edited),
)
def test_another_edit_leaves_the_version_of_a_rule(edited: dict[str, Any]) -> None:
    assert read_rule(item(**edited), PIPELINE).version == read_rule(item(), PIPELINE).version


# Valid rules.


def test_a_tenant_and_an_action_are_a_complete_rule() -> None:
    assert read_rule({"rule_id": "r", "tenantId": "a", "action": "QUARANTINE"}, PIPELINE) == Rule(
        "r", "*", Action.QUARANTINE, {"context": {"tenantId": ["a"]}}, priority=100
    )


def test_every_column_of_a_rule_is_read() -> None:
    rule = read_rule(
        item(
            action="DELAYED_REDRIVE",
            delay_seconds=Decimal("90.5"),
            pattern='{"failure": {"http_status": [{"numeric": [">=", 500]}]}}',
            priority=Decimal(5),
            enabled=False,
            mode="shadow",
            policy="gold",
            expires_at="2026-11-20T12:00:00Z",
            max_matches=Decimal(10),
            created_by="ann",
            reason="flood",
            ticket="OPS-1",
            status="valid",
            status_reason="",
            checked_at=Decimal(1),
        ),
        PIPELINE,
    )
    assert rule == Rule(
        "r",
        "orders",
        Action.DELAYED_REDRIVE,
        {
            "failure": {"http_status": [{"numeric": [">=", 500]}]},
            "context": {"tenantId": ["a"]},
        },
        priority=5,
        enabled=False,
        mode=RuleMode.SHADOW,
        delay_seconds=90.5,
        policy="gold",
        expires_at=1_795_176_000.0,
        max_matches=10,
    )


@pytest.mark.parametrize("typed", ["QUARANTINE", "quarantine", " Quarantine ", "qUARANTINE\n"])
def test_an_action_may_be_typed_in_any_case(typed: str) -> None:
    assert read_rule(item(action=typed), PIPELINE).action is Action.QUARANTINE


@pytest.mark.parametrize("typed", ["shadow", "SHADOW", " Shadow"])
def test_a_mode_may_be_typed_in_any_case(typed: str) -> None:
    assert read_rule(item(mode=typed), PIPELINE).mode is RuleMode.SHADOW


@each_row("number", [7, 7.0, Decimal(7), "7", " 7 ", "7.0", "7e0"])
def test_a_number_may_be_typed_as_text(number: Any) -> None:
    rule = read_rule(
        item(action="DELAYED_REDRIVE", priority=number, max_matches=number, delay_seconds=number),
        PIPELINE,
    )
    assert (rule.priority, rule.max_matches, rule.delay_seconds) == (7, 7, 7.0)
    assert type(rule.priority) is int


@pytest.mark.parametrize("seconds", [0, 0.5, 604_800])
def test_a_delay_is_zero_to_the_pipelines_maximum(seconds: float) -> None:
    rule = read_rule(item(action="DELAYED_REDRIVE", delay_seconds=seconds), PIPELINE)
    assert rule.delay_seconds == seconds


@pytest.mark.parametrize(
    ("typed", "enabled"), [(True, True), (False, False), ("TRUE", True), (" false ", False)]
)
def test_a_boolean_may_be_typed_as_text(typed: Any, enabled: bool) -> None:
    assert read_rule(item(enabled=typed), PIPELINE).enabled is enabled


@each_row(
    ("typed", "moment"),
    [
        (1_790_000_000, 1_790_000_000.0),
        (Decimal("1790000000.5"), 1_790_000_000.5),
        ("1790000000", 1_790_000_000.0),
        (" 1790000000.5 ", 1_790_000_000.5),
        ("2026-11-20T12:00:00Z", 1_795_176_000.0),
        ("2026-11-20T13:00:00+01:00", 1_795_176_000.0),
        ("2026-11-20T12:00:00", 1_795_176_000.0),
        ("2026-11-20 12:00", 1_795_176_000.0),
        ("2026-11-20", 1_795_132_800.0),
    ],
)
def test_an_expiry_is_epoch_seconds_or_iso_8601_in_utc_by_default(
    typed: Any, moment: float
) -> None:
    assert read_rule(item(expires_at=typed), PIPELINE).expires_at == moment


@each_row(
    ("typed", "means"),
    [
        ("a", ["a"]),
        (" a\n", ["a"]),
        (True, [True]),
        ("true", ["true"]),
        ("", [""]),
        # A number and its text are typed alike, and letters have either.
        (5, [5, "5"]),
        (Decimal(5), [5, "5"]),
        (1.5, [1.5, "1.5"]),
        ("42", ["42", 42]),
        ("1.5", ["1.5", 1.5]),
        ("007", ["007"]),
        ("4e2000", ["4e2000"]),
    ],
)
def test_shorthand_is_an_exact_match_on_the_context(typed: Any, means: list[Any]) -> None:
    rule = read_rule(item(tenantId=typed, messageType="order"), PIPELINE)
    assert rule.pattern == {"context": {"tenantId": means, "messageType": ["order"]}}


def test_shorthand_joins_a_pattern_on_another_context() -> None:
    rule = read_rule(item(pattern={"context": {"messageType": ["order"]}}), PIPELINE)
    assert rule.pattern == {"context": {"messageType": ["order"], "tenantId": ["a"]}}


def test_a_pattern_may_be_a_dynamodb_map() -> None:
    stored = {
        "redrive": {"attempt": [{"numeric": [">", Decimal(2)]}]},
        "body": {"x": [Decimal("1.5")]},
    }
    rule = read_rule(item(pattern=stored, tenantId=GONE), PIPELINE)
    assert rule.pattern == {"redrive": {"attempt": [{"numeric": [">", 2]}]}, "body": {"x": [1.5]}}


# Invalid rules, and the sentence that says why.

FIELDS = (
    "action, breadth, checked_at, created_by, delay_seconds, enabled, expires_at, "
    "max_matches, messageType, mode, pattern, pipeline, policy, priority, queue, rate, reason, "
    "rule_id, status, status_reason, tenantId, ticket, version"
)
NOT_AN_ID = "rule_id must be at most 200 bytes of printable characters without |"
NO_END = "expires_at must be epoch seconds or an ISO 8601 time"
NO_PATTERN = "a rule needs a pattern or a context column, such as tenantId"
NOT_PLAIN = "a pattern holds text, numbers, true, false, null, lists and maps only"


@each_row(
    ("columns", "why"),
    [
        ({"rule_id": GONE}, "rule_id must be text"),
        ({"rule_id": ""}, "rule_id must be text"),
        ({"rule_id": Decimal(7)}, "rule_id must be text"),
        ({"rule_id": "x" * 201}, NOT_AN_ID),
        ({"rule_id": "\u00e9" * 101}, NOT_AN_ID),
        ({"rule_id": "a|b"}, NOT_AN_ID),
        ({"rule_id": "a\nb"}, NOT_AN_ID),
        ({"tenant": "a"}, f"unknown field 'tenant'; did you mean tenantId? allowed are {FIELDS}"),
        ({"action": GONE}, f"action is missing; allowed are {ACTIONS}"),
        ({"action": "DELETE"}, f"action 'DELETE' is unknown; allowed are {ACTIONS}"),
        ({"action": ""}, f"action '' is unknown; allowed are {ACTIONS}"),
        ({"action": True}, f"action True is unknown; allowed are {ACTIONS}"),
        ({"mode": "dry"}, "mode 'dry' is unknown; allowed are enforce, shadow"),
        ({"mode": 1}, "mode 1 is unknown; allowed are enforce, shadow"),
        ({"priority": "soon"}, "priority must be a number"),
        ({"priority": True}, "priority must be a number"),
        ({"priority": [1]}, "priority must be a number"),
        ({"priority": 1.5}, "priority must be a whole number"),
        ({"priority": "1e999"}, "priority must be a finite number"),
        ({"priority": "nan"}, "priority must be a finite number"),
        ({"priority": Decimal("Infinity")}, "priority must be a finite number"),
        ({"priority": 10**400}, "priority must be a finite number"),
        ({"max_matches": -1}, "max_matches must be at least 1"),
        ({"max_matches": "2.5"}, "max_matches must be a whole number"),
        ({"enabled": "yes"}, "enabled must be true or false"),
        ({"enabled": 1}, "enabled must be true or false"),
        ({"action": "DELAYED_REDRIVE"}, "DELAYED_REDRIVE needs delay_seconds"),
        ({"action": "DEDICATED_DLQ"}, "DEDICATED_DLQ needs queue"),
        ({"delay_seconds": 5}, "delay_seconds goes with DELAYED_REDRIVE only"),
        ({"queue": "slow"}, "queue goes with DEDICATED_DLQ only"),
        (
            {"action": "DELAYED_REDRIVE", "delay_seconds": -1},
            "delay_seconds -1 is out of range; allowed are 0 to 1036800 (12 d)",
        ),
        (
            {"action": "DELAYED_REDRIVE", "delay_seconds": "1036801"},
            "delay_seconds 1036801 (12 d) is out of range; allowed are 0 to 1036800 (12 d)",
        ),
        (
            {"action": "DELAYED_REDRIVE", "delay_seconds": "1 h"},
            "delay_seconds must be a number",
        ),
        (
            {"action": "DEDICATED_DLQ", "queue": "https://sqs/x"},
            "queue 'https://sqs/x' is unknown; allowed are bulk, slow",
        ),
        (
            {"action": "DEDICATED_DLQ", "queue": "dlq"},
            "queue 'dlq' is where the message is already",
        ),
        (
            {"action": "DEDICATED_DLQ", "queue": "s" * 1_000},
            f"queue '{'s' * 78}… is unknown; allowed are bulk, slow",
        ),
        ({"policy": "silver"}, "policy 'silver' is unknown; allowed are gold"),
        # Without an end, at all times, of all matches: a default does far more.
        *(
            ({column: None}, f"{column} is null: it needs a value, or no such field")
            for column in ("expires_at", "max_matches", "mode", "reason")
        ),
        ({"expires_at": "tomorrow"}, NO_END),
        ({"expires_at": ""}, NO_END),
        ({"expires_at": "20.11.2026"}, NO_END),
        # Read as seconds it would have ended in 1970, and milliseconds would never end.
        ({"expires_at": "20261120"}, NO_END),
        ({"expires_at": 1_790_000_000_000}, NO_END),
        ({"expires_at": -1}, NO_END),
        ({"expires_at": True}, "expires_at must be a number"),
        ({"tenantId": GONE}, NO_PATTERN),
        ({"tenantId": GONE, "pattern": {}}, NO_PATTERN),
        ({"tenantId": GONE, "pattern": "{}"}, NO_PATTERN),
        ({"tenantId": ["a"]}, "tenantId must be one text, number or boolean"),
        ({"tenantId": None}, "tenantId must be one text, number or boolean"),
        ({"tenantId": {"a", "b"}}, NOT_PLAIN),
        ({"tenantId": b"a"}, NOT_PLAIN),
        (
            {"pattern": {"context": {"tenantId": ["b"]}}},
            "a column and the pattern name the same context",
        ),
        ({"pattern": "{"}, "pattern is not readable: not JSON at line 1 column 2"),
        (
            {"pattern": '{"body": {"a": [1]}, "body": {"a": [2]}}'},
            "pattern is not readable: a key appears twice in one object",
        ),
        ({"pattern": "[1]"}, "pattern must be an event pattern, a JSON object"),
        ({"pattern": 5}, "pattern must be an event pattern, a JSON object"),
        ({"pattern": {"body": {"a": [b"x"]}}}, NOT_PLAIN),
        (
            {"pattern": {"body": {"a": "x"}}},
            'pattern refused: body.a: "x" is neither a list nor an object; write ["x"]',
        ),
        ({"pattern": "x" * 16_385}, "pattern is longer than 16384 characters"),
        ({"pattern": {"body": {"a": ["x" * 16_385]}}}, "pattern is longer than 16384 characters"),
        ({"pattern": '{"a":' * 600 + "[1]" + "}" * 600}, "pattern is nested too deep"),
        (
            {"pattern": '{"a":' + "[" * 8_000 + "]" * 8_000 + "}"},
            "pattern is not readable: nested too deep",
        ),
        ({"reason": "x" * 1_025}, "reason is longer than 1024 characters"),
        ({"ticket": "x" * 1_025}, "ticket is longer than 1024 characters"),
        ({"tenantId": "x" * 32_769}, "the rule is longer than 32768 characters"),
        ({"x" * 100: 1}, f"unknown field '{'x' * 78}…; allowed are {FIELDS}"),
    ],
)
def test_an_invalid_rule_is_refused_with_one_sentence(columns: dict[str, Any], why: str) -> None:
    wrong = item(**columns)
    with pytest.raises(RuleRefused) as refused:
        read_rule(wrong, PIPELINE)
    said = str(refused.value)
    # Pythons differ in how deep is too deep to be read, and then the pattern itself is.
    assert said == why or ("too deep" in why and "deep" in said)
    # It matches nothing, is reported, and the other rules still apply.
    rules = book(wrong, item("fine"))
    assert rules.refused == (RefusedRule(str(wrong.get("rule_id", "?")), said),)
    assert rule_of(rules.first(document(), NOW, {})) == "fine"


@pytest.mark.parametrize("typed", [1e9, "1000000000", 99_999_999_999, "99999999999.9"])
def test_an_expiry_lies_between_2001_and_5138(typed: Any) -> None:
    assert read_rule(item(expires_at=typed), PIPELINE).expires_at == float(typed)


@pytest.mark.parametrize("typed", [999_999_999, "999999999.9", 1e11, "100000000000"])
def test_an_expiry_before_2001_or_from_5138_is_a_mistake(typed: Any) -> None:
    with pytest.raises(RuleRefused, match="expires_at must be epoch seconds"):
        read_rule(item(expires_at=typed), PIPELINE)


def test_a_rule_may_be_as_long_as_its_limits() -> None:
    read_rule(item(reason="x" * 1_024, ticket="x" * 1_024), PIPELINE)
    text = '{"body": {"a": ["' + "x" * 16_363 + '"]}}'
    assert len(text) == 16_384
    read_rule(item(pattern=text), PIPELINE)
    read_rule(item(pattern=json.loads(text)), PIPELINE)
    longer: dict[str, Any] = {"body": {"a": ["x" * 16_364]}}
    with pytest.raises(RuleRefused, match="pattern is longer than 16384 characters"):
        read_rule(item(pattern=longer), PIPELINE)


def test_all_columns_together_have_32768_characters_at_most() -> None:
    bare = item(tenantId="")
    room = 32_768 - sum(len(name) + len(str(value)) for name, value in bare.items())
    read_rule(item(tenantId="x" * room), PIPELINE)
    with pytest.raises(RuleRefused, match="the rule is longer than 32768 characters"):
        read_rule(item(tenantId="x" * (room + 1)), PIPELINE)


def test_a_reason_of_1024_characters_is_not_cut() -> None:
    assert str(RuleRefused("x" * 1_024)) == "x" * 1_024
    assert str(RuleRefused("x" * 1_025)) == "x" * 1_023 + "…"


def test_what_was_typed_is_quoted_up_to_80_characters() -> None:
    for typed, quote in (("s" * 78, f"'{'s' * 78}'"), ("s" * 79, f"'{'s' * 78}…")):
        with pytest.raises(RuleRefused) as refused:
            read_rule(item(policy=typed), PIPELINE)
        assert str(refused.value) == f"policy {quote} is unknown; allowed are gold"


def test_a_rule_nested_deeper_than_can_be_read_is_refused() -> None:
    deep: Any = [1]
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RuleRefused, match="nested too deep"):
        read_rule(item(pattern={"body": {"a": deep}}), PIPELINE)


def test_the_verdict_on_a_rule_does_not_count_towards_its_length() -> None:
    read_rule(item(tenantId="x" * 32_000, status_reason="y" * 1_025), PIPELINE)


def test_the_reason_says_that_a_pipeline_has_no_queues_or_policies() -> None:
    bare = Pipeline("x", context=PIPELINE.context)
    for columns in ({"action": "DEDICATED_DLQ", "queue": "slow"}, {"policy": "gold"}):
        with pytest.raises(RuleRefused, match="allowed are none in this pipeline"):
            read_rule(item(**columns), bare)


@given(st.sampled_from([*item(), "pattern", "priority", "expires_at", "max_matches"]), json_values)
def test_no_invalid_item_breaks_the_rule_book(column: str, odd: Any) -> None:
    rules = book({**item(), column: odd}, item("fine", priority=10**6))
    assert "fine" in rules.rules
    assert len(rules.rules) + len(rules.refused) == 2


@pytest.mark.parametrize(("enabled", "disabled"), [(False, True), ("false", True), (True, False)])
def test_an_invalid_rule_says_whether_a_person_has_disabled_it(
    enabled: object, disabled: bool
) -> None:
    wrong = item("wrong", action="QUARANTENE", enabled=enabled)
    (refused,) = book(wrong).refused
    assert refused.disabled is disabled


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "sNaN"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    for columns in ({"tenantId": Decimal(number)}, {"pattern": {"body": {"a": [Decimal(number)]}}}):
        with pytest.raises(RuleRefused, match="finite numbers only"):
            read_rule(item(**columns), PIPELINE)
