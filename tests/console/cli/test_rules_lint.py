"""`dlq rules lint`: rules in files, checked without AWS."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit

GOOD = {"pipeline": "orders", "rule_id": "r", "tenantId": "a", "action": "HOLD"}
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

Lint = Callable[..., Any]


@pytest.fixture(autouse=True)
def _no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")


@pytest.fixture
def lint(dlq: Any, tmp_path: Path) -> Lint:
    """Lints a list of rules; returns the reason of each mistake."""
    (tmp_path / "cdk.json").write_text(json.dumps(SETTINGS))

    def linted(*rules: Any, settings: bool = True) -> list[str]:
        (tmp_path / "rules.json").write_text(json.dumps(rules))
        more = ["--settings", str(tmp_path / "cdk.json")] if settings else []
        done = dlq("rules", "lint", str(tmp_path / "rules.json"), "--json", *more)
        answer = json.loads(done.stdout)
        assert done.exit_code == (Exit.ATTENTION if answer["mistakes"] else Exit.DONE)
        return [mistake["why"] for mistake in answer["mistakes"]]

    return linted


def test_good_rules_need_neither_region_nor_credentials(lint: Lint) -> None:
    assert lint(GOOD, {**GOOD, "rule_id": "q"}) == []
    assert lint(GOOD, settings=False) == []


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"action": "HALT"}, "action 'HALT' is unknown"),
        ({"prioritty": 1}, "unknown field 'prioritty'"),
        ({"pattern": {"body": {"x": 1}}}, "neither a list nor an object"),
        ({"action": "DEDICATED_DLQ", "queue": "nope"}, "queue 'nope' is unknown"),
        ({"policy": "silver"}, "policy 'silver' is unknown"),
        ({"action": "DELAYED_REDRIVE", "delay_seconds": 7_201}, "allowed are 0 to 7200"),
    ],
)
def test_a_mistake_is_named(lint: Lint, columns: Any, why: str) -> None:
    [reason] = lint({**GOOD, **columns})
    assert why in reason
    assert reason.endswith("(in orders)")


def test_a_rule_of_every_pipeline_is_checked_in_each(lint: Lint) -> None:
    [reason] = lint({**GOOD, "pipeline": "*"})
    assert "unknown field 'tenantId'" in reason
    assert reason.endswith("(in invoices)")


def test_a_pipeline_that_is_not_in_the_settings_is_a_mistake(lint: Lint) -> None:
    assert lint({**GOOD, "pipeline": "order"}) == [
        "there is no pipeline 'order'; there are *, orders, invoices"
    ]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"rule_id": "r", "action": "HOLD"}, "it has no pipeline; write '*' for every pipeline"),
        ({"pipeline": "orders", "action": "HOLD"}, "rule 1 has no rule_id"),
        ("HOLD", "rule 1 should be a JSON object"),
    ],
)
def test_a_rule_needs_pipeline_and_id(lint: Lint, rule: Any, why: str) -> None:
    assert lint(rule) == [why]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "it is not readable: not JSON at line 1 column 2"),
        ('{"rules": []}', "it should be a JSON list of rules"),
        ('[{"rule_id": "r", "rule_id": "q"}]', "a key appears twice"),
    ],
)
def test_a_file_that_is_no_list_of_rules_is_a_mistake(dlq: Any, text: str, why: str) -> None:
    done = dlq("rules", "lint", "-", answers=text)
    assert done.exit_code == Exit.ATTENTION
    assert why in done.stdout


def test_a_rule_in_two_files_is_a_mistake(dlq: Any, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps([GOOD]))
    done = dlq("rules", "lint", str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert done.exit_code == Exit.ATTENTION
    assert f"b.json: r: {tmp_path}/a.json has it already" in done.stdout


def test_without_settings_it_says_what_it_could_not_check(dlq: Any, tmp_path: Path) -> None:
    rules = [
        {**GOOD, "prioritty": 1},
        {**GOOD, "rule_id": "q", "action": "DEDICATED_DLQ", "queue": "bulk", "policy": "gold"},
        {**GOOD, "pipeline": "*", "rule_id": "bad", "action": "HALT"},
    ]
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    done = dlq("rules", "lint", str(tmp_path / "rules.json"))
    assert done.exit_code == Exit.ATTENTION
    assert done.stdout.endswith(
        "3 rules, 1 mistake.\nNot checked without --settings: contexts prioritty, tenantId; "
        "dedicated DLQs bulk; policies gold.\n"
    )


def test_malformed_settings_are_a_usage_error(dlq: Any, tmp_path: Path) -> None:
    for text in ("[", "{}", '{"context": {"pipelines": ["orders"]}}'):
        (tmp_path / "cdk.json").write_text(text)
        done = dlq("rules", "lint", "-", "--settings", str(tmp_path / "cdk.json"), answers="[]")
        assert done.exit_code == Exit.USAGE
        assert "is not a cdk.json with pipelines" in done.stderr


def test_the_projects_own_settings_are_understood(dlq: Any) -> None:
    settings = Path(__file__).parents[3] / "cdk.json"
    done = dlq("rules", "lint", "-", "--settings", str(settings), answers=json.dumps([GOOD]))
    assert done.exit_code == Exit.DONE, done.output
