"""What an on-call engineer may type into the rules table, and what it then does."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.rules.rule import DEFAULT_PRIORITY, Action, Rule, RuleMode, RuleRefused, read_rule
from deadletter.rules.rulebook import NO_MATCH, Match, RefusedRule, RuleBook, read_rules
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from tests.samples import NOW, json_values

PIPELINE = Pipeline(
    "orders",
    context={"tenantId": "body.tenantId", "messageType": "body.type"},
    dedicated=("slow", "bulk"),
    policies={"gold": RetryPolicy()},
)
GONE: Any = object()


def item(rule_id: Any = "r", **columns: Any) -> dict[str, Any]:
    """A rule as the console stores it: HOLD tenant a, unless told otherwise."""
    columns = {"pipeline": "orders", "action": "HOLD", "tenantId": "a", **columns}
    whole = {"rule_id": rule_id, **columns}
    return {name: value for name, value in whole.items() if value is not GONE}


def document(tenant: str = "a", **more: Any) -> Mapping[str, Any]:
    return {"pipeline": "orders", "context": {"tenantId": tenant}, **more}


def book(*items: Mapping[str, Any]) -> RuleBook:
    return read_rules(items, PIPELINE)


def first(*items: Mapping[str, Any], tenant: str = "a", **matches: int) -> Match:
    return book(*items).first(document(tenant), NOW, matches)


def spoken(match: Match) -> str | None:
    return match.rule.rule_id if match.rule else None


# What a rule may say.


def test_a_tenant_and_an_action_are_a_whole_rule() -> None:
    assert read_rule({"rule_id": "r", "tenantId": "a", "action": "QUARANTINE"}, PIPELINE) == Rule(
        "r", "*", Action.QUARANTINE, {"context": {"tenantId": ["a"]}}
    )


def test_a_rule_says_everything() -> None:
    found = read_rule(
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
    assert found == Rule(
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
def test_so_may_a_mode(typed: str) -> None:
    assert read_rule(item(mode=typed), PIPELINE).mode is RuleMode.SHADOW


@pytest.mark.parametrize("number", [7, 7.0, Decimal(7), "7", " 7 ", "7.0", "7e0"])
def test_a_number_may_be_typed_as_text(number: Any) -> None:
    rule = read_rule(
        item(action="DELAYED_REDRIVE", priority=number, max_matches=number, delay_seconds=number),
        PIPELINE,
    )
    assert (rule.priority, rule.max_matches, rule.delay_seconds) == (7, 7, 7.0)
    assert type(rule.priority) is int


@pytest.mark.parametrize("seconds", [0, 0.5, 604_800])
def test_a_delay_may_be_nothing_or_as_long_as_the_pipeline_allows(seconds: float) -> None:
    rule = read_rule(item(action="DELAYED_REDRIVE", delay_seconds=seconds), PIPELINE)
    assert rule.delay_seconds == seconds


@pytest.mark.parametrize(
    ("typed", "enabled"), [(True, True), (False, False), ("TRUE", True), (" false ", False)]
)
def test_a_switch_may_be_typed_as_text(typed: Any, enabled: bool) -> None:
    assert read_rule(item(enabled=typed), PIPELINE).enabled is enabled


@pytest.mark.parametrize(
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
def test_an_end_is_epoch_seconds_or_iso_and_utc_unless_it_says_otherwise(
    typed: Any, moment: float
) -> None:
    assert read_rule(item(expires_at=typed), PIPELINE).expires_at == moment


@pytest.mark.parametrize("value", ["a", 5, Decimal(5), 1.5, True, ""])
def test_shorthand_is_an_exact_match_on_the_context(value: Any) -> None:
    rule = read_rule(item(tenantId=value, messageType="order"), PIPELINE)
    assert rule.pattern == {"context": {"tenantId": [value], "messageType": ["order"]}}


def test_shorthand_joins_a_pattern_on_another_context() -> None:
    rule = read_rule(item(pattern={"context": {"messageType": ["order"]}}), PIPELINE)
    assert rule.pattern == {"context": {"messageType": ["order"], "tenantId": ["a"]}}


def test_a_pattern_may_be_a_map_of_dynamodb() -> None:
    stored = {
        "redrive": {"attempt": [{"numeric": [">", Decimal(2)]}]},
        "body": {"x": [Decimal("1.5")]},
    }
    rule = read_rule(item(pattern=stored, tenantId=GONE), PIPELINE)
    assert rule.pattern == {"redrive": {"attempt": [{"numeric": [">", 2]}]}, "body": {"x": [1.5]}}


# What it may not, and the sentence that says so.

ACTIONS = "QUARANTINE, DELAYED_REDRIVE, DEDICATED_DLQ, HOLD, DEFAULT"
FIELDS = (
    "action, checked_at, created_by, delay_seconds, enabled, expires_at, max_matches, "
    "messageType, mode, pattern, pipeline, policy, priority, queue, reason, rule_id, status, "
    "status_reason, tenantId, ticket"
)
NO_END = "expires_at must be epoch seconds or an ISO 8601 time"
NO_PATTERN = "a rule needs a pattern or a context column, such as tenantId"
NOT_PLAIN = "a pattern holds text, numbers, true, false, null, lists and maps only"


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"rule_id": GONE}, "rule_id must be text"),
        ({"rule_id": ""}, "rule_id must be text"),
        ({"rule_id": Decimal(7)}, "rule_id must be text"),
        ({"tenant": "a"}, f"unknown field 'tenant'; allowed are {FIELDS}"),
        ({"action": GONE}, f"action None is unknown; allowed are {ACTIONS}"),
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
        ({"max_matches": -1}, "max_matches must be at least 0"),
        ({"max_matches": "2.5"}, "max_matches must be a whole number"),
        ({"enabled": "yes"}, "enabled must be true or false"),
        ({"enabled": 1}, "enabled must be true or false"),
        ({"action": "DELAYED_REDRIVE"}, "DELAYED_REDRIVE needs delay_seconds"),
        ({"action": "DEDICATED_DLQ"}, "DEDICATED_DLQ needs queue"),
        ({"delay_seconds": 5}, "delay_seconds goes with DELAYED_REDRIVE only"),
        ({"queue": "slow"}, "queue goes with DEDICATED_DLQ only"),
        (
            {"action": "DELAYED_REDRIVE", "delay_seconds": -1},
            "delay_seconds -1 is out of range; allowed are 0 to 604800",
        ),
        (
            {"action": "DELAYED_REDRIVE", "delay_seconds": "604801"},
            "delay_seconds 604801 is out of range; allowed are 0 to 604800",
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
            "queue 'dlq' is where the letter is already",
        ),
        (
            {"action": "DEDICATED_DLQ", "queue": "s" * 1_000},
            f"queue '{'s' * 78}… is unknown; allowed are bulk, slow",
        ),
        ({"policy": "silver"}, "policy 'silver' is unknown; allowed are gold"),
        ({"expires_at": "tomorrow"}, NO_END),
        ({"expires_at": ""}, NO_END),
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
        ({"reason": "x" * 1_025}, "reason is longer than 1024 characters"),
        ({"ticket": "x" * 1_025}, "ticket is longer than 1024 characters"),
        ({"tenantId": "x" * 32_769}, "the rule is longer than 32768 characters"),
        ({"x" * 100: 1}, f"unknown field '{'x' * 78}…; allowed are {FIELDS}"),
    ],
)
def test_a_rule_that_is_none_says_why_in_one_sentence(columns: dict[str, Any], why: str) -> None:
    wrong = item(**columns)
    with pytest.raises(RuleRefused) as found:
        read_rule(wrong, PIPELINE)
    assert str(found.value) == why
    # It matches nothing, says so, and its neighbour goes on.
    rules = book(wrong, item("fine"))
    assert rules.refused == (RefusedRule(str(wrong.get("rule_id", "?")), why),)
    assert spoken(rules.first(document(), NOW, {})) == "fine"


def test_the_verdict_written_onto_a_rule_does_not_count_against_it() -> None:
    read_rule(item(tenantId="x" * 32_000, status_reason="y" * 1_025), PIPELINE)


def test_a_pipeline_without_dedicated_queues_and_policies_says_so() -> None:
    bare = Pipeline("x", context=PIPELINE.context)
    for columns in ({"action": "DEDICATED_DLQ", "queue": "slow"}, {"policy": "gold"}):
        with pytest.raises(RuleRefused, match="allowed are none in this pipeline"):
            read_rule(item(**columns), bare)


@given(st.sampled_from([*item(), "pattern", "priority", "expires_at", "max_matches"]), json_values)
def test_no_item_breaks_the_rule_book(column: str, odd: Any) -> None:
    rules = book({**item(), column: odd}, item("fine", priority=10**6))
    assert "fine" in rules.rules
    assert len(rules.rules) + len(rules.refused) == 2


# Which rule speaks.


def test_a_rule_speaks_for_the_letters_it_matches_only() -> None:
    assert spoken(first(item())) == "r"
    assert first(item(), tenant="b") is NO_MATCH
    assert first() is NO_MATCH


def test_the_lowest_priority_speaks_first_then_the_pipelines_own_then_the_id() -> None:
    ordered = [
        item("z", priority=-1, pipeline="*"),
        item("y", priority=5),
        item("m", priority=5, pipeline="*"),
        item("a"),
        item("b", priority=DEFAULT_PRIORITY),
        item("0", pipeline="*"),
        item("1", pipeline="*"),
    ]
    for start in range(len(ordered)):
        rest = ordered[start:]
        for shuffled in (rest, rest[::-1], rest[1:] + rest[:1]):
            assert spoken(first(*shuffled)) == rest[0]["rule_id"]


def test_of_two_rules_with_one_id_the_first_in_order_holds() -> None:
    ours, everybodys = item(), item(pipeline="*", tenantId="b")
    for items in permutations((ours, everybodys)):
        rules = book(*items)
        assert rules.refused == (RefusedRule("r", "another rule with the same id comes first"),)
        assert spoken(rules.first(document("a"), NOW, {})) == "r"
        assert rules.first(document("b"), NOW, {}) is NO_MATCH


def test_a_disabled_rule_is_silent() -> None:
    assert first(item(enabled=False)) is NO_MATCH
    assert spoken(first(item(enabled=False), item("next", priority=200))) == "next"


def test_a_rule_ends_at_its_end_whatever_the_table_still_shows() -> None:
    rules = book(item(expires_at=NOW), item("next", priority=200))
    assert spoken(rules.first(document(), NOW - 0.001, {})) == "r"
    assert spoken(rules.first(document(), NOW, {})) == "next"


def test_a_rule_stops_after_its_last_allowed_match() -> None:
    limited = item(max_matches=3)
    assert spoken(first(limited, r=2)) == "r"
    assert first(limited, r=3) is NO_MATCH
    assert first(limited, r=4) is NO_MATCH
    assert first(item(max_matches=0)) is NO_MATCH
    assert read_rule(item(max_matches=0), PIPELINE).max_matches == 0
    assert book(limited, item("free")).limited == ("r",)


def test_a_rule_is_at_its_limit_only_while_nothing_else_silences_it() -> None:
    rules = book(
        item("spent", max_matches=1),
        item("fresh", max_matches=2),
        item("free"),
        item("off", max_matches=1, enabled=False),
        item("ended", max_matches=1, expires_at=NOW),
    )
    used = dict.fromkeys(("spent", "fresh", "free", "off", "ended"), 1)
    assert rules.at_limit(NOW, used) == ("spent",)
    assert rules.at_limit(NOW, {}) == ()


def test_a_shadow_rule_is_named_and_lets_the_next_one_speak() -> None:
    shadow = item("dry", mode="shadow", priority=1)
    assert first(shadow) == Match(None, ("dry",))
    both = first(shadow, item("real"), item("late", mode="shadow", priority=200))
    assert (spoken(both), both.shadows) == ("real", ("dry",))
    assert first(item("dry", mode="shadow", expires_at=NOW)) is NO_MATCH


def test_default_ends_the_search() -> None:
    match = first(item("end", action="DEFAULT", priority=1), item("later"))
    assert match.rule is not None
    assert match.rule.action is Action.DEFAULT


def test_a_letter_that_was_diverted_is_not_diverted_again() -> None:
    rules = book(item("isolate", action="DEDICATED_DLQ", queue="slow", priority=1), item("next"))
    assert spoken(rules.first(document(), NOW, {})) == "isolate"
    assert spoken(rules.first(document(), NOW, {}, diverted=True)) == "next"


def tried(
    *items: Mapping[str, Any], matches: Mapping[str, int] | None = None, diverted: bool = False
) -> dict[str, str]:
    trials = book(*items).explain(document(), NOW, matches or {}, diverted=diverted)
    return {one.rule_id: one.outcome for one in trials}


@given(st.lists(st.sampled_from([*PIPELINE.dedicated]), min_size=1, max_size=6))
def test_no_chain_of_dedicated_queues_can_be_a_loop_because_there_is_none(
    chain: list[str],
) -> None:
    # A letter is diverted once, out of the DLQ: whatever the rules, it goes no further.
    rules = book(
        *(item(str(n), action="DEDICATED_DLQ", queue=queue) for n, queue in enumerate(chain))
    )
    assert spoken(rules.first(document(), NOW, {})) == "0"
    assert rules.first(document(), NOW, {}, diverted=True) is NO_MATCH


def test_an_explanation_names_what_came_of_every_rule() -> None:
    isolate = item("isolate", action="DEDICATED_DLQ", queue="slow", priority=8)
    items = (
        item("typo", action="HODL"),
        item("off", enabled=False, priority=1),
        item("ended", expires_at=NOW, priority=2),
        item("spent", max_matches=1, priority=3),
        item("other", tenantId="b", priority=4),
        item("dry", mode="shadow", priority=5),
        item("speaks", priority=6),
        item("late", priority=7),
        isolate,
        item("late-dry", mode="shadow", priority=9),
    )
    assert tried(*items, matches={"spent": 1}) == {
        "typo": f"INVALID: action 'HODL' is unknown; allowed are {ACTIONS}",
        "off": "disabled",
        "ended": "expired",
        "spent": "has reached its max_matches",
        "other": "does not match",
        "dry": "would match, and only counts (shadow)",
        "speaks": "matches and speaks",
        "late": "matches, but an earlier rule speaks",
        "isolate": "matches, but an earlier rule speaks",
        "late-dry": "matches, but an earlier rule speaks",
    }
    assert tried(isolate) == {"isolate": "matches and speaks"}
    assert tried(isolate, diverted=True) == {"isolate": "does not apply in a dedicated DLQ"}


def test_an_explanation_says_what_a_pattern_missed_and_nothing_of_one_that_matched() -> None:
    either = {"$or": [{"body": {"x": [1]}}, {"context": {"tenantId": ["a"]}}]}
    rules = book(item("met", pattern=either, tenantId=GONE), item("missed", tenantId="b"))
    met, missed = rules.explain(document(), NOW, {})
    assert (met.outcome, met.missed) == ("matches and speaks", ())
    assert [one.path for one in missed.missed] == ["context.tenantId"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.booleans()), max_size=6))
def test_an_explanation_and_the_verdict_name_the_same_rule(
    drawn: list[tuple[int, str, bool]],
) -> None:
    rules = book(
        *(
            item(
                str(number), priority=priority, tenantId=tenant, mode="shadow" if dry else "enforce"
            )
            for number, (priority, tenant, dry) in enumerate(drawn)
        )
    )
    match = rules.first(document(), NOW, {})
    outcomes = {one.rule_id: one.outcome for one in rules.explain(document(), NOW, {})}
    speaks = [key for key, said in outcomes.items() if said == "matches and speaks"]
    shadows = [key for key, said in outcomes.items() if "(shadow)" in said]
    assert speaks == ([match.rule.rule_id] if match.rule else [])
    assert shadows == list(match.shadows)


def test_only_a_hold_that_is_in_force_keeps_letters_waiting() -> None:
    rules = book(
        item("holds"),
        item("ends", expires_at=NOW + 1),
        item("ended", expires_at=NOW),
        item("off", enabled=False),
        item("dry", mode="shadow"),
        item("parks", action="QUARANTINE"),
    )
    assert rules.holding(NOW) == ("ends", "holds")
    assert rules.holding(NOW + 1) == ("holds",)
