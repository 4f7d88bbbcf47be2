"""Which alarms a refused rule rings."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from deadletter.rules.checker import CheckedBatch, RuleRefusal
from deadletter.signals.figures import COUNTED
from handlers import check_rules

CONTEXT = SimpleNamespace(
    function_name="shop-check-rules",
    memory_limit_in_mb=256,
    invoked_function_arn="arn:aws:lambda:eu-west-1:111122223333:function:shop-check-rules",
    aws_request_id="request",
)


@pytest.mark.parametrize(
    ("refused_by", "disabled", "counted"),
    [
        # The watches of these pipelines publish the level each minute.
        (("orders", "refunds"), False, {("RuleInvalid", "orders"), ("RuleInvalid", "refunds")}),
        # No watch reads the rule of a pipeline that does not exist: this is the only page.
        (("*",), False, {("RuleInvalid", "*"), ("RuleTrouble", "*")}),
        # A person has switched it off: nobody is called.
        (("*",), True, {("RuleInvalid", "*")}),
    ],
)
def test_a_refused_rule_is_counted_where_it_matches_nothing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refused_by: tuple[str, ...],
    disabled: bool,
    counted: set[tuple[str, str]],
) -> None:
    refusal = RuleRefusal("orders", "stop", "unknown field 'tenant'", refused_by, disabled=disabled)
    checked = CheckedBatch((refusal,))
    monkeypatch.setenv("APP", "shop")
    monkeypatch.setattr(check_rules, "handle", lambda: lambda _records: checked)
    assert check_rules.handler({"Records": []}, CONTEXT) == {"batchItemFailures": []}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    written = [line for line in lines if "pipeline" in line]
    assert {line["app"] for line in written} == {"shop"}
    assert {
        (name, line["pipeline"]) for line in written for name in line.keys() & COUNTED.keys()
    } == counted


def test_lambda_begins_again_with_an_edit_that_could_not_be_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = CheckedBatch((), "7", "the audit table: ThrottlingException")
    monkeypatch.setattr(check_rules, "handle", lambda: lambda _records: failed)
    answer = check_rules.handler({"Records": []}, CONTEXT)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "7"}]}
