"""Which alarms there are, on which metrics, and what their descriptions say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from deadletter.signals.pages import PIPELINE_ALARMS
from infra.names import pascal_case
from tests.infra.conftest import Synthesize
from tests.infra.templates import Synthesis, filled
from tools.commands_page import commands

DLQ = "deadletter-orders-dlq"
AGE, VISIBLE = "SQS ApproximateAgeOfOldestMessage", "SQS ApproximateNumberOfMessagesVisible"
OURS = "deadletter orders"

# Alarm -> metric, where, statistic, comparison with threshold, breaching of periods x seconds,
# missing data.
LEVEL = ("Maximum", ">= 1", "1 of 3 x 60", "notBreaching")
ALARMS: dict[str, tuple[str, ...]] = {
    "DlqAge": (AGE, DLQ, "Maximum", "> 1800", "3 of 3 x 60", "ignore"),
    "MessageAge": (
        *("Deadletter OldestMessageAge", OURS, "Maximum"),
        *(">= 1800", "1 of 3 x 60", "notBreaching"),
    ),
    "MessageExpiry": (
        *("Deadletter SecondsToExpiry", OURS),
        *("Minimum", "<= 43200", "1 of 3 x 60", "notBreaching"),
    ),
    "DlqDepth": ("Deadletter DlqDepth", OURS, *LEVEL),
    # The heartbeat of the watch too.
    "RedriveStalled": (
        *("Deadletter RedriveStalled", OURS, "Maximum", ">= 1", "3 of 3 x 60", "breaching"),
    ),
    "CircuitTrouble": ("Deadletter CircuitTrouble", OURS, *LEVEL),
    "ParkedUnattended": ("Deadletter ParkedUnattended", OURS, *LEVEL),
    "RuleTrouble": ("Deadletter RuleTrouble", OURS, *LEVEL),
    "ReplayBroken": ("Deadletter ReplayBroken", OURS, *LEVEL),
}

COMPARISONS = {
    "GreaterThanOrEqualToThreshold": ">=",
    "GreaterThanThreshold": ">",
    "LessThanOrEqualToThreshold": "<=",
}


@pytest.fixture(scope="module")
def alarms(app: Synthesis) -> dict[str, dict[str, Any]]:
    """The alarms of the pipeline orders, by the last part of their names."""
    return {
        alarm["Properties"]["AlarmName"].removeprefix("deadletter-orders-"): alarm["Properties"]
        for alarm in app["Deadletter-Orders"].of("AWS::CloudWatch::Alarm").values()
    }


def where(dimensions: list[dict[str, Any]]) -> str:
    """The values of all dimensions; those of our own metrics begin with app and pipeline."""
    names = [dimension["Name"] for dimension in dimensions]
    assert len(names) == 1 or names in (["app", "pipeline"], ["app", "pipeline", "source"])
    return " ".join(str(filled(dimension["Value"])) for dimension in dimensions)


def test_each_pipeline_has_the_nine_alarms_and_no_more(app: Synthesis) -> None:
    """With dedicated DLQs, parking queues, keys of circuits, or a consumer of yours as well."""
    assert len(PIPELINE_ALARMS) == 9
    for name in ("orders", "order-events", "theirs", "watched"):
        stack = app[f"Deadletter-{pascal_case(name)}"]
        assert {
            alarm["Properties"]["AlarmName"]
            for alarm in stack.of("AWS::CloudWatch::Alarm").values()
        } == {f"deadletter-{name}-{alarm}" for alarm in PIPELINE_ALARMS}


def test_the_alarms_are_those_of_the_table(alarms: dict[str, dict[str, Any]]) -> None:
    assert {
        name: (
            f"{alarm['Namespace'].removeprefix('AWS/')} {alarm['MetricName']}",
            where(alarm["Dimensions"]),
            alarm["Statistic"],
            f"{COMPARISONS[alarm['ComparisonOperator']]} {alarm['Threshold']}",
            f"{alarm.get('DatapointsToAlarm', alarm['EvaluationPeriods'])} of"
            f" {alarm['EvaluationPeriods']} x {alarm['Period']}",
            alarm["TreatMissingData"],
        )
        for name, alarm in alarms.items()
    } == ALARMS


def test_the_app_has_alarms_of_its_own(app: Synthesis) -> None:
    alarms = app["Deadletter-Shared"].of("AWS::CloudWatch::Alarm").values()
    assert {
        alarm["Properties"]["AlarmName"]: (
            alarm["Properties"]["MetricName"],
            where(alarm["Properties"]["Dimensions"]),
            alarm["Properties"]["TreatMissingData"],
        )
        for alarm in alarms
    } == {
        "deadletter-SharedTrouble": ("SharedTrouble", "deadletter *", "notBreaching"),
        # Of rules for every pipeline, and of rules whose pipeline does not exist.
        "deadletter-RuleTrouble": ("RuleTrouble", "deadletter *", "notBreaching"),
    }
    assert {alarm["Properties"]["Threshold"] for alarm in alarms} == {1}


def test_every_alarm_tells_the_topic_when_it_starts_and_when_it_is_over(app: Synthesis) -> None:
    topic = "arn:aws:sns:eu-west-1:111122223333:deadletter-alarms"
    for key, alarm in app.of("AWS::CloudWatch::Alarm"):
        assert filled(alarm["Properties"]["AlarmActions"]) == [topic], key
        assert filled(alarm["Properties"]["OKActions"]) == [topic], key
    [(_, made)] = app.of("AWS::SNS::Topic")
    assert made["Properties"]["TopicName"] == "deadletter-alarms"


def test_alarms_are_on_plain_metrics_of_one_resource(app: Synthesis) -> None:
    for key, alarm in app.of("AWS::CloudWatch::Alarm"):
        assert "Metrics" not in alarm["Properties"], key
        assert where(alarm["Properties"]["Dimensions"]), key


def test_two_stages_in_one_account_do_not_hear_each_other(
    app: Synthesis, sandboxed: Synthesis
) -> None:
    """Neither a metric of one stage nor an alarm's name is one of the other's."""

    def metrics(synthesis: Synthesis) -> set[str]:
        return {
            f"{alarm['Properties']['MetricName']} {filled(alarm['Properties']['Dimensions'])}"
            for _, alarm in synthesis.of("AWS::CloudWatch::Alarm")
            if alarm["Properties"]["Namespace"] == "Deadletter"
        }

    assert not metrics(app) & metrics(sandboxed)
    assert all("'Value': 'mail'" in metric for metric in metrics(sandboxed))


def test_a_description_says_symptom_cause_first_command_runbook_and_owner(
    app: Synthesis,
) -> None:
    shape = re.compile(
        r"Symptom: .+\.\nLikely cause: .+\.\n"
        r"First command: `(dlq [a-z ]+)(?: --(?!pipeline)[a-z ]+)*( --pipeline [a-z-]+)?`\n"
        r"Runbook: docs/runbook\.md#(\w+)\nOwner: (.+)"
    )
    known = commands()
    for key, alarm in app.of("AWS::CloudWatch::Alarm"):
        description = alarm["Properties"]["AlarmDescription"]
        said = shape.fullmatch(description)
        assert said, key
        pipeline = (said[2] or "").removeprefix(" --pipeline ")
        assert bool(pipeline) is ("Shared" not in key)
        prefix = f"deadletter-{pipeline}-" if pipeline else "deadletter-"
        name = alarm["Properties"]["AlarmName"].removeprefix(prefix)
        # Two alarms on the age of letters share a section.
        assert said[3] == ("dlqage" if name == "MessageAge" else name.lower())
        assert said[4] == "no owner is named: set `owner`"
        assert said[1] in known
        assert len(description) <= 1024


def test_the_owner_of_a_pipeline_comes_before_that_of_the_app(synthesize: Synthesize) -> None:
    synthesis = synthesize(
        {
            "owner": "the platform team",
            "pipelines": [{"name": "orders", "owner": "#orders"}, {"name": "mail"}],
        }
    )
    owners: dict[str, set[str]] = {}
    for key, alarm in synthesis.of("AWS::CloudWatch::Alarm"):
        owner = alarm["Properties"]["AlarmDescription"].rpartition("\nOwner: ")[2]
        owners.setdefault(key.partition("/")[0], set()).add(owner)
    assert owners == {
        "Deadletter-Orders": {"#orders"},
        "Deadletter-Mail": {"the platform team"},
        "Deadletter-Shared": {"the platform team"},
    }


def test_an_existing_topic_is_used_and_none_is_made(thirty: Synthesis) -> None:
    assert list(thirty.of("AWS::SNS::Topic")) == []
    for _, alarm in thirty.of("AWS::CloudWatch::Alarm"):
        expected = ["arn:aws:sns:eu-west-1:111122223333:pager"]
        assert alarm["Properties"]["AlarmActions"] == expected
        assert alarm["Properties"]["OKActions"] == expected


def test_existing_queues_are_watched_by_their_own_names(app: Synthesis) -> None:
    stack = app["Deadletter-Theirs"]
    age = stack.named("AWS::CloudWatch::Alarm", "AlarmName", "deadletter-theirs-DlqAge")
    assert age["Dimensions"] == [{"Name": "QueueName", "Value": "their-dlq"}]


def test_thresholds_and_periods_are_settings(sandboxed: Synthesis) -> None:
    stack = sandboxed["Mail-Hasty"]

    def look(name: str) -> tuple[float, int, int]:
        alarm = stack.named("AWS::CloudWatch::Alarm", "AlarmName", f"mail-hasty-{name}")
        return alarm["Threshold"], alarm["Period"], alarm["EvaluationPeriods"]

    assert look("DlqAge") == (20, 120, 1)
    assert look("MessageAge") == (20, 60, 3)
    assert look("MessageExpiry") == (3 * 86400, 60, 3)


def test_observe_warns_two_days_before_sqs_drops_a_letter(app: Synthesis) -> None:
    stack = app["Deadletter-Watched"]
    expiry = stack.named("AWS::CloudWatch::Alarm", "AlarmName", "deadletter-watched-MessageExpiry")
    assert expiry["Threshold"] == 2 * 86400


def test_the_heartbeat_is_written_between_the_watch_and_its_alarm(app: Synthesis) -> None:
    """Without data the alarm would ring at once; and the minutes end if the watch never starts."""
    resources = app["Deadletter-Orders"].template["Resources"]

    def named(kind: str, key: str = "", name: str = "") -> str:
        [found] = [
            logical
            for logical, resource in resources.items()
            if resource["Type"] == kind and (not key or resource["Properties"][key] == name)
        ]
        return found

    heartbeat = named("Custom::FirstHeartbeat")
    alarm = named("AWS::CloudWatch::Alarm", "AlarmName", "deadletter-orders-RedriveStalled")
    assert heartbeat in resources[alarm]["DependsOn"]
    before = set(resources[heartbeat]["DependsOn"])
    watch = named("AWS::Lambda::Function", "FunctionName", "deadletter-orders-watch")
    schedule = named("AWS::Scheduler::Schedule", "Name", "deadletter-orders-watch")
    assert before >= {watch, schedule}
    said = resources[heartbeat]["Properties"]
    assert said["Pipeline"] == "orders"
    token = filled(said["ServiceToken"]).rpartition(":")[2]
    function = app.function(token)
    # CloudFormation waits longer than the function works, and much less than an hour.
    assert function["Timeout"] < int(said["ServiceTimeout"]) <= 600


def test_the_first_heartbeat_writes_metrics_of_ours_only(app: Synthesis) -> None:
    [statement] = [
        statement
        for _, role in app.of("AWS::IAM::Role")
        for policy in role["Properties"].get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "cloudwatch:PutMetricData"
    ]
    assert statement["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Deadletter"}}
