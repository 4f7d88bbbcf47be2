"""What a key's policy lets a service do, and that it is what synth gives or prints."""

from __future__ import annotations

from typing import Any

import pytest

from console.operations.key_policy import KeyUse, key_uses, lacking, with_statement
from infra.keys import service_statements
from infra.settings import AppDeployment
from tests.each_row import each_row

HOME = {"partition": "aws", "region": "eu-west-1", "account": "111122223333"}
USES = key_uses("deadletter", **HOME)
CLOUDWATCH = USES["cloudwatch"]
ROOT = {
    "Effect": "Allow",
    "Principal": {"AWS": "arn:aws:iam::111122223333:root"},
    "Action": "kms:*",
    "Resource": "*",
}
BOTH = ["kms:Decrypt", "kms:GenerateDataKey"]


def of(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def cloudwatch(**changes: Any) -> dict[str, Any]:
    return {**CLOUDWATCH.statement, **changes}


def test_what_synth_gives_is_what_is_asked_for() -> None:
    given = service_statements(AppDeployment(), **HOME)
    assert given == [use.statement for use in USES.values()]
    for use in USES.values():
        assert lacking(of(ROOT, *given), use) == ([], [])
    # With a topic of yours, the app's key has nothing to do with alarms.
    topic = "arn:aws:sns:eu-west-1:111122223333:pages"
    own = service_statements(AppDeployment(alarm_topic_arn=topic), **HOME)
    assert own == [USES["logs"].statement]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_each_statement_and_each_of_its_actions_is_needed(use: KeyUse) -> None:
    others = [other.statement for other in USES.values() if other is not use]
    assert lacking(of(ROOT, *others), use) == (list(use.actions), [])
    for action in use.actions:
        rest = [other for other in use.actions if other != action]
        policy = of(ROOT, *others, {**use.statement, "Action": rest})
        assert lacking(policy, use) == ([action], [])


ALARMS = "arn:aws:cloudwatch:eu-west-1:111122223333:alarm:"


@each_row(
    "statement",
    [
        cloudwatch(Action="kms:*"),
        cloudwatch(Action=["kms:decrypt", "kms:GenerateDataKey*"]),
        cloudwatch(Principal="*"),
        cloudwatch(Principal={"AWS": "*"}),
        cloudwatch(Principal={"Service": ["sns.amazonaws.com", "cloudwatch.amazonaws.com"]}),
        cloudwatch(Condition={}),
        cloudwatch(Condition={"StringLike": {"AWS:sourceAccount": "1111*"}}),
        cloudwatch(Condition={"ArnLike": {"aws:SourceArn": f"{ALARMS}*"}}),
    ],
)
def test_it_is_allowed_in_every_form_that_iam_takes(statement: dict[str, Any]) -> None:
    assert lacking(of(ROOT, statement), CLOUDWATCH) == ([], [])
    assert lacking({"Statement": statement}, CLOUDWATCH) == ([], [])


@each_row(
    "statement",
    [
        ROOT,
        cloudwatch(Effect="Deny"),
        cloudwatch(Principal={"Service": "events.amazonaws.com"}),
        cloudwatch(Principal={"AWS": "cloudwatch.amazonaws.com"}),
        cloudwatch(Condition={"StringEquals": {"aws:SourceAccount": "999999999999"}}),
        cloudwatch(Action="kms:Describe*"),
    ],
)
def test_it_is_not_allowed(statement: dict[str, Any]) -> None:
    assert lacking(of(ROOT, statement), CLOUDWATCH) == (BOTH, [])


def test_a_denial_wins() -> None:
    denied = {"Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt"}
    assert lacking(of(cloudwatch(), denied), CLOUDWATCH) == (["kms:Decrypt"], [])


@each_row(
    "statements",
    [
        [cloudwatch(Condition={"StringEquals": {"aws:PrincipalOrgID": "o-1"}})],
        [cloudwatch(Condition={"ArnLike": {"aws:SourceArn": f"{ALARMS}one"}})],
        [cloudwatch(Condition={"StringNotEquals": {"aws:SourceAccount": "9"}})],
        [{"Effect": "Allow", "NotPrincipal": {"AWS": "x"}, "Action": "kms:*"}],
        [{"Effect": "Allow", "Principal": "*", "NotAction": "kms:Put*"}],
        [
            cloudwatch(),
            {
                "Effect": "Deny",
                "Principal": "*",
                "Action": "kms:*",
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    ],
)
def test_what_is_not_judged_is_said(statements: list[dict[str, Any]]) -> None:
    assert lacking(of(ROOT, *statements), CLOUDWATCH) == ([], BOTH)


def test_a_statement_of_the_same_name_is_replaced() -> None:
    before = of(ROOT, cloudwatch(Action="kms:Decrypt"))
    after = with_statement(before, CLOUDWATCH)
    assert after["Statement"] == [ROOT, CLOUDWATCH.statement]
