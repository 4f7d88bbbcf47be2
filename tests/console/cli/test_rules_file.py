"""`dlq rules export` and `import`: the whole table as a file, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import rule_file

CALLER = "arn:aws:sts::123456789012:user/moto"
GOOD: dict[str, Any] = {
    "pipeline": "orders",
    "rule_id": "r",
    "action": "HOLD",
    "tenantId": "a",
    "created_by": "me",
}


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


PRUNED = ("--prune", "--confirm", "deadletter")


def imported(dlq: Any, *arguments: str) -> Any:
    done = dlq("rules", "import", "--yes", "--json", *arguments)
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)


def test_an_export_is_a_list_in_an_order_that_never_changes(orders: Any, dlq: Any) -> None:
    orders.rule("b", action="HOLD", tenantId="a", status="VALID", checked_at=1)
    orders.rule("a", "invoices", pattern='{"body": {"n": [0.1]}}', action="HOLD", priority=7)
    orders.rule("c", "*", reason="x", tenantId="a", action="HOLD")
    done = dlq("rules", "export")
    rules = json.loads(done.stdout)
    assert [(rule["pipeline"], rule["rule_id"]) for rule in rules] == [
        ("*", "c"),
        ("invoices", "a"),
        ("orders", "b"),
    ]
    assert list(rules[0]) == ["pipeline", "rule_id", "action", "tenantId", "reason"]
    assert rules[1]["pattern"] == {"body": {"n": [0.1]}}
    assert "status" not in rules[2]
    assert json.loads(dlq("rules", "export", "--json").stdout)["rules"] == rules


def test_an_export_may_be_of_some_pipelines(orders: Any, dlq: Any) -> None:
    orders.rule("b", action="HOLD", tenantId="a")
    orders.rule("c", "*", tenantId="a", action="HOLD")
    rules = json.loads(dlq("rules", "export", "--pipeline", "*").stdout)
    assert [rule["rule_id"] for rule in rules] == ["c"]
    assert dlq("rules", "export", "--pipeline", "nope").exit_code == Exit.ABSENT


def test_an_export_imports_as_no_change(orders: Any, dlq: Any, tmp_path: Path) -> None:
    orders.rule("a", action="hold", tenantId="a", priority="7", expires_at="2099-01-01")
    orders.rule("b", "*", action="HOLD", pattern='{"body": {"n": [0.1, null, true, 1e23]}}')
    orders.rule("c", action="HOLD", pattern={"body": {"n": [{"numeric": [">", 0.5]}]}})
    (tmp_path / "rules.json").write_text(dlq("rules", "export").stdout)
    before = orders.rules()
    done = dlq("rules", "import", str(tmp_path / "rules.json"))
    assert done.exit_code == Exit.DONE, done.output
    assert "3 rules unchanged." in done.stdout
    assert orders.rules() == before


def test_rules_are_added_and_changed_and_others_stay(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("r", tenantId="b", action="HOLD", created_by="them")
    orders.rule("other", tenantId="b", action="HOLD")
    new = {**GOOD, "rule_id": "new", "pattern": {"body": {"é": [1.5]}}}
    del new["created_by"]
    answer = imported(dlq, written(GOOD, new))
    assert answer["added"] == ["orders/new"]
    assert answer["changed"] == [
        {"rule": "orders/r", "changes": ["tenantId: b -> a", "created_by: them -> me"]}
    ]
    assert (answer["removed"], answer["kept"]) == ([], ["orders/other"])
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
    assert imported(dlq, written(GOOD), *PRUNED)["removed"] == ["orders/old"]
    assert set(orders.rules()) == {"r", "shared", "theirs"}


def test_removing_rules_takes_the_name_of_the_app(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("old", tenantId="a", action="HOLD")
    path = written(GOOD)
    for options, says in (
        (["--yes"], "so --yes does not do: add --confirm deadletter"),
        (["--confirm", "prod"], "--confirm is 'prod', and not deadletter: nothing was done"),
    ):
        done = dlq("rules", "import", path, "--prune", *options)
        assert done.exit_code == Exit.USAGE
        assert says in done.stderr
        assert "old" in orders.rules()


@pytest.mark.usefixtures("at_a_terminal")
def test_the_name_of_the_app_is_typed_at_a_terminal(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("old", tenantId="a", action="HOLD")
    path = written(GOOD)
    asked = dlq("rules", "import", path, "--prune", answers="yes\n")
    assert asked.exit_code == Exit.ATTENTION
    assert "account 123456789012, eu-west-1" in asked.stderr
    assert "old" in orders.rules()
    dlq("rules", "import", path, "--prune", answers="deadletter\n")
    assert set(orders.rules()) == {"r"}


def test_an_empty_file_removes_nothing(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("old", tenantId="a", action="HOLD")
    assert imported(dlq, written(), "--prune")["removed"] == []


def test_a_file_need_not_name_the_author_of_a_rule(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("r", action="HOLD", tenantId="a", created_by="them")
    rule = {name: value for name, value in GOOD.items() if name != "created_by"}
    assert imported(dlq, written(rule))["unchanged"] == 1


@pytest.mark.usefixtures("at_a_terminal")
def test_the_plan_is_shown_before_anything_is_written(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("r", tenantId="b", action="HOLD", created_by="me")
    orders.rule("old", tenantId="a", action="HOLD")
    path = written(GOOD, {**GOOD, "rule_id": "new"})
    done = dlq("rules", "import", path, "--prune", answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    assert "App deadletter in account 123456789012, eu-west-1." in done.stderr
    for step in ("+ orders/new", "~ orders/r  tenantId: b -> a", "- orders/old"):
        assert step in done.stderr
    done = dlq("rules", "import", path, answers="n\n")
    assert "--prune would remove it): orders/old" in done.stderr
    assert set(orders.rules()) == {"r", "old"}


def test_without_a_yes_nothing_is_written(orders: Any, dlq: Any, written: Any) -> None:
    assert dlq("rules", "import", written(GOOD)).exit_code == Exit.USAGE
    assert orders.rules() == {}


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([{**GOOD, "action": "HALT"}], "r would be INVALID in orders: action 'HALT'"),
        ([GOOD, GOOD], "r: it is there twice"),
        ([{"rule_id": "r"}], "r: it has no pipeline"),
        ([GOOD, {**GOOD, "pipeline": "*"}], "another rule with the same id comes first"),
        (
            ["a", "b", "c", "d", "e"],
            "rule 2 should be a JSON object; rule 3 should be a JSON object; "
            "rule 4 should be a JSON object; and 2 more.",
        ),
    ],
)
def test_a_file_with_a_mistake_is_not_imported_at_all(
    orders: Any, dlq: Any, written: Any, rules: Any, why: str
) -> None:
    done = dlq("rules", "import", "--yes", written({**GOOD, "rule_id": "good"}, *rules))
    assert done.exit_code == Exit.ATTENTION
    assert "Nothing was imported" in done.stderr
    assert why in done.stderr
    assert orders.rules() == {}


def test_a_pruned_rule_does_not_count_in_the_check(orders: Any, dlq: Any, written: Any) -> None:
    orders.rule("same", "*", tenantId="a", action="HOLD")
    shared = {**GOOD, "pipeline": "*", "rule_id": "other"}
    path = written({**GOOD, "rule_id": "same"}, shared)
    assert dlq("rules", "import", "--yes", path).exit_code == Exit.ATTENTION
    assert imported(dlq, path, *PRUNED)["removed"] == ["*/same"]


def test_a_pipeline_that_does_not_exist_stops_the_import(
    orders: Any, dlq: Any, written: Any
) -> None:
    done = dlq("rules", "import", "--yes", written({**GOOD, "pipeline": "order"}))
    assert done.exit_code == Exit.ABSENT
    assert orders.rules() == {}


def test_a_rule_that_another_person_changes_meanwhile_is_left_alone(
    orders: Any, dlq: Any, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("r", "old", "fine"):
        orders.rule(name, tenantId="b", action="HOLD")

    def check(*arguments: Any) -> Any:
        for name in ("r", "old", "new"):
            orders.rule(name, tenantId="c", action="HOLD", enabled=False)
        return real(*arguments)

    real = rule_file._check
    monkeypatch.setattr(rule_file, "_check", check)
    path = written(*({**GOOD, "rule_id": name} for name in ("r", "new", "fine")))
    done = dlq("rules", "import", *PRUNED, "--json", path)
    assert done.exit_code == Exit.ATTENTION
    answer = json.loads(done.stdout)
    assert answer["raced"] == ["orders/new", "orders/r", "orders/old"]
    assert [change["rule"] for change in answer["changed"]] == ["orders/fine"]
    assert answer["added"] == answer["removed"] == []
    assert {name: rule["tenantId"] for name, rule in orders.rules().items()} == {
        "r": "c", "old": "c", "new": "c", "fine": "a",
    }  # fmt: skip
