"""CloudWatch, SNS and the logs: what an alarm takes, what missing data means, who may publish."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tools.verify_aws.account import AskedAccount, allow, expect, refused, taken
from tools.verify_aws.check import check


def alarm_of(account: AskedAccount, **settings: Any) -> dict[str, Any]:
    """A new alarm on a metric that nothing publishes, as CloudWatch is asked for it."""
    watch, name = account.client("cloudwatch"), account.name("alarm")
    account.remove(f"alarm {name}", lambda: watch.delete_alarms(AlarmNames=[name]))
    return {
        "AlarmName": name,
        "Namespace": name,
        "MetricName": "Never",
        "Statistic": "Maximum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        **settings,
    }


def alarm(account: AskedAccount, **settings: Any) -> str:
    """The name of such an alarm."""
    made = alarm_of(account, **settings)
    taken(account.client("cloudwatch").put_metric_alarm, **made)
    return str(made["AlarmName"])


@check("cloudwatch-description", creates="an alarm", dollars=0.001)
def description(account: AskedAccount) -> str:
    """Is a description of 1,024 characters taken, and one more refused?"""
    alarm(account, AlarmDescription="x" * 1024)
    too_long = alarm_of(account, AlarmDescription="x" * 1025)
    code = refused(account.client("cloudwatch").put_metric_alarm, **too_long)
    return f"1,025 refused with {code}"


@check("cloudwatch-missing-data", creates="two alarms", dollars=0.001, seconds=420)
def missing_data(account: AskedAccount) -> str:
    """Does an alarm without data ring if missing data is breaching, and stay quiet otherwise?"""
    names = {
        treat: alarm(account, TreatMissingData=treat) for treat in ("breaching", "notBreaching")
    }
    watch = account.client("cloudwatch")

    def states() -> dict[str, str] | None:
        found = watch.describe_alarms(AlarmNames=list(names.values()))["MetricAlarms"]
        seen = {each["AlarmName"]: each["StateValue"] for each in found}
        now = {treat: seen.get(name, "") for treat, name in names.items()}
        return None if "INSUFFICIENT_DATA" in now.values() else now

    began = account.clock()
    seen = account.until(states, 360, "both alarms have a state", every=10)
    expect(seen == {"breaching": "ALARM", "notBreaching": "OK"}, f"the states are {seen}")
    return f"ALARM and OK after {account.clock() - began:.0f} s"


@check("sns-managed-key", creates="a topic and an alarm", dollars=0.001, seconds=90)
def managed_key(account: AskedAccount) -> str:
    """Does an alarm fail to publish to a topic under SNS's own key?"""
    sns, watch = account.client("sns"), account.client("cloudwatch")
    topic = sns.create_topic(
        Name=account.name("topic"), Attributes={"KmsMasterKeyId": "alias/aws/sns"}
    )["TopicArn"]
    account.remove(f"topic {topic}", lambda: sns.delete_topic(TopicArn=topic))
    name = alarm(account, AlarmActions=[topic])
    watch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a check")

    def acted() -> str:
        items = watch.describe_alarm_history(AlarmName=name, HistoryItemType="Action")
        return "; ".join(each["HistorySummary"] for each in items["AlarmHistoryItems"])

    said = str(account.until(acted, 60, "the alarm has acted", every=3))
    expect("fail" in said.lower(), f"the alarm's history says: {said}")
    return said.replace(topic, "the topic")


@check("cloudwatch-mute-rule", creates="an alarm and a mute rule", dollars=0.001, seconds=30)
def mute_rule(account: AskedAccount) -> str:
    """Is a mute rule taken as `dlq mute` writes it?"""
    watch, rule = account.client("cloudwatch"), account.name("mute")
    muted = alarm(account)
    begins = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    account.remove(
        f"mute rule {rule}", lambda: watch.delete_alarm_mute_rule(AlarmMuteRuleName=rule)
    )
    taken(
        watch.put_alarm_mute_rule,
        Name=rule,
        Description="a check",
        Rule={
            "Schedule": {
                "Expression": f"at({begins:%Y-%m-%dT%H:%M})",
                "Duration": "PT1H",
                "Timezone": "UTC",
            }
        },
        MuteTargets={"AlarmNames": [muted]},
        ExpireDate=begins + timedelta(hours=1),
    )
    seen = watch.get_alarm_mute_rule(AlarmMuteRuleName=rule)
    return f"taken; its status is {seen.get('Status')}"


@check("cloudwatch-dashboard-limits", creates="a dashboard", dollars=0.01)
def dashboard_limits(account: AskedAccount) -> str:
    """Are 500 widgets taken without a complaint, and 501 refused?"""
    watch, name = account.client("cloudwatch"), account.name("board")
    account.remove(f"dashboard {name}", lambda: watch.delete_dashboards(DashboardNames=[name]))
    widget = {"type": "text", "width": 1, "height": 1, "properties": {"markdown": "x"}}

    def body(widgets: int) -> str:
        return json.dumps({"widgets": [widget] * widgets})

    answer = taken(watch.put_dashboard, DashboardName=name, DashboardBody=body(500))
    said = answer.get("DashboardValidationMessages")
    expect(not said, f"500 widgets: {said}")
    code = refused(watch.put_dashboard, DashboardName=name, DashboardBody=body(501))
    return f"501 refused with {code}"


# Prints what it is told, as functions of ours print their figures.
PRINTS = """
def handler(event, context):
    print(event["line"])
"""


@check("logs-emf", "logs-emf-json", creates="a function and a metric", dollars=0.01, seconds=750)
def emf(account: AskedAccount) -> str:
    """Does a line that a function prints beside its JSON log become a metric?"""
    watch, group = account.client("cloudwatch"), account.log_group()
    function = account.function(
        PRINTS,
        [allow(["logs:CreateLogStream", "logs:PutLogEvents"], "*")],
        LoggingConfig={"LogFormat": "JSON", "LogGroup": group},
    )
    now = int(datetime.now(UTC).timestamp() * 1000)
    metric = {
        "Namespace": group,
        "Dimensions": [["Pipeline"]],
        "Metrics": [{"Name": "Redriven", "Unit": "Count"}],
    }
    line = {
        "_aws": {"Timestamp": now, "CloudWatchMetrics": [metric]},
        "Pipeline": "orders",
        "Redriven": [1, 2],
    }
    account.client("lambda").invoke(
        FunctionName=function, Payload=json.dumps({"line": json.dumps(line)})
    )
    moment = datetime.fromtimestamp(now / 1000, UTC)

    def points() -> Any:
        return watch.get_metric_statistics(
            Namespace=group,
            MetricName="Redriven",
            Dimensions=[{"Name": "Pipeline", "Value": "orders"}],
            StartTime=moment - timedelta(minutes=5),
            EndTime=moment + timedelta(minutes=5),
            Period=60,
            Statistics=["Sum", "SampleCount"],
        )["Datapoints"]

    began = account.clock()
    point = account.until(points, 600, "the metric has a data point", every=10)[0]
    seen = f"sum {point['Sum']:g}, {point['SampleCount']:g} samples"
    expect((point["Sum"], point["SampleCount"]) == (3, 2), seen)
    return f"{seen}, after {account.clock() - began:.0f} s"


@check("logs-insights", creates="a log group", seconds=60)
def insights(account: AskedAccount) -> str:
    """Is a query of Logs Insights taken as `dlq show --logs` writes it?"""
    group, now = account.log_group(), int(datetime.now(UTC).timestamp())
    taken(
        account.client("logs").start_query,
        logGroupName=group,
        startTime=now - 60,
        endTime=now,
        queryString='fields @timestamp, @message | filter @requestId = "a" or @message like "a"'
        " | sort @timestamp asc",
        limit=10,
    )
    return "taken"
