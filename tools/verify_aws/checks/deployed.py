"""What a deployment hands to CloudWatch: the alarms and dashboards of our own templates."""

from __future__ import annotations

from functools import partial

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
    watch, wrong, count = account.client("cloudwatch"), [], 0
    made = templates.synthesized(account.region)
    for name, properties in templates.resources(made, "AWS::CloudWatch::Dashboard"):
        board, count = account.name("board"), count + 1
        account.remove(
            f"dashboard {board}",
            partial(watch.delete_dashboards, DashboardNames=[board]),
        )
        try:
            answer = watch.put_dashboard(
                DashboardName=board, DashboardBody=properties["DashboardBody"]
            )
        except ClientError as error:
            if code_of(error) in NOT_ALLOWED:
                raise Unclear(str(error)) from error
            wrong.append(f"{name}: {error}")
        else:
            wrong += [
                f"{name} {each.get('DataPath')}: {each.get('Message')}"
                for each in answer.get("DashboardValidationMessages", [])
            ]
    expect(not wrong, "; ".join(wrong))
    expect(count > 0, "no template has a dashboard")
    return f"{count} bodies taken without a message"


@check(
    "cloudwatch-alarms-of-ours",
    creates="the alarms of two apps of ours, without actions",
    dollars=0.05,
    seconds=180,
)
def alarms_of_ours(account: AskedAccount) -> str:
    """Does CloudWatch take each alarm of our templates?"""
    watch, wrong, count = account.client("cloudwatch"), [], 0
    made = templates.synthesized(account.region)
    for name, properties in templates.resources(made, "AWS::CloudWatch::Alarm"):
        alarm, count = account.name("alarm"), count + 1
        settings = {key: value for key, value in properties.items() if key not in ACTIONS}
        settings["AlarmName"] = alarm
        account.remove(
            f"alarm {alarm}",
            partial(watch.delete_alarms, AlarmNames=[alarm]),
        )
        # CloudWatch takes three a second.
        account.pause(0.4)
        try:
            watch.put_metric_alarm(**settings)
        except ClientError as error:
            if code_of(error) in NOT_ALLOWED:
                raise Unclear(str(error)) from error
            wrong.append(f"{name}: {error}")
    expect(not wrong, "; ".join(wrong))
    expect(count > 0, "no template has an alarm")
    return f"{count} alarms taken"
