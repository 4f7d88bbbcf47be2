"""Rules as a file: `dlq rules list --yaml`, `apply`, and `test --file`, without AWS."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.cli.exit import Exit
from console.operations import rule_table

CALLER = "arn:aws:sts::123456789012:user/moto"
GOOD: dict[str, Any] = {
    "pipeline": "orders",
    "rule_id": "r",
    "action": "HOLD",
    "tenantId": "a",
    "created_by": "me",
}
SAID = ("--reason", "reviewed")
PRUNED = ("--prune", "--confirm", "deadletter")


@pytest.fixture
def orders(cloud: Any) -> Any:
    """Deployed pipelines `orders` and `invoices`."""
    cloud.deploy("orders", "invoices", context=["tenantId"])
    return cloud


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes rules into a file; its path."""

    def write(*rules: Any) -> str:
        path = tmp_path / "rules.json"
        path.write_text(json.dumps(rules))
        return str(path)

    return write


def apply(dlq: Any, *arguments: str, **typed: Any) -> Any:
    return dlq("rules", "apply", *SAID, *arguments, **typed)


def applied(dlq: Any, *arguments: str) -> Any:
    done = apply(dlq, "--yes", "--json", *arguments)
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)


def did(answer: Any) -> dict[str, str]:
    """What was done, by the rule."""
    return {
        change["rule_id"]: "added" if change["before"] is None
        else "removed" if change["after"] is None else "changed"
        for change in answer["rules"]
    }  # fmt: skip


# As YAML.


def test_the_yaml_is_a_list_in_an_order_that_never_changes(orders: Any, dlq: Any) -> None:
    orders.rule("b", action="HOLD", tenantId="a", status="VALID", checked_at=1, yes="no")
    orders.rule("a", "invoices", pattern='{"body": {"n": [0.1]}}', action="HOLD", priority=7)
    orders.rule("c", "*", reason='it\'s "late": # 7', tenantId="a", action="HOLD")
    text = dlq("rules", "list", "--yaml").stdout
    assert text.splitlines()[:3] == ['- pipeline: "*"', '  rule_id: "c"', '  action: "HOLD"']
    rules = yaml.safe_load(text)
    assert [(rule["pipeline"], rule["rule_id"]) for rule in rules] == [
        ("*", "c"),
        ("invoices", "a"),
        ("orders", "b"),
    ]
    assert list(rules[0]) == ["pipeline", "rule_id", "action", "tenantId", "reason"]
    assert rules[0]["reason"] == 'it\'s "late": # 7'
    assert (rules[1]["pattern"], rules[1]["priority"]) == ({"body": {"n": [0.1]}}, 7)
    assert ("status" in rules[2], rules[2]["yes"]) == (False, "no")
    assert json.loads(dlq("rules", "list", "--yaml", "--json").stdout)["file"] == rules


def test_the_yaml_may_be_of_some_pipelines_and_has_the_rules_of_all(orders: Any, dlq: Any) -> None:
    orders.rule("b", action="HOLD", tenantId="a")
    orders.rule("c", "*", tenantId="a", action="HOLD")
    orders.rule("d", "invoices", action="HOLD", tenantId="a")
    rules = yaml.safe_load(dlq("rules", "list", "orders", "--yaml").stdout)
    assert [rule["rule_id"] for rule in rules] == ["c", "b"]
    assert dlq("rules", "list", "nope", "--yaml").exit_code == Exit.ABSENT


def test_what_is_listed_as_yaml_is_applied_as_no_change(
    orders: Any, dlq: Any, tmp_path: Path
) -> None:
    assert dlq("rules", "list", "--yaml").stdout == "[]\n"
    orders.rule("a", action="hold", tenantId="a", priority="7", expires_at="2099-01-01")
    orders.rule("b", "*", action="HOLD", pattern='{"body": {"n": [0.1, null, true, 1e23]}}')
    orders.rule("c", action="HOLD", pattern={"body": {"n": [{"numeric": [">", 0.5]}]}})
    (tmp_path / "rules.yaml").write_text(dlq("rules", "list", "--yaml").stdout)
    before = orders.rules()
    done = apply(dlq, str(tmp_path / "rules.yaml"))
    assert done.exit_code == Exit.DONE, done.output
    assert "3 rules unchanged." in done.stdout
    assert orders.rules() == before


def test_a_file_may_be_typed_by_hand(orders: Any, dlq: Any) -> None:
    text = """
# Why: a contract.
- pipeline: "*"
  rule_id: stop-acme
  action: HOLD
  "tenantId": "007"
  priority: 7
"""
    done = apply(dlq, "-", "--yes", answers=text)
    assert done.exit_code == Exit.DONE, done.output
    assert orders.rules()["stop-acme"] == {
        "pipeline": "*", "rule_id": "stop-acme", "action": "HOLD", "tenantId": "007",
        "priority": 7, "created_by": CALLER,
    }  # fmt: skip


# Applied.


def test_rules_are_added_and_changed_and_others_stay(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("r", tenantId="b", action="HOLD", created_by="them")
    orders.rule("other", tenantId="b", action="HOLD")
    new = {**GOOD, "rule_id": "new", "pattern": {"body": {"é": [1.5]}}}
    del new["created_by"]
    answer = applied(dlq, written(GOOD, new))
    assert did(answer) == {"new": "added", "r": "changed"}
    assert answer["kept"] == ["orders/other"]
    assert orders.rules()["r"] == GOOD
    assert orders.rules()["new"] == {
        **new, "created_by": CALLER, "pattern": '{"body": {"é": [1.5]}}',
    }  # fmt: skip
    assert "other" in orders.rules()


def test_only_prune_removes_and_only_where_the_file_has_rules(
    orders: Any, dlq: Any, written: Any
) -> None:
    orders.rule("old", tenantId="a", action="HOLD")
    orders.rule("shared", "*", tenantId="a", action="HOLD")
    orders.rule("theirs", "invoices", tenantId="a", action="HOLD")
    assert did(applied(dlq, written(GOOD), *PRUNED)) == {"r": "added", "old": "removed"}
    assert set(orders.rules()) == {"r", "shared", "theirs"}


def test_removing_rules_takes_the_name_of_the_app(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("old", tenantId="a", action="HOLD")
    path = written(GOOD)
    for options, says in (
        (["--yes"], "so --yes does not do: add --confirm deadletter"),
        (["--confirm", "prod"], "--confirm is 'prod', and not deadletter: nothing was done"),
    ):
        done = apply(dlq, path, "--prune", *options)
        assert done.exit_code == Exit.USAGE
        assert says in done.stderr
        assert "old" in orders.rules()


@pytest.mark.usefixtures("at_a_terminal")
def test_the_name_of_the_app_is_typed_at_a_terminal(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("old", tenantId="a", action="HOLD")
    path = written(GOOD)
    asked = apply(dlq, path, "--prune", answers="yes\n")
    assert asked.exit_code == Exit.ATTENTION
    assert "account 123456789012, eu-west-1" in asked.stderr
    assert "old" in orders.rules()
    apply(dlq, path, "--prune", answers="deadletter\n")
    assert set(orders.rules()) == {"r"}


def test_with_nothing_to_remove_prune_is_not_severe(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("theirs", "invoices", tenantId="a", action="HOLD")
    assert did(applied(dlq, written(GOOD), "--prune")) == {"r": "added"}
    # An empty file removes nothing.
    assert did(applied(dlq, written(), "--prune")) == {}
    assert set(orders.rules()) == {"r", "theirs"}


def test_a_file_need_not_name_the_author_of_a_rule(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("r", action="HOLD", tenantId="a", created_by="them")
    rule = {name: value for name, value in GOOD.items() if name != "created_by"}
    assert applied(dlq, written(rule))["unchanged"] == 1


@pytest.mark.usefixtures("at_a_terminal")
def test_the_plan_is_shown_before_anything_is_written(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("r", tenantId="b", action="HOLD", created_by="me")
    orders.rule("old", tenantId="a", action="HOLD")
    path = written(GOOD, {**GOOD, "rule_id": "new"})
    plan = ("+ orders/new", "~ orders/r  tenantId: b -> a", "- orders/old")
    done = apply(dlq, path, "--prune", answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    assert "App deadletter in account 123456789012, eu-west-1." in done.stderr
    assert all(step in done.stderr for step in plan)
    dry = apply(dlq, path, "--prune", "--dry-run")
    assert all(step in dry.stdout for step in (*plan, "0 rules unchanged."))
    done = apply(dlq, path, answers="n\n")
    assert "--prune would remove it): orders/old" in done.stderr
    assert set(orders.rules()) == {"r", "old"}


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([{**GOOD, "action": "HALT"}], "r would be INVALID in orders: action 'HALT'"),
        ([GOOD, GOOD], "has it already"),
        ([{"rule_id": "r"}], "r: it has no pipeline"),
        ([GOOD, {**GOOD, "pipeline": "*"}], "another rule with the same id comes first"),
        (
            ["a", "b", "c", "d", "e"],
            "rule 2 should be an object; rule 3 should be an object; "
            "rule 4 should be an object; and 2 more.",
        ),
    ],
)
def test_a_file_with_a_mistake_is_not_applied_at_all(
    orders: Any, dlq: Any, written: Any, rules: Any, why: str
) -> None:
    done = apply(dlq, "--yes", written({**GOOD, "rule_id": "good"}, *rules))
    assert done.exit_code == Exit.ATTENTION
    assert "Nothing was written: " in done.stderr
    assert why in done.stderr
    assert orders.rules() == {}


def test_a_pruned_rule_does_not_count_in_the_check(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("same", "*", tenantId="a", action="HOLD")
    shared = {**GOOD, "pipeline": "*", "rule_id": "other"}
    path = written({**GOOD, "rule_id": "same"}, shared)
    assert apply(dlq, "--yes", path).exit_code == Exit.ATTENTION
    answer = applied(dlq, path, *PRUNED)
    assert did(answer) == {"same": "removed", "other": "added"}


def test_a_pipeline_that_does_not_exist_stops_the_whole_file(
    orders: Any, dlq: Any, written: Any
) -> None:
    done = apply(dlq, "--yes", written({**GOOD, "pipeline": "order"}))
    assert done.exit_code == Exit.ABSENT
    assert orders.rules() == {}


def test_a_rule_that_another_person_changes_meanwhile_is_left_alone(
    orders: Any, dlq: Any, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("r", "old", "fine"):
        orders.rule(name, tenantId="b", action="HOLD")

    def check(*arguments: Any, **options: Any) -> None:
        for name in ("r", "old", "new"):
            orders.rule(name, tenantId="c", action="HOLD", enabled=False)
        real(*arguments, **options)

    real = rule_table.check
    monkeypatch.setattr(rule_table, "check", check)
    path = written(*({**GOOD, "rule_id": name} for name in ("r", "new", "fine")))
    done = apply(dlq, *PRUNED, "--json", path)
    assert done.exit_code == Exit.ATTENTION
    answer = json.loads(done.stdout)
    assert answer["raced"] == ["orders/new", "orders/r", "orders/old"]
    assert did(answer) == {"fine": "changed"}
    assert {name: rule["tenantId"] for name, rule in orders.rules().items()} == {
        "r": "c", "old": "c", "new": "c", "fine": "a",
    }  # fmt: skip


# Checked without AWS.

SETTINGS = {
    "context": {
        "pipelines": [
            {
                "name": "orders",
                "context": {"tenantId": "body.tenantId"},
                "dedicated": {"bulk": False},
                "policies": {"gold": {}},
                "message_ttl": "2h",
            },
            {"name": "invoices"},
        ]
    }
}

Check = Callable[..., list[str]]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a region nor credentials: the first call of AWS would fail."""
    monkeypatch.setenv("AWS_REGION", "")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")


@pytest.fixture
def mistakes(dlq: Any, tmp_path: Path, offline: None) -> Check:
    """Checks a list of rules; returns the reason of each mistake."""
    (tmp_path / "cdk.json").write_text(json.dumps(SETTINGS))

    def check(*rules: Any, settings: bool = True) -> list[str]:
        (tmp_path / "rules.json").write_text(json.dumps(rules))
        names = ["rules.json", *(["cdk.json"] if settings else [])]
        files = [word for name in names for word in ("--file", str(tmp_path / name))]
        done = dlq("rules", "test", *files, "--json")
        answer = json.loads(done.stdout)
        assert answer["trial"] is None
        found = answer["files"]["mistakes"]
        assert done.exit_code == (Exit.ATTENTION if found else Exit.DONE)
        return [mistake["why"] for mistake in found]

    return check


def test_good_rules_need_neither_region_nor_credentials(mistakes: Check) -> None:
    assert mistakes(GOOD, {**GOOD, "rule_id": "q"}) == []
    assert mistakes(GOOD, settings=False) == []


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({**GOOD, "action": "HALT"}, "action 'HALT' is unknown"),
        ({**GOOD, "prioritty": 1}, "unknown field 'prioritty'"),
        ({**GOOD, "pattern": {"body": {"x": 1}}}, "neither a list nor an object"),
        ({**GOOD, "action": "DEDICATED_DLQ", "queue": "nope"}, "queue 'nope' is unknown"),
        ({**GOOD, "policy": "silver"}, "policy 'silver' is unknown"),
        (
            {**GOOD, "action": "DELAYED_REDRIVE", "delay_seconds": 7_201},
            "allowed are 0 to 7200 (2 h) (in orders)",
        ),
        # A rule of every pipeline is checked in each.
        ({**GOOD, "pipeline": "*"}, "allowed are action,"),
        ({**GOOD, "pipeline": "order"}, "no pipeline 'order'; there are *, orders, invoices"),
        ({"rule_id": "r", "action": "HOLD"}, "it has no pipeline; write '*' for every pipeline"),
        ({"pipeline": "orders", "action": "HOLD"}, "rule 1 has no rule_id"),
        ("HOLD", "rule 1 should be an object"),
    ],
)
def test_a_mistake_is_named(mistakes: Check, rule: Any, why: str) -> None:
    [reason] = mistakes(rule)
    assert why in reason


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "it is not readable: not JSON at line 1 column 2"),
        ('{"rules": []}', "it should be a list of rules"),
        ('[{"rule_id": "r", "rule_id": "q"}]', "a key appears twice"),
        ("- rule_id: r\n  rule_id: q\n", "line 2: rule_id appears twice"),
        ("- rule_id: r\n  priority: 1_0\n", "line 2: put a text into double quotes"),
        ("- rule_id: r\n  enabled: no\n", "line 2: put a text into double quotes"),
        ("- rule_id: r\n   action: HOLD\n", "line 2 is not a column of a rule"),
        ("  rule_id: r\n", "line 1 is not a column of a rule"),
        ("stop acme\n", "line 1 is not a column of a rule"),
    ],
)
def test_a_file_that_can_not_be_read_as_rules_is_a_mistake(
    dlq: Any, offline: None, text: str, why: str
) -> None:
    done = dlq("rules", "test", "--file", "-", answers=text)
    assert done.exit_code == Exit.ATTENTION
    assert why in done.stdout


def test_a_rule_in_two_files_is_a_mistake(dlq: Any, tmp_path: Path, offline: None) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps([GOOD]))
    done = dlq("rules", "test", "--file", str(tmp_path / "a.json"), "--file",
               str(tmp_path / "b.json"))  # fmt: skip
    assert done.exit_code == Exit.ATTENTION
    assert f"b.json: r: {tmp_path}/a.json has it already" in done.stdout


def test_without_a_cdk_json_it_says_what_it_could_not_check(
    dlq: Any, offline: None, written: Any
) -> None:
    path = written(
        {**GOOD, "prioritty": 1},
        {**GOOD, "rule_id": "q", "action": "DEDICATED_DLQ", "queue": "bulk", "policy": "gold"},
        {**GOOD, "pipeline": "*", "rule_id": "bad", "action": "HALT"},
    )
    done = dlq("rules", "test", "--file", path)
    assert done.exit_code == Exit.ATTENTION
    assert done.stdout.endswith(
        "3 rules, 1 mistake.\nNot checked without a cdk.json: fields prioritty, tenantId; "
        "dedicated DLQs bulk; policies gold.\n"
    )


def test_a_malformed_cdk_json_is_a_usage_error(
    dlq: Any, tmp_path: Path, offline: None, written: Any
) -> None:
    for text in ('{"context": {}}', '{"context": {"pipelines": ["orders"]}}'):
        (tmp_path / "cdk.json").write_text(text)
        done = dlq("rules", "test", "--file", written(), "--file", str(tmp_path / "cdk.json"))
        assert done.exit_code == Exit.USAGE
        assert "is not a cdk.json with pipelines" in done.stderr


def test_the_projects_own_settings_are_understood(dlq: Any, offline: None) -> None:
    settings = Path(__file__).parents[3] / "cdk.json"
    done = dlq("rules", "test", "--file", "-", "--file", str(settings), answers=json.dumps([GOOD]))
    assert done.exit_code == Exit.DONE, done.output
