"""`dlq rules list`: every rule there is, in the order of its trial, and what comes of it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from console.cli.exit import Exit


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` with a context, a dedicated DLQ and a policy."""
    cloud.deploy("orders", dedicated=["bulk"], context=["tenantId"], policies=["gold"])
    return cloud


def listed(dlq: Any, *arguments: str) -> Any:
    done = dlq("rules", "list", "--json", *arguments)
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)


def rules_of(dlq: Any, pipeline: str = "orders") -> Any:
    (only,) = listed(dlq, "--pipeline", pipeline)["pipelines"]
    return only["rules"]


def test_rules_are_listed_in_the_order_they_are_tried(orders: Any, dlq: Any) -> None:
    orders.rule("late", tenantId="a", action="HOLD", priority=200)
    orders.rule("b", tenantId="a", action="HOLD")
    orders.rule("a", "*", tenantId="a", action="HOLD")
    orders.rule("first", "*", tenantId="a", action="HOLD", priority="1")
    rules = rules_of(dlq)
    assert [rule["rule_id"] for rule in rules] == ["first", "b", "a", "late"]
    assert [rule["pipeline"] for rule in rules] == ["*", "orders", "*", "orders"]
    assert {rule["status"] for rule in rules} == {"VALID"}


def test_of_two_rules_with_one_id_both_say_which_counts(orders: Any, dlq: Any) -> None:
    orders.rule("twice", tenantId="a", action="HOLD")
    orders.rule("twice", "*", tenantId="b", action="HOLD")
    loser, winner = rules_of(dlq)
    assert (loser["pipeline"], loser["status"]) == ("*", "INVALID")
    why = "another rule with the same id comes first: that of the pipeline"
    assert loser["status_reason"] == why
    assert (winner["pipeline"], winner["status"]) == ("orders", "VALID")
    note = "a rule of all pipelines has the same id, and this one counts in orders"
    assert winner["status_reason"].startswith(note)
    page = " ".join(dlq("rules", "list").stdout.split())
    assert why in page
    assert note in page


def test_a_disabled_rule_is_listed_beside_the_rule_of_its_id_that_counts(
    orders: Any, dlq: Any
) -> None:
    orders.rule("twice", tenantId="a", action="HOLD", enabled=False)
    orders.rule("twice", "*", tenantId="b", action="HOLD")
    rules = {rule["pipeline"]: rule for rule in rules_of(dlq)}
    assert {key: rule["effect"] for key, rule in rules.items()} == {
        "orders": "disabled", "*": "enforced",
    }  # fmt: skip
    assert {rule["status"] for rule in rules.values()} == {"VALID"}
    assert "that one counts in orders" in rules["orders"]["status_reason"]


def test_equal_priorities_are_said_to_be_settled_by_the_alphabet(orders: Any, dlq: Any) -> None:
    orders.rule("stop", tenantId="a", action="QUARANTINE")
    orders.rule("slow", action="HOLD", pattern={"body": {"n": [1]}})
    orders.rule("other", tenantId="b", action="QUARANTINE", priority=7)
    notes = {rule["rule_id"]: rule["status_reason"] for rule in rules_of(dlq)}
    tied = "other rules of priority 100 can match the same messages: "
    assert notes == {
        "other": None,
        "slow": f"{tied}stop goes after it, by the alphabet",
        "stop": f"{tied}slow goes before it, by the alphabet",
    }


def test_a_rule_is_shown_with_all_details(orders: Any, dlq: Any) -> None:
    ends = int(time.time()) + 7_200
    orders.rule(
        "isolate", tenantId="acme", action="dedicated_dlq", queue="bulk", max_matches=50,
        expires_at=ends, reason="half a body", ticket="INC-7", created_by="arn:aws:iam::1:user/a",
        pattern='{"body": {"amount": [{"numeric": [">", 100]}]}}',
    )  # fmt: skip
    (unused,) = rules_of(dlq)
    counts = {"matched": 37, "last_matched": int(time.time()) - 60, "shadow_matched": 5}
    orders.put(
        "letters",
        {"pk": {"S": "orders#matches"}, "sk": {"S": f"isolate#{unused['version']}"}}
        | {name: {"N": str(number)} for name, number in counts.items()},
    )
    (rule,) = rules_of(dlq)
    assert rule.pop("last_matched")
    assert rule.pop("version") == unused["version"]
    assert rule | {"expires_at": ""} == {
        "rule_id": "isolate", "pipeline": "orders", "status": "VALID", "status_reason": None,
        "effect": "enforced", "action": "DEDICATED_DLQ",
        "about": 'body.amount > 100 and tenantId "acme"',
        "pattern": {"body": {"amount": [{"numeric": [">", 100]}]},
                    "context": {"tenantId": ["acme"]}},
        "priority": 100, "delay_seconds": None,
        "queue": "bulk", "policy": None, "rate": None, "matches": 37, "shadow_matches": 5,
        "last_shadow": None, "max_matches": 50, "expires_at": "", "reason": "half a body",
        "ticket": "INC-7", "created_by": "arn:aws:iam::1:user/a",
    }  # fmt: skip
    page = dlq("rules", "list").stdout
    assert "isolate  DEDICATED_DLQ to bulk  " in page
    says = (
        "enforced, matched 37 messages of at most 50, last 1 min ago, would have matched 5 messages"
    )
    assert says in " ".join(page.split())
    assert "half a body, INC-7, by arn:aws:iam::1:user/a" in page


def test_an_invalid_rule_comes_first_and_says_why(orders: Any, dlq: Any) -> None:
    orders.rule("good", tenantId="a", action="HOLD", priority=1)
    orders.rule("typo", tenantId="a", action="QURANTINE", reason="a night of it")
    orders.rule("lost", tenant="a", action="HOLD")
    rules = rules_of(dlq)
    assert [(rule["rule_id"], rule["status"]) for rule in rules] == [
        ("lost", "INVALID"),
        ("typo", "INVALID"),
        ("good", "VALID"),
    ]
    assert rules[0]["status_reason"].startswith(
        "unknown field 'tenant'; did you mean tenantId? allowed are"
    )
    assert "action 'QURANTINE' is unknown" in rules[1]["status_reason"]
    page = dlq("rules", "list").stdout
    assert page.index("typo  INVALID: action 'QURANTINE' is unknown") < page.index("good")
    assert "a night of it" in page


@pytest.mark.parametrize(
    ("columns", "effect", "status"),
    [
        ({}, "enforced", "VALID"),
        ({"mode": "shadow"}, "shadow", "VALID"),
        ({"enabled": False}, "disabled", "VALID"),
        ({"expires_at": "2026-01-01T00:00:00Z"}, "expired", "VALID"),
        ({"expires_at": "2026-01-01", "enabled": "false"}, "disabled", "VALID"),
    ],
)
def test_the_effect_of_a_rule_is_shown(
    orders: Any, dlq: Any, columns: Any, effect: str, status: str
) -> None:
    orders.rule("r", tenantId="a", action="HOLD", **columns)
    (rule,) = rules_of(dlq)
    assert (rule["effect"], rule["status"]) == (effect, status)
    page = dlq("rules", "list").stdout
    assert f"orders: 1 rule (1 {effect}), in the order they are tried" in page
    assert (", expired " if effect == "expired" else effect) in page


def test_the_number_of_rules_is_that_of_the_rows_below_it(orders: Any, dlq: Any) -> None:
    orders.rule("good", tenantId="a", action="HOLD")
    orders.rule("ended", tenantId="b", action="HOLD", expires_at="2026-01-01T00:00:00Z")
    orders.rule("bad", tenantId="c")
    page = dlq("rules", "list").stdout
    assert "orders: 3 rules (1 INVALID, 1 enforced, 1 expired)" in page
    assert "bad  INVALID: action is missing; allowed are " in page
    query = "pipelines[].rules[?status=='INVALID'][].rule_id"
    assert json.loads(dlq("rules", "list", "--query", query).stdout) == ["bad"]


def test_a_rule_of_a_missing_pipeline_is_listed_as_a_stray(orders: Any, dlq: Any) -> None:
    orders.rule("stop-acme", "order", tenantId="a", action="HOLD")
    answer = listed(dlq)
    assert answer["strays"] == ["order/stop-acme"]
    assert answer["pipelines"] == [{"name": "orders", "rules": []}]
    assert "this app does not have; delete them in the table\n  order/stop-acme" in (
        dlq("rules", "list").stdout
    )


def test_each_pipeline_has_its_own_rules_and_those_of_every_pipeline(orders: Any, dlq: Any) -> None:
    orders.deploy("invoices")
    orders.rule("theirs", "invoices", action="HOLD", pattern='{"body": {"x": [1]}}')
    orders.rule("shared", "*", tenantId="a", action="HOLD")
    answer = listed(dlq)
    assert answer["strays"] == []
    assert {
        pipeline["name"]: [(rule["rule_id"], rule["status"]) for rule in pipeline["rules"]]
        for pipeline in answer["pipelines"]
    } == {
        "invoices": [("shared", "INVALID"), ("theirs", "VALID")],
        "orders": [("shared", "VALID")],
    }
    assert [rule["rule_id"] for rule in rules_of(dlq, "orders")] == ["shared"]


def test_columns_of_odd_types_are_listed_not_fatal(orders: Any, dlq: Any) -> None:
    orders.put(
        "rules",
        {"pipeline": {"S": "orders"}, "rule_id": {"S": "odd\x1b[2J"}, "action": {"S": "HOLD"},
         "tenantId": {"SS": ["b", "a"]}, "pattern": {"B": b"\xff"}, "reason": {"L": [{"N": "1"}]}},
    )  # fmt: skip
    (rule,) = rules_of(dlq)
    assert rule["status"] == "INVALID"
    assert rule["reason"] == "[1]"
    assert "\x1b" not in dlq("rules", "list").output
    (kept,) = listed(dlq, "--yaml")["file"]
    assert (kept["tenantId"], kept["pattern"]) == (["a", "b"], "/w==")


def test_no_rule_is_no_error(orders: Any, dlq: Any) -> None:
    assert "orders: no rule\n" in dlq("rules", "list").stdout


def test_a_pipeline_of_another_version_is_refused(orders: Any, dlq: Any) -> None:
    parameter = "/deadletter/pipelines/orders"
    described = json.loads(orders.ssm.get_parameter(Name=parameter)["Parameter"]["Value"])
    del described["terms"]
    orders.parameter(parameter, json.dumps(described))
    done = dlq("rules", "list")
    assert done.exit_code == Exit.ABSENT
    assert "use the dlq of the version that is deployed" in done.stderr


def test_the_rate_of_a_throttle_is_shown(orders: Any, dlq: Any) -> None:
    orders.rule("slow", tenantId="a", action="THROTTLE", rate=0.5)
    [rule] = rules_of(dlq)
    assert rule["rate"] == 0.5
    assert "slow THROTTLE to 0.5 messages a second" in " ".join(dlq("rules", "list").stdout.split())
