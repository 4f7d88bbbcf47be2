"""What is typed into a rule reaches its author, and no log, metric or event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from deadletter.rules.checker import RuleEdit, check
from deadletter.rules.rule import COLUMNS, RuleRefused, read_rule
from deadletter.rules.rulebook import read_rules
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row

ORDERS = Pipeline("orders", context={"tenantId": "body.tenantId"}, dedicated=("slow",))
TYPED = "person@example.com"
VALID = {"pipeline": "orders", "rule_id": "r", "action": "QUARANTINE", "tenantId": "t1"}

WRONG: list[Any] = [
    *({name: TYPED} for name in sorted(COLUMNS - {"pipeline", "rule_id"})),
    *({name: [TYPED]} for name in sorted(COLUMNS - {"pipeline", "rule_id"})),
    {TYPED: "a column that nobody knows"},
    {"tenantId": [TYPED]},
    {"pattern": json.dumps({TYPED: TYPED})},
    {"pattern": json.dumps({"context": {TYPED: ["x"]}})},
    {"pattern": json.dumps({"context": {"tenantId": [{TYPED: TYPED}]}})},
    {"pattern": json.dumps({"context": {"tenantId": [{"wildcard": f"**{TYPED}"}]}})},
    {"pattern": json.dumps({"context": {"tenantId": [{"cidr": TYPED}]}})},
    {"pattern": json.dumps({"failure": {TYPED: [TYPED]}})},
    {"pattern": json.dumps({"failure": {"category": [TYPED]}})},
    {"pattern": f'{{"{TYPED}": 1, "{TYPED}": 2}}'},
    {"pattern": TYPED},
    {"action": "DELAYED_REDRIVE", "delay_seconds": TYPED},
    {"action": "DELAYED_REDRIVE", "delay_seconds": 987654321},
    {"action": "DEDICATED_DLQ", "queue": TYPED},
]
VALUES = (TYPED, "987654321")


@each_row("wrong", WRONG, ids=str)
def test_a_notice_of_a_refused_rule_holds_no_value_of_it(wrong: Mapping[str, Any]) -> None:
    item = {**VALID, **wrong}
    for rule in read_rules([item], ORDERS).refused:
        assert rule.gist
        assert not [value for value in VALUES if value in str(rule.without_values)]
    edit = RuleEdit("1", "e1", 0.0, "orders", "r", None, item)
    refusal = check(edit, {"orders": ORDERS}, 0.0).refusal
    if refusal is not None:
        assert refusal.reason
        assert not [value for value in VALUES if value in str(refusal)]


def test_most_of_these_are_refused() -> None:
    """Else the test above says nothing."""
    refused = [read_rules([{**VALID, **wrong}], ORDERS).refused for wrong in WRONG]
    assert sum(map(bool, refused)) > 25


def test_the_author_reads_what_is_wrong() -> None:
    with pytest.raises(RuleRefused, match=TYPED):
        read_rule({**VALID, "action": TYPED}, ORDERS)


def test_a_mistyped_pipeline_is_no_reason_for_others_to_read_it() -> None:
    edit = RuleEdit("1", "e1", 0.0, TYPED, "r", None, {**VALID, "pipeline": TYPED})
    finding = check(edit, {"orders": ORDERS}, 0.0)
    assert finding.refusal is not None
    assert finding.refusal.reason == "no pipeline has this name; there are orders"
    assert finding.verdict is not None
    assert TYPED in str(finding.verdict.reason)
