"""Rules as a file: `dlq rules list --yaml`, `apply`, and `test --file`, without AWS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.cli.exit import Exit
from tests.console.rules import hold, lacks, meanwhile, typed
from tests.each_row import each_row

CALLER = "arn:aws:sts::123456789012:user/moto"
GOOD: dict[str, Any] = {
    "pipeline": "orders",
    "rule_id": "r",
    "action": "HOLD",
    "tenantId": "a",
    "created_by": "me",
}
OLD = {"action": "HOLD", "tenantId": "b", "created_by": "them"}
APPLY = "apply rules.json --reason reviewed"
PRUNE = f"{APPLY} --prune"
NAMED = f"{PRUNE} --confirm deadletter"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def orders(cloud: Any, folder: Path) -> Any:
    """Deployed pipelines `orders` and `invoices`."""
    cloud.deploy("orders", "invoices", context=["tenantId"])
    return cloud


def write(*rules: Any) -> None:
    Path("rules.json").write_text(json.dumps(rules))


def applied(dlq: Any, line: str, ends: Exit = Exit.DONE) -> Any:
    """The answer, and what was done to each rule."""
    answer = json.loads(typed(dlq, line, "--yes", "--json", ends=ends).stdout)
    did = {}
    for each in answer["rules"]:
        what = "changed" if each["before"] and each["after"] else "removed"
        key = f"{each['pipeline']}/{each['rule_id']}"
        did[key] = "added" if each["before"] is None else what
    return answer, did


# As YAML.


def test_the_yaml_is_a_list_in_an_order_that_never_changes(orders: Any, dlq: Any) -> None:
    orders.rule("b", action="HOLD", tenantId="a", status="VALID", checked_at=1, yes="no")
    orders.rule("a", "invoices", pattern='{"body": {"n": [0.1]}}', action="HOLD", priority=7)
    orders.rule("c", "*", reason='it\'s "late": # 7', tenantId="a", action="HOLD")
    text = typed(dlq, "list --yaml").stdout
    assert text.splitlines()[:3] == ['- pipeline: "*"', '  rule_id: "c"', '  action: "HOLD"']
    rules = yaml.safe_load(text)
    keys = [(rule["pipeline"], rule["rule_id"]) for rule in rules]
    assert keys == [("*", "c"), ("invoices", "a"), ("orders", "b")]
    assert list(rules[0]) == ["pipeline", "rule_id", "action", "tenantId", "reason"]
    assert rules[0]["reason"] == 'it\'s "late": # 7'
    assert (rules[1]["pattern"], rules[1]["priority"]) == ({"body": {"n": [0.1]}}, 7)
    assert ("status" in rules[2], rules[2]["yes"]) == (False, "no")
    assert json.loads(typed(dlq, "list --yaml --json").stdout)["file"] == rules
    # Of some pipelines it has the rules of all too.
    some = yaml.safe_load(typed(dlq, "list orders --yaml").stdout)
    assert [rule["rule_id"] for rule in some] == ["c", "b"]
    typed(dlq, "list nope --yaml", ends=Exit.ABSENT)


def test_what_is_listed_as_yaml_is_applied_as_no_change(orders: Any, dlq: Any) -> None:
    assert typed(dlq, "list --yaml").stdout == "[]\n"
    orders.rule("a", action="hold", tenantId="a", priority="7", expires_at="2099-01-01")
    orders.rule("b", "*", action="HOLD", pattern='{"body": {"n": [0.1, null, true, 1e23]}}')
    orders.rule("c", action="HOLD", pattern={"body": {"n": [{"numeric": [">", 0.5]}]}})
    Path("rules.yaml").write_text(typed(dlq, "list --yaml").stdout)
    before = orders.rules()
    assert "3 rules unchanged." in typed(dlq, "apply rules.yaml --reason x").stdout
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
    typed(dlq, "apply - --reason x --yes", answers=text)
    assert orders.rules()["stop-acme"] == {
        "pipeline": "*", "rule_id": "stop-acme", "action": "HOLD", "tenantId": "007",
        "priority": 7, "created_by": CALLER,
    }  # fmt: skip


# Applied.

SHARED, THEIRS = {**GOOD, "pipeline": "*"}, {**OLD, "pipeline": "invoices"}


@each_row(
    ("there", "file", "line", "did"),
    [
        ({"r": OLD, "other": OLD}, [GOOD, {**GOOD, "rule_id": "new"}], APPLY,
         {"orders/new": "added", "orders/r": "changed"}),
        # A file need not name the author of a rule.
        ({"r": {**OLD, "tenantId": "a"}},
         [{key: value for key, value in GOOD.items() if key != "created_by"}], APPLY, {}),
        # Rules go only where the file has some.
        ({"old": OLD, "shared": {**OLD, "pipeline": "*"}, "theirs": THEIRS}, [GOOD],
         NAMED, {"orders/r": "added", "orders/old": "removed"}),
        # With nothing to remove, --prune is not severe.
        ({"theirs": THEIRS}, [GOOD], PRUNE, {"orders/r": "added"}),
        ({"theirs": OLD}, [], PRUNE, {}),
        # A rule that goes does not count in the check.
        ({"r": {**OLD, "pipeline": "*"}}, [GOOD, {**SHARED, "rule_id": "other"}], NAMED,
         {"orders/r": "added", "*/other": "added", "*/r": "removed"}),
    ],
)  # fmt: skip
def test_a_file_is_applied(
    orders: Any, dlq: Any, there: dict[str, Any], file: list[Any], line: str, did: dict[str, str]
) -> None:
    hold(orders, **there)
    write(*file)
    assert applied(dlq, line)[1] == did
    gone = {key.partition("/")[2] for key, what in did.items() if what == "removed"} - {"r"}
    assert orders.rules().keys() == {*there, *(rule["rule_id"] for rule in file)} - gone


def test_a_rule_of_a_file_is_written_as_a_person_types_it(orders: Any, dlq: Any) -> None:
    hold(orders, r=OLD, other=OLD)
    new = {**GOOD, "rule_id": "new", "pattern": {"body": {"é": [1.5]}}}
    del new["created_by"]
    write(GOOD, new)
    answer, _ = applied(dlq, APPLY)
    assert (answer["kept"], answer["unchanged"]) == (["orders/other"], 0)
    text = {"pattern": '{"body": {"é": [1.5]}}', "created_by": CALLER}
    assert (orders.rules()["r"], orders.rules()["new"]) == (GOOD, {**new, **text})


@pytest.mark.usefixtures("at_a_terminal")
def test_the_plan_is_shown_before_anything_is_written(orders: Any, dlq: Any) -> None:
    hold(orders, r={**OLD, "created_by": "me"}, old=OLD)
    write(GOOD, {**GOOD, "rule_id": "new"})
    plan = ("+ orders/new", "~ orders/r tenantId: b -> a", "- orders/old")
    where = "App deadletter in account 123456789012, eu-west-1."
    typed(dlq, PRUNE, answers="n\n", ends=Exit.ATTENTION, refuses=(*plan, where))
    typed(dlq, f"{PRUNE} --dry-run", says=(*plan, "0 rules unchanged."))
    stays = "--prune would remove it): orders/old"
    typed(dlq, APPLY, answers="n\n", ends=Exit.ATTENTION, refuses=stays)
    assert set(orders.rules()) == {"r", "old"}


def test_removing_rules_takes_the_name_of_the_app(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(orders, old=OLD)
    write(GOOD)
    refuses = "so --yes does not do: add --confirm deadletter"
    typed(dlq, PRUNE, "--yes", ends=Exit.USAGE, refuses=refuses)
    refuses = "--confirm is 'prod', and not deadletter: nothing was done"
    typed(dlq, f"{PRUNE} --confirm prod", ends=Exit.USAGE, refuses=refuses)
    monkeypatch.setattr("console.cli.asking.interactive", lambda: True)
    asked = typed(dlq, PRUNE, answers="yes\n", ends=Exit.ATTENTION)
    assert "account 123456789012, eu-west-1" in asked.stderr
    assert set(orders.rules()) == {"old"}
    typed(dlq, PRUNE, answers="deadletter\n")
    assert set(orders.rules()) == {"r"}


@each_row(
    ("rules", "ends", "why"),
    [
        ([{**GOOD, "action": "HALT"}], Exit.ATTENTION, "r would be INVALID in orders: action"),
        ([GOOD, GOOD], Exit.ATTENTION, "r: rules.json has it already"),
        ([{"rule_id": "r"}], Exit.ATTENTION, "r: it has no pipeline"),
        ([GOOD, SHARED], Exit.ATTENTION, "another rule with the same id comes first"),
        ([{**SHARED, "rule_id": "same"}], Exit.ATTENTION, "another rule with the same id comes"),
        (["a", "b", "c", "d", "e"], Exit.ATTENTION, "rule 2 should be an object; "
         "rule 3 should be an object; rule 4 should be an object; and 2 more."),
        ([{**GOOD, "pipeline": "order"}], Exit.ABSENT, "no pipeline 'order'"),
    ],
)  # fmt: skip
def test_a_file_with_a_mistake_is_not_applied_at_all(
    orders: Any, dlq: Any, rules: list[Any], ends: Exit, why: str
) -> None:
    hold(orders, same=OLD)
    write({**GOOD, "rule_id": "good"}, *rules)
    done = typed(dlq, APPLY, "--yes", ends=ends)
    assert why in done.stderr
    assert ("Nothing was written: " in done.stderr) is (ends == Exit.ATTENTION)
    assert set(orders.rules()) == {"same"}


def test_a_rule_that_another_person_changes_meanwhile_is_left_alone(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(orders, r=OLD, old=OLD, fine=OLD)
    theirs = {**OLD, "tenantId": "c", "enabled": False}
    fine = iter([OLD])

    def change() -> None:
        for name in ("r", "old", "new") if next(fine, None) else ():
            orders.rule(name, **theirs)

    meanwhile(monkeypatch, change)
    write(*({**GOOD, "rule_id": name} for name in ("r", "new", "fine")))
    answer, did = applied(dlq, NAMED, ends=Exit.ATTENTION)
    assert answer["raced"] == ["orders/new", "orders/r", "orders/old"]
    assert did == {"orders/fine": "changed"}
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
ISOLATE = {**GOOD, "rule_id": "q", "action": "DEDICATED_DLQ", "queue": "bulk", "policy": "gold"}


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Neither a region nor credentials: the first call of AWS would fail."""
    monkeypatch.setenv("AWS_REGION", "")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    Path("cdk.json").write_text(json.dumps(SETTINGS))


def check(dlq: Any, *files: str, answers: str = "", wrong: bool = True) -> str:
    """What is said of files; the exit status says whether there is a mistake."""
    words = [word for file in files for word in ("--file", file)]
    ends = Exit.ATTENTION if wrong else Exit.DONE
    return str(typed(dlq, "test", *words, answers=answers, ends=ends).stdout)


def test_good_rules_need_neither_region_nor_credentials(dlq: Any, offline: None) -> None:
    write(GOOD, ISOLATE)
    assert check(dlq, "rules.json", "cdk.json", wrong=False) == "2 rules, 0 mistakes.\n"
    answer = json.loads(typed(dlq, "test --file rules.json --json").stdout)
    assert (answer["trial"], answer["files"]["mistakes"]) == (None, [])
    # The project's own settings.
    own = str(Path(__file__).parents[3] / "cdk.json")
    check(dlq, "-", own, answers=json.dumps([GOOD]), wrong=False)


@each_row(
    ("rule", "why"),
    [
        ({**GOOD, "action": "HALT"}, "action 'HALT' is unknown"),
        ({**GOOD, "prioritty": 1}, "unknown field 'prioritty'"),
        ({**GOOD, "pattern": {"body": {"x": 1}}}, "neither a list nor an object"),
        ({**GOOD, "action": "DEDICATED_DLQ", "queue": "nope"}, "queue 'nope' is unknown"),
        ({**GOOD, "policy": "silver"}, "policy 'silver' is unknown"),
        ({**GOOD, "action": "DELAYED_REDRIVE", "delay_seconds": 7_201},
         "allowed are 0 to 7200 (2 h) (in orders)"),
        # A rule of every pipeline is checked in each.
        (SHARED, "allowed are action,"),
        ({**GOOD, "pipeline": "order"}, "no pipeline 'order'; there are *, orders, invoices"),
        ({"rule_id": "r", "action": "HOLD"}, "it has no pipeline; write '*' for every pipeline"),
        ({"pipeline": "orders", "action": "HOLD"}, "rule 1 has no rule_id"),
        ("HOLD", "rule 1 should be an object"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(dlq: Any, offline: None, rule: Any, why: str) -> None:
    write(rule)
    says = check(dlq, "rules.json", "cdk.json")
    assert lacks(says, why, ", 1 mistake.") == []


@each_row(
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
    assert why in check(dlq, "-", answers=text)


def test_files_are_checked_together(dlq: Any, offline: None) -> None:
    write(GOOD)
    Path("b.json").write_text(json.dumps([GOOD]))
    assert "b.json: r: rules.json has it already" in check(dlq, "rules.json", "b.json")
    write({**GOOD, "prioritty": 1}, ISOLATE, {**SHARED, "rule_id": "bad", "action": "HALT"})
    assert check(dlq, "rules.json").endswith(
        "3 rules, 1 mistake.\nNot checked without a cdk.json: fields prioritty, tenantId; "
        "dedicated DLQs bulk; policies gold.\n"
    )
    for text in ('{"context": {}}', '{"context": {"pipelines": ["orders"]}}'):
        Path("cdk.json").write_text(text)
        done = typed(dlq, "test --file rules.json --file cdk.json", ends=Exit.USAGE)
        assert "is not a cdk.json with pipelines" in done.stderr
