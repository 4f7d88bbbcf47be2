"""What a deployment hands to CloudWatch: the alarms and dashboards of our own templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from tools.verify_aws import templates
from tools.verify_aws.account import NOT_ALLOWED, AskedAccount, Unclear, code_of, expect
from tools.verify_aws.check import check

# They would name topics that are not there.
ACTIONS = ("AlarmActions", "OKActions", "InsufficientDataActions")


@check(
    "cloudwatch-dashboard-body",
    creates="the dashboards of two apps of ours, one at a time",
    dollars=0.02,
    seconds=120,
)
def dashboards(account: AskedAccount) -> str:
    """Does CloudWatch take the bodies of our dashboards without a complaint?"""
    watch = account.client("cloudwatch")

    def put(properties: Mapping[str, Any]) -> Iterator[str]:
        board = account.name("board")
        account.remove(
            f"dashboard {board}", partial(watch.delete_dashboards, DashboardNames=[board])
        )
        answer = watch.put_dashboard(DashboardName=board, DashboardBody=properties["DashboardBody"])
        for said in answer.get("DashboardValidationMessages", []):
            yield f"{said.get('DataPath')}: {said.get('Message')}"

    return f"{_taken(account, 'Dashboard', put)} bodies taken without a message"


@check(
    "cloudwatch-alarms-of-ours",
    creates="the alarms of two apps of ours, without actions",
    dollars=0.05,
    seconds=180,
)
def alarms_of_ours(account: AskedAccount) -> str:
    """Does CloudWatch take each alarm of our templates?"""
    watch = account.client("cloudwatch")

    def put(properties: Mapping[str, Any]) -> Iterable[str]:
        alarm = account.name("alarm")
        settings = {key: value for key, value in properties.items() if key not in ACTIONS}
        account.remove(f"alarm {alarm}", partial(watch.delete_alarms, AlarmNames=[alarm]))
        # CloudWatch takes three a second.
        account.pause(0.4)
        watch.put_metric_alarm(**{**settings, "AlarmName": alarm})
        return ()

    return f"{_taken(account, 'Alarm', put)} alarms taken"


def _taken(
    account: AskedAccount, kind: str, put: Callable[[Mapping[str, Any]], Iterable[str]]
) -> int:
    """How many of a kind our templates have, all of them put; raises Differs with what was said."""
    wrong: list[str] = []
    made = templates.synthesized(account.region)
    ours = list(templates.resources(made, f"AWS::CloudWatch::{kind}"))
    for name, properties in ours:
        try:
            wrong += [f"{name} {said}" for said in put(properties)]
        except ClientError as error:
            if code_of(error) in NOT_ALLOWED:
                raise Unclear(str(error)) from error
            wrong.append(f"{name}: {error}")
    expect(not wrong, "; ".join(wrong))
    expect(bool(ours), f"no template has one: {kind}")
    return len(ours)
