"""Each edit of the rules table is judged once, told to whom it concerns, and kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.rules.checker import (
    CheckedBatch,
    CheckUnavailable,
    RuleChange,
    RuleChecker,
    RuleEdit,
    RuleFinding,
    RuleRefusal,
    RuleStatus,
    RuleVerdict,
    check,
    pipeline_from_terms,
)
from deadletter.rules.rule import COLUMNS, VERDICT
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from tests.samples import NOW

ORDERS = Pipeline("orders", context={"tenantId": ""}, dedicated=("slow",), max_delay=60.0)
REFUNDS = Pipeline("refunds", context={"customer": ""})
PIPELINES = {"orders": ORDERS, "refunds": REFUNDS}
UNKNOWN_ACTION = "is unknown; allowed are QUARANTINE, DELAYED_REDRIVE, DEDICATED_DLQ, HOLD, DEFAULT"


def rule(**columns: Any) -> dict[str, Any]:
    keys = {"pipeline": "orders", "rule_id": "r", "tenantId": "a", "action": "HOLD"}
    return {**keys, **columns}


def edit(
    new: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None = None,
    sequence: str = "1",
    pipeline: str = "orders",
) -> RuleEdit:
    return RuleEdit(sequence, f"event-{sequence}", NOW, pipeline, "r", old, new)


def judged(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> RuleFinding:
    return check(edit(new, old, pipeline=new["pipeline"]), PIPELINES, NOW)


def verdict(found: RuleFinding) -> tuple[str, str | None]:
    assert found.verdict is not None
    return found.verdict.status, found.verdict.reason


def written(found: RuleFinding, item: Mapping[str, Any]) -> dict[str, Any]:
    """The item as it stands when the verdict has been written onto it."""
    assert found.verdict is not None
    columns = {"status": str(found.verdict.status), "checked_at": found.verdict.at}
    if found.verdict.reason is not None:
        columns["status_reason"] = found.verdict.reason
    return {**{name: one for name, one in item.items() if name not in VERDICT}, **columns}


# The verdict.


def test_a_new_rule_that_is_one_is_valid_and_nobody_is_told() -> None:
    found = judged(rule())
    assert found.verdict == RuleVerdict(
        "orders",
        "r",
        rule(),
        tuple(sorted(COLUMNS - rule().keys())),
        RuleStatus.VALID,
        None,
        "2026-09-21T14:13:20+00:00",
    )
    assert found.refusal is None


def test_a_rule_that_is_none_says_why_and_others_hear_of_it() -> None:
    found = judged(rule(action="PURGE"))
    assert verdict(found) == ("INVALID", f"action 'PURGE' {UNKNOWN_ACTION}")
    assert found.refusal == RuleRefusal("orders", "r", f"action {UNKNOWN_ACTION}", ("orders",))


@pytest.mark.parametrize(
    "columns",
    [
        {"action": "s3cret"},
        {"mode": "s3cret"},
        {"queue": "s3cret", "action": "DEDICATED_DLQ"},
        {"policy": "s3cret"},
        {"priority": "s3cret"},
        {"delay_seconds": "s3cret", "action": "DELAYED_REDRIVE"},
        {"delay_seconds": 8_101, "action": "DELAYED_REDRIVE"},
        {"enabled": "s3cret"},
        {"expires_at": "s3cret"},
        {"max_matches": "s3cret"},
        {"reason": "s3cret" * 1000},
        {"tenantId": ["s3cret"]},
        {"other": "s3cret"},
        {"pattern": "s3cret"},
        {"pattern": {"body": {"x": "s3cret"}}},
        {"pattern": {"body": {"x": [{"prefix": {"s3cret": 1}}]}}},
        {"pattern": {"s3cret": []}},
    ],
)
def test_no_value_of_a_rule_leaves_the_table(columns: dict[str, Any]) -> None:
    refusal = judged(rule(**columns)).refusal
    assert refusal is not None
    assert "s3cret" not in json.dumps(asdict(refusal))
    assert "8101" not in refusal.reason


def test_a_rule_of_a_pipeline_that_does_not_exist_rings_under_a_star() -> None:
    found = judged(rule(pipeline="order"))
    why = "no pipeline is named 'order'; there are orders, refunds"
    assert verdict(found) == ("INVALID", why)
    assert found.refusal == RuleRefusal("order", "r", why, ("*",))
    alone = check(edit(rule(), pipeline="orders"), {}, NOW)
    assert verdict(alone)[1] == "no pipeline is named 'orders'; there are none"


def test_a_rule_for_all_is_judged_by_the_terms_of_each() -> None:
    everywhere = {"body": {"x": [1]}}
    fine = rule(pipeline="*", pattern=everywhere)
    del fine["tenantId"]
    assert verdict(judged(fine)) == ("VALID", None)
    nowhere = judged({**fine, "action": "PURGE"})
    assert verdict(nowhere)[1] == f"action 'PURGE' {UNKNOWN_ACTION}"
    assert nowhere.refusal is not None
    assert nowhere.refusal.refused_by == ("orders", "refunds")
    somewhere = judged(rule(pipeline="*"))
    assert str(verdict(somewhere)[1]).startswith("in refunds: unknown field 'tenantId'; allowed")
    assert somewhere.refusal is not None
    assert somewhere.refusal.refused_by == ("refunds",)
    differently = judged(rule(pipeline="*", queue="fast", action="DEDICATED_DLQ"))
    assert str(verdict(differently)[1]).startswith("in orders, refunds: queue 'fast' is unknown")


def test_a_rule_written_after_its_end_is_refused_unless_it_is_switched_off() -> None:
    past = "expires_at is past, so the rule matches nothing"
    assert verdict(judged(rule(expires_at=Decimal(int(NOW))))) == ("INVALID", past)
    assert verdict(judged(rule(expires_at=Decimal(int(NOW) + 1)))) == ("VALID", None)
    assert verdict(judged(rule(expires_at=Decimal(int(NOW)), enabled=False))) == ("VALID", None)


def test_a_verdict_is_short_enough_to_be_read_again() -> None:
    found = judged(rule(**{"x" * 60_000: "y"}))
    item = written(found, rule())
    assert len(item["status_reason"]) <= 1000
    assert judged({**item, "extra": "z" * 40_000}, item).verdict is not None
    assert judged(item).verdict is not None


# What is written, and when nothing is.


@pytest.mark.parametrize("item", [rule(), rule(action="PURGE"), rule(pipeline="order")])
def test_the_record_of_our_own_write_asks_for_nothing(item: dict[str, Any]) -> None:
    first = judged(item)
    assert judged(written(first, item), item) == RuleFinding()


def test_an_edit_that_leaves_the_verdict_as_it_is_writes_nothing() -> None:
    before = written(judged(rule()), rule())
    found = judged({**before, "tenantId": "b"}, before)
    assert found.verdict is None
    assert found.change is not None


def test_a_second_mistake_with_the_same_reason_is_told_again() -> None:
    broken = rule(action="PURGE")
    before = written(judged(broken), broken)
    found = judged({**before, "tenantId": "b"}, before)
    assert found.verdict is None
    assert found.refusal is not None


def test_a_verdict_typed_by_hand_is_put_right() -> None:
    lie = rule(action="PURGE", status="VALID")
    assert verdict(judged(lie, rule(action="PURGE")))[0] == "INVALID"
    assert verdict(judged(rule(status="VALID", status_reason="left over"))) == ("VALID", None)


def test_what_is_written_depends_on_every_column_that_was_judged_or_missing() -> None:
    found = judged(rule(status="INVALID", status_reason="old", checked_at="then")).verdict
    assert found is not None
    assert found.judged == rule()
    assert "queue" in found.absent
    assert not VERDICT & {*found.judged, *found.absent}


def test_an_item_of_very_many_columns_still_gets_a_verdict_that_can_be_written() -> None:
    found = judged(rule(**{f"a{number:04}": "x" for number in range(2_000)})).verdict
    assert found is not None
    # More would not fit into a condition of 4 KB.
    assert len(found.judged) <= 62
    assert len(found.absent) <= 60
    assert found.judged["rule_id"] == "r"


Step = st.sampled_from(
    [
        {"action": "HOLD"},
        {"action": "PURGE"},
        {"typo": "x"},
        {"typo": None},
        {"queue": "dlq"},
        {"queue": None},
        {"status": "VALID"},
        {"status_reason": "made up"},
    ]
)


@given(st.lists(st.tuples(Step, st.booleans()), min_size=1, max_size=8))
def test_however_edits_and_verdicts_interleave_the_item_ends_with_the_right_one(
    steps: list[tuple[dict[str, Any], bool]],
) -> None:
    # A table with its stream: each write leaves a record, and records are seen in order.
    item, records = rule(), [edit(rule())]
    looked = writes = 0

    def put(new: dict[str, Any]) -> None:
        nonlocal item
        records.append(edit(new, item))
        item = new

    def look() -> None:
        nonlocal looked, writes
        found = check(records[looked], PIPELINES, NOW).verdict
        looked += 1
        if found is None:
            return
        same = all(item.get(name) == value for name, value in found.judged.items())
        if same and not any(name in item for name in found.absent):
            writes += 1
            put(written(RuleFinding(verdict=found), item))

    for columns, then_look in steps:
        changed = {**item, **columns}
        put({name: value for name, value in changed.items() if value is not None})
        if then_look and looked < len(records):
            look()
    while looked < len(records):
        look()
        assert writes <= 2 * (len(steps) + 1)
    content = {name: value for name, value in item.items() if name not in VERDICT}
    expected = check(edit(content), PIPELINES, NOW)
    assert (item["status"], item.get("status_reason")) == verdict(expected)


# The history.


def test_a_change_is_kept_with_what_was_and_what_is() -> None:
    old = rule(status="VALID", checked_at="then")
    found = judged(rule(action="PURGE", status="VALID"), old)
    assert found.change == RuleChange(
        "orders", "r", "2026-09-21T14:13:20+00:00", "1", "event-1", rule(), rule(action="PURGE")
    )


def test_a_rule_that_is_gone_is_kept_and_not_judged() -> None:
    moment = "2026-09-21T14:13:20+00:00"
    gone = RuleChange("orders", "r", moment, "1", "event-1", rule(), None)
    assert check(edit(None, rule()), PIPELINES, NOW) == RuleFinding(gone)


def test_an_item_too_long_for_the_history_leaves_its_length() -> None:
    found = judged(rule(pattern="x" * 200_000))
    assert found.change is not None
    assert found.change.new is not None
    assert found.change.new.keys() == {"too_long"}


# The terms.


def test_terms_are_a_pipeline_as_far_as_rules_are_concerned() -> None:
    terms = {"context": ["a"], "dedicated": ["slow"], "policies": ["gold"], "max_delay": 60}
    found = pipeline_from_terms("orders", terms)
    assert (found.name, found.max_delay, found.dedicated) == ("orders", 60.0, ("slow",))
    assert (set(found.context), set(found.policies)) == ({"a"}, {"gold"})


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"context": ["a"], "dedicated": [], "policies": []},
        {"context": [1], "dedicated": [], "policies": [], "max_delay": 1},
        {"context": "ab", "dedicated": [], "policies": [], "max_delay": 1},
        {"context": [], "dedicated": [], "policies": [], "max_delay": "1"},
    ],
)
def test_terms_that_are_none_judge_nobody(data: Any) -> None:
    with pytest.raises(BadSettings, match="orders is registered without terms"):
        pipeline_from_terms("orders", data)


# The checker.


@dataclass
class World:
    """The checker's ports: what is asked for fails if it is named in `down`."""

    now: Mapping[str, Pipeline] = field(default_factory=lambda: PIPELINES)
    earlier: Mapping[str, Pipeline] | None = None
    overtaken: bool = False
    down: set[str] = field(default_factory=set)
    done: list[Any] = field(default_factory=list)

    def pipelines(self, *, fresh: bool = False) -> Mapping[str, Pipeline]:
        self._ask("terms")
        return self.now if fresh or self.earlier is None else self.earlier

    def keep(self, change: RuleChange) -> None:
        self._ask("history")
        self.done.append(change)

    def write(self, verdict: RuleVerdict) -> bool:
        self._ask("table")
        self.done.append(verdict)
        return not self.overtaken

    def announce(self, refusal: RuleRefusal) -> None:
        self._ask("bus")
        self.done.append(refusal)

    def check(self, *edits: RuleEdit) -> CheckedBatch:
        checker = RuleChecker(
            terms=self, verdicts=self, history=self, announcer=self, clock=lambda: NOW
        )
        return checker.check(edits)

    def _ask(self, whom: str) -> None:
        if whom in self.down:
            raise CheckUnavailable(whom)


def test_a_refused_rule_is_kept_written_and_announced_in_this_order() -> None:
    world = World()
    checked = world.check(edit(rule(action="PURGE")))
    assert [type(one) for one in world.done] == [RuleChange, RuleVerdict, RuleRefusal]
    assert checked == CheckedBatch((world.done[2],))


def test_an_edit_that_was_overtaken_is_kept_and_nobody_hears_of_it() -> None:
    world = World(overtaken=True)
    assert world.check(edit(rule(action="PURGE"))) == CheckedBatch(())
    assert [type(one) for one in world.done] == [RuleChange, RuleVerdict]


def test_a_rule_is_refused_only_by_terms_that_hold_now() -> None:
    world = World(earlier={"refunds": REFUNDS})
    assert world.check(edit(rule())) == CheckedBatch(())
    assert [one.status for one in world.done if isinstance(one, RuleVerdict)] == ["VALID"]


@pytest.mark.parametrize("down", ["terms", "history", "table", "bus"])
def test_the_batch_stops_at_the_edit_that_could_not_be_finished(down: str) -> None:
    world = World()
    first, second = (edit(rule(action="PURGE"), sequence=one) for one in ("1", "2"))
    [refusal] = world.check(first).refusals
    world.down = {down}
    assert world.check(second, replace(first, sequence="3")) == CheckedBatch((), "2", down)
    world.down = set()
    # Done again, it says the same.
    assert world.check(second).refusals == (refusal,)
