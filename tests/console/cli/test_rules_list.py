"""`dlq rules list`: every rule there is, in the order of its trial, and what comes of it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from console.cli.exit import Exit
from tests.console.rules import HOLD, hold, lacks, typed
from tests.each_row import each_row

SHARED = {**HOLD, "pipeline": "*"}
PAST = "2026-01-01T00:00:00Z"


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` with a context, a dedicated DLQ and a policy."""
    cloud.deploy("orders", dedicated=["bulk"], context=["tenantId"], policies=["gold"])
    return cloud


def listed(dlq: Any, *more: str) -> Any:
    return json.loads(typed(dlq, "list --json", *more).stdout)


def rules_of(dlq: Any, pipeline: str = "orders") -> Any:
    (only,) = listed(dlq, "--pipeline", pipeline)["pipelines"]
    return only["rules"]


WINS = "a rule of all pipelines has the same id, and this one counts in orders"
LOSES = "another rule with the same id comes first: that of the pipeline"
TIED = "other rules of priority 100 can match the same messages: "


@each_row(
    ("there", "says"),
    [
        # In the order of trial.
        ({"late": {**HOLD, "priority": 200}, "b": HOLD, "a": SHARED,
          "first": {**SHARED, "priority": "1"}},
         [("*/first", "enforced", None), ("orders/b", "enforced", None),
          ("*/a", "enforced", None), ("orders/late", "enforced", None)]),
        # An invalid rule comes first, and says why.
        ({"good": {**HOLD, "priority": 1}, "lost": {"action": "HOLD", "tenant": "a"},
          "typo": {**HOLD, "action": "QURANTINE", "reason": "a night of it"}},
         [("orders/lost", "refused", "unknown field 'tenant'; did you mean tenantId? allowed are"),
          ("orders/typo", "refused", "action 'QURANTINE' is unknown"),
          ("orders/good", "enforced", None)]),
        # Equal priorities are settled by the alphabet.
        ({"stop": {**HOLD, "action": "QUARANTINE"},
          "slow": {"action": "HOLD", "pattern": {"body": {"n": [1]}}},
          "other": {"tenantId": "b", "action": "QUARANTINE", "priority": 7}},
         [("orders/other", "enforced", None),
          ("orders/slow", "enforced", f"{TIED}stop goes after it, by the alphabet"),
          ("orders/stop", "enforced", f"{TIED}slow goes before it, by the alphabet")]),
        ({"r": {**HOLD, "mode": "shadow"}}, [("orders/r", "shadow", None)]),
        ({"r": {**HOLD, "enabled": False}}, [("orders/r", "disabled", None)]),
        ({"r": {**HOLD, "expires_at": PAST}}, [("orders/r", "expired", "it ended 2026-01-01")]),
        ({"r": {**HOLD, "expires_at": PAST, "enabled": "false"}},
         [("orders/r", "disabled", "it ended 2026-01-01")]),
    ],
)  # fmt: skip
def test_rules_are_listed_with_their_effect(
    orders: Any, dlq: Any, there: dict[str, Any], says: list[tuple[str, str, str | None]]
) -> None:
    hold(orders, **there)
    page = " ".join(typed(dlq, "list").stdout.split())
    shown = []
    for rule, (key, effect, why) in zip(rules_of(dlq), says, strict=True):
        assert (f"{rule['pipeline']}/{rule['rule_id']}", rule["effect"]) == (key, effect)
        assert rule["status"] == ("INVALID" if effect == "refused" else "VALID")
        assert (rule["status_reason"] or "").startswith(why or "")
        assert (rule["status_reason"] is None) is (why is None)
        of_all = " (all pipelines)" if key.startswith("*") else ""
        what = f"INVALID: {why}" if effect == "refused" else f"{rule['action']} "
        shown.append(page.index(f" {rule['rule_id']}{of_all} {what}"))
        assert lacks(page, why or "", rule["reason"] or "") == []
        assert effect == "refused" or f" {effect}, matched 0 messages, " in page
    assert shown == sorted(shown)


@pytest.mark.parametrize("enabled", [True, False])
def test_of_two_rules_with_one_id_both_say_which_counts(
    orders: Any, dlq: Any, enabled: bool
) -> None:
    orders.rule("twice", **HOLD, enabled=enabled)
    orders.rule("twice", "*", tenantId="b", action="HOLD")
    # It is tied with the one that counts if the other is off.
    orders.rule("tied", tenantId="b", action="QUARANTINE")
    rules = {rule["pipeline"]: rule for rule in rules_of(dlq) if rule["rule_id"] == "twice"}
    assert TIED not in rules["orders"]["status_reason"]
    assert (TIED in rules["*"]["status_reason"]) is not enabled
    effects = {key: rule["effect"] for key, rule in rules.items()}
    assert effects == (
        {"*": "refused", "orders": "enforced"}
        if enabled
        else {"*": "enforced", "orders": "disabled"}
    )
    page = typed(dlq, "list").stdout
    says = [WINS, LOSES] if enabled else [WINS.replace("this one", "that one")]
    assert lacks(page, *says) == []
    assert (rules["*"]["status_reason"] == LOSES) is enabled


def test_a_rule_is_shown_with_all_details(orders: Any, dlq: Any) -> None:
    ends = int(time.time()) + 7_200
    orders.rule(
        "isolate", tenantId="acme", action="dedicated_dlq", queue="bulk", max_matches=50,
        expires_at=ends, reason="half a body", ticket="INC-7", created_by="arn:aws:iam::1:user/a",
        pattern='{"body": {"amount": [{"numeric": [">", 100]}]}}',
    )  # fmt: skip
    (unused,) = rules_of(dlq)
    counts = {"matched": 37, "last_matched": int(time.time()) - 60, "shadow_matched": 5}
    row = {"pk": {"S": "orders#matches"}, "sk": {"S": f"isolate#{unused['version']}"}}
    orders.put("messages", row | {name: {"N": str(number)} for name, number in counts.items()})
    (rule,) = rules_of(dlq)
    assert rule.pop("last_matched")
    assert rule.pop("version") == unused["version"]
    pattern = {
        "body": {"amount": [{"numeric": [">", 100]}]}, "context": {"tenantId": ["acme"]},
    }  # fmt: skip
    assert rule | {"expires_at": ""} == {
        "rule_id": "isolate", "pipeline": "orders", "status": "VALID", "status_reason": None,
        "effect": "enforced", "action": "DEDICATED_DLQ", "pattern": pattern, "priority": 100,
        "about": 'body.amount > 100 and tenantId "acme"', "delay_seconds": None, "queue": "bulk",
        "policy": None, "rate": None, "matches": 37, "shadow_matches": 5, "last_shadow": None,
        "max_matches": 50, "expires_at": "", "reason": "half a body", "ticket": "INC-7",
        "created_by": "arn:aws:iam::1:user/a",
    }  # fmt: skip
    says = (
        "isolate DEDICATED_DLQ to bulk ",
        "enforced, matched 37 messages of at most 50, last 1 min ago, would have matched 5",
        "half a body, INC-7, by arn:aws:iam::1:user/a",
    )
    typed(dlq, "list", says=says)


def test_the_number_of_rules_is_that_of_the_rows_below_it(orders: Any, dlq: Any) -> None:
    assert "orders: no rule\n" in typed(dlq, "list").stdout
    slow = {**HOLD, "action": "THROTTLE", "rate": 0.5}
    hold(orders, good=HOLD, ended={**HOLD, "expires_at": PAST}, bad={"tenantId": "c"}, slow=slow)
    says = (
        "orders: 4 rules (1 INVALID, 2 enforced, 1 expired), in the order they are tried",
        "bad INVALID: action is missing; allowed are ",
        "slow THROTTLE to 0.5 messages a second",
    )
    typed(dlq, "list", says=says)
    query = "pipelines[].rules[?status=='INVALID'][].rule_id"
    assert json.loads(typed(dlq, "list --query", query).stdout) == ["bad"]
    assert [rule["rate"] for rule in rules_of(dlq) if rule["rule_id"] == "slow"] == [0.5]


def test_a_rule_of_a_missing_pipeline_is_listed_as_a_stray(orders: Any, dlq: Any) -> None:
    orders.rule("stop-acme", "order", **HOLD)
    answer = listed(dlq)
    assert answer["strays"] == ["order/stop-acme"]
    assert answer["pipelines"] == [{"name": "orders", "rules": []}]
    says = "this app does not have; delete them in the table\n  order/stop-acme"
    assert says in typed(dlq, "list").stdout


def test_each_pipeline_has_its_own_rules_and_those_of_every_pipeline(orders: Any, dlq: Any) -> None:
    orders.deploy("invoices")
    orders.rule("theirs", "invoices", action="HOLD", pattern='{"body": {"x": [1]}}')
    orders.rule("shared", "*", **HOLD)
    answer = listed(dlq)
    assert answer["strays"] == []
    assert {
        pipeline["name"]: [(rule["rule_id"], rule["status"]) for rule in pipeline["rules"]]
        for pipeline in answer["pipelines"]
    } == {"invoices": [("shared", "INVALID"), ("theirs", "VALID")], "orders": [("shared", "VALID")]}
    assert [rule["rule_id"] for rule in rules_of(dlq, "orders")] == ["shared"]


def test_columns_of_odd_types_are_listed_not_fatal(orders: Any, dlq: Any) -> None:
    odd = {
        "pipeline": {"S": "orders"}, "rule_id": {"S": "odd\x1b[2J"}, "action": {"S": "HOLD"},
        "tenantId": {"SS": ["b", "a"]}, "pattern": {"B": b"\xff"}, "reason": {"L": [{"N": "1"}]},
    }  # fmt: skip
    orders.put("rules", odd)
    (rule,) = rules_of(dlq)
    assert (rule["status"], rule["reason"]) == ("INVALID", "[1]")
    assert "\x1b" not in typed(dlq, "list").output
    (kept,) = listed(dlq, "--yaml")["file"]
    assert (kept["tenantId"], kept["pattern"]) == (["a", "b"], "/w==")


def test_a_pipeline_of_another_version_is_refused(orders: Any, dlq: Any) -> None:
    orders.redeploy(terms=None)
    typed(dlq, "list", ends=Exit.ABSENT, refuses="use the dlq of the version that is deployed")
