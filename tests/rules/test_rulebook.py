"""The rule that applies to a letter, and the explanation of every rule."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.rules import operators
from deadletter.rules.rule import DEFAULT_PRIORITY, Action, read_rule
from deadletter.rules.rulebook import NO_MATCH, Match, RefusedRule
from tests.each_row import each_row
from tests.rules.rule_items import ACTIONS, GONE, PIPELINE, book, document, item, rule_of
from tests.samples import NOW


def first(*items: Mapping[str, Any], tenant: str = "a", **matches: int) -> Match:
    return book(*items).first(document(tenant), NOW, matches)


# The rule that applies.


def test_a_rule_applies_only_to_letters_that_it_matches() -> None:
    assert rule_of(first(item())) == "r"
    assert first(item(), tenant="b") is NO_MATCH
    assert first() is NO_MATCH


def test_rules_are_ordered_by_priority_then_own_pipeline_then_id() -> None:
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
            assert rule_of(first(*shuffled)) == rest[0]["rule_id"]


def test_of_two_rules_with_one_id_the_first_in_order_counts() -> None:
    ours, shared = item(), item(pipeline="*", tenantId="b")
    for items in permutations((ours, shared)):
        rules = book(*items)
        why = "another rule with the same id comes first: that of the pipeline"
        assert rules.refused == (RefusedRule("r", why),)
        assert rule_of(rules.first(document("a"), NOW, {})) == "r"
        assert rules.first(document("b"), NOW, {}) is NO_MATCH


def test_a_disabled_rule_does_not_end_the_other_rule_of_its_id() -> None:
    own, shared = item(tenantId="b"), item(pipeline="*", tenantId="b")
    for off, on in (
        (item(enabled=False), shared),
        (item(pipeline="*", enabled=False, priority=1), own),
    ):
        for items in permutations((off, on)):
            rules = book(*items)
            assert rules.refused == ()
            assert rule_of(rules.first(document("b"), NOW, {})) == "r"
            assert rules.first(document("a"), NOW, {}) is NO_MATCH
            assert [rule.pipeline for rule in rules.switched_off] == [off.get("pipeline", "orders")]
            outcomes = [
                trial.outcome for trial in rules.explain(document("b"), NOW, {}, diverted=False)
            ]
            assert sorted(outcomes) == ["disabled", "matches and speaks"]


def test_of_two_disabled_rules_with_one_id_none_is_refused() -> None:
    rules = book(item(enabled=False), item(pipeline="*", enabled=False))
    assert (rules.refused, len(rules.switched_off)) == ((), 1)
    assert rules.first(document("a"), NOW, {}) is NO_MATCH


def test_a_disabled_rule_does_not_apply() -> None:
    assert first(item(enabled=False)) is NO_MATCH
    assert rule_of(first(item(enabled=False), item("next", priority=200))) == "next"


def test_a_rule_that_raises_while_it_is_read_is_refused_and_the_others_apply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operator may raise an error of its own, whose text may be what was typed."""

    def fails(where: str, operand: Any) -> Any:
        raise OverflowError(operand)

    monkeypatch.setitem(cast(Any, operators._OPERATORS), "cidr", fails)
    odd = item("odd", tenantId=GONE, pattern={"body": {"ip": [{"cidr": "10.9.8.7/8"}]}})
    rules = book(odd, item("next", priority=200))
    assert [(each.rule_id, each.why, each.gist) for each in rules.refused] == [
        ("odd", "it can't be understood", "it can't be understood")
    ]
    assert rule_of(rules.first(document(), NOW, {})) == "next"


def test_an_expired_rule_does_not_apply_while_its_row_still_exists() -> None:
    rules = book(item(expires_at=NOW), item("next", priority=200))
    assert rule_of(rules.first(document(), NOW - 0.001, {})) == "r"
    assert rule_of(rules.first(document(), NOW, {})) == "next"


def test_a_thousand_rules_that_are_on_are_tried_and_the_others_refused() -> None:
    rows = [item(f"{n:04}", priority=n, tenantId=f"t{n}") for n in range(1_002)]
    rules = book(*rows[::-1], item("off", enabled=False))
    why = "it comes after 1,000 rules that are on, and more are not tried"
    assert rules.refused == (RefusedRule("1000", why), RefusedRule("1001", why))
    assert rule_of(rules.first(document("t999"), NOW, {})) == "0999"
    assert rules.first(document("t1000"), NOW, {}) is NO_MATCH
    rows[0]["enabled"] = False
    assert [rule.rule_id for rule in book(*rows).refused] == ["1001"]


def test_a_rule_stops_after_its_last_allowed_match() -> None:
    limited = item(max_matches=3)
    assert rule_of(first(limited, r=2)) == "r"
    assert first(limited, r=3) is NO_MATCH
    assert first(limited, r=4) is NO_MATCH
    assert rule_of(first(item(max_matches=1))) == "r"
    version = read_rule(limited, PIPELINE).version
    assert book(limited, item("free")).limited == {"r": f"r#{version}"}


def test_a_rule_is_at_its_limit_only_if_it_would_be_in_force() -> None:
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


def test_rules_of_all_pipelines_are_told_from_those_of_one() -> None:
    rules = book(item("everywhere", pipeline="*"), item("here"), item("other", pipeline="*"))
    assert rules.of_all_pipelines(["here", "everywhere"]) == ("everywhere",)
    assert rules.of_all_pipelines(["here"]) == ()


def test_a_shadow_rule_is_named_and_the_next_one_applies() -> None:
    shadow = item("dry", mode="shadow", priority=1)
    assert first(shadow) == Match(None, ("dry",))
    both = first(shadow, item("real"), item("late", mode="shadow", priority=200))
    assert (rule_of(both), both.shadows) == ("real", ("dry",))
    assert first(item("dry", mode="shadow", expires_at=NOW)) is NO_MATCH


def test_default_ends_the_search() -> None:
    match = first(item("end", action="DEFAULT", priority=1), item("later"))
    assert match.rule is not None
    assert match.rule.action is Action.DEFAULT


def test_a_letter_that_was_diverted_is_not_diverted_again() -> None:
    rules = book(item("isolate", action="DEDICATED_DLQ", queue="slow", priority=1), item("next"))
    assert rule_of(rules.first(document(), NOW, {})) == "isolate"
    assert rule_of(rules.first(document(), NOW, {}, diverted=True)) == "next"


def tried(
    *items: Mapping[str, Any], matches: Mapping[str, int] | None = None, diverted: bool = False
) -> dict[str, str]:
    trials = book(*items).explain(document(), NOW, matches or {}, diverted=diverted)
    return {trial.rule_id: trial.outcome for trial in trials}


@given(st.lists(st.sampled_from([*PIPELINE.dedicated]), min_size=1, max_size=6))
def test_a_diverted_letter_is_never_diverted_again_so_there_is_no_loop(
    chain: list[str],
) -> None:
    # A letter is diverted once, out of the main DLQ, by any rules.
    rules = book(
        *(item(str(n), action="DEDICATED_DLQ", queue=queue) for n, queue in enumerate(chain))
    )
    assert rule_of(rules.first(document(), NOW, {})) == "0"
    assert rules.first(document(), NOW, {}, diverted=True) is NO_MATCH


def test_an_explanation_names_the_outcome_of_every_rule() -> None:
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


def test_an_explanation_lists_missed_fields_only_of_patterns_that_did_not_match() -> None:
    either = {"$or": [{"body": {"x": [1]}}, {"context": {"tenantId": ["a"]}}]}
    rules = book(item("met", pattern=either, tenantId=GONE), item("missed", tenantId="b"))
    met, missed = rules.explain(document(), NOW, {}, diverted=False)
    assert (met.outcome, met.missed) == ("matches and speaks", ())
    assert [finding.path for finding in missed.missed] == ["context.tenantId"]


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
    trials = rules.explain(document(), NOW, {}, diverted=False)
    outcomes = {trial.rule_id: trial.outcome for trial in trials}
    winners = [key for key, text in outcomes.items() if text == "matches and speaks"]
    shadows = [key for key, text in outcomes.items() if "(shadow)" in text]
    assert winners == ([match.rule.rule_id] if match.rule else [])
    assert shadows == list(match.shadows)


def test_only_a_hold_rule_in_force_is_holding() -> None:
    rules = book(
        item("holds"),
        item("ends", expires_at=NOW + 1),
        item("ended", expires_at=NOW),
        item("off", enabled=False),
        item("dry", mode="shadow"),
        item("parks", action="QUARANTINE"),
    )
    assert rules.holding(NOW, {}) == ("ends", "holds")
    assert rules.holding(NOW + 1, {}) == ("holds",)


def test_a_hold_rule_at_its_limit_is_not_holding_as_if_it_were_disabled() -> None:
    rules = book(item("limited", max_matches=3))
    assert rules.holding(NOW, {"limited": 2}) == ("limited",)
    assert rules.holding(NOW, {"limited": 3}) == ()


# The edition of the rules.

_RULES = (
    item("stop", expires_at=NOW + 60),
    item("limited", tenantId="b", max_matches=2),
    item("off", tenantId="c", enabled=False),
    item("dry", tenantId="d", mode="shadow"),
)


def edition(*items: Mapping[str, Any], now: float = NOW, **matches: int) -> str:
    return book(*items).edition(now, matches)


@each_row(
    "edited",
    [
        item("stop", tenantId="z", expires_at=NOW + 60),
        item("stop", expires_at=NOW + 60, action="QUARANTINE"),
        item("stop", expires_at=NOW + 60, priority=5),
        item("stop", expires_at=NOW + 60, enabled=False),
        item("stop", expires_at=NOW + 60, mode="shadow"),
        item("stop", expires_at=NOW + 60, pipeline="*"),
        item("stop", expires_at=NOW + 60, action="HOLDD"),
        item("stop", expires_at=NOW),
    ],
    ids=["messages", "action", "order", "switched off", "shadow", "moved", "invalid", "ended"],
)
def test_another_edition_begins_with_each_edit_that_matters(edited: Mapping[str, Any]) -> None:
    before = edition(*_RULES)
    assert edition(edited, *_RULES[1:]) != before
    assert edition(*_RULES[1:]) != before
    assert edition(*_RULES, item("new", tenantId="e", action="DEFAULT")) != before
    assert edition(*_RULES[::-1]) == before


def test_another_edition_begins_when_a_rule_ends_or_has_used_up_its_matches() -> None:
    rules = book(*_RULES)
    now = rules.edition(NOW, {})
    assert rules.edition(NOW + 59, {"limited": 1}) == now
    later = {rules.edition(NOW + 60, {}), rules.edition(NOW, {"limited": 2})}
    assert len(later | {now}) == 3
    assert rules.edition(NOW, {}) == now


def test_notes_and_rules_that_do_not_act_are_of_no_edition() -> None:
    before = edition(*_RULES)
    noted = [{**rule, "reason": "another", "created_by": "b"} for rule in _RULES]
    assert edition(*noted) == before
    dry = item("dry", tenantId="q", mode="shadow")
    off = item("off", tenantId="q", enabled=False)
    assert edition(*_RULES[:2], dry, off) == before
