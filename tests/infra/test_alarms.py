"""Which alarms there are, on which metrics, and what their descriptions say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.infra.conftest import ROOT
from tests.infra.templates import Synthesis, filled

DLQ, PARKING = "deadletter-orders-dlq", "deadletter-orders-parking"
REDRIVE, ROUTE = "deadletter-orders-redrive", "deadletter-orders-route"
BREAKER = "arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-orders-circuit-breaker"
AGE, VISIBLE = "ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"

# Alarm -> metric, where, statistic, comparison with threshold, periods, missing data.
ALARMS: dict[str, tuple[str, str, str, str, str, str]] = {
    "DlqAge": (f"SQS {AGE}", DLQ, "Maximum", ">= 3600", "5 x 60", "notBreaching"),
    "DlqDepth": (f"SQS {VISIBLE}", DLQ, "Maximum", ">= 100", "5 x 60", "notBreaching"),
    **{
        f"DlqAge_{dlq}": (
            *(f"SQS {AGE}", f"{DLQ}_{dlq}", "Maximum", ">= 3600", "5 x 60", "notBreaching"),
        )
        for dlq in ("vip", "slow")
    },
    **{
        f"DlqDepth_{dlq}": (
            *(f"SQS {VISIBLE}", f"{DLQ}_{dlq}", "Maximum", ">= 100", "5 x 60", "notBreaching"),
        )
        for dlq in ("vip", "slow")
    },
    "ParkingLotNotEmpty": (f"SQS {VISIBLE}", PARKING, "Maximum", ">= 1", "1 x 60", "ignore"),
    "ParkingLotNotEmpty_quarantine": (
        *(f"SQS {VISIBLE}", f"{PARKING}_quarantine", "Maximum", ">= 1", "1 x 60", "ignore"),
    ),
    "RedriveErrors": ("Lambda Errors", REDRIVE, "Sum", ">= 1", "3 x 60", "notBreaching"),
    "RouterErrors": ("Lambda Errors", ROUTE, "Sum", ">= 1", "3 x 60", "notBreaching"),
    "RuleInvalid": ("Deadletter RuleInvalid", "orders", "Sum", ">= 1", "1 x 60", "notBreaching"),
    "RuleLimitReached": (
        *("Deadletter RuleLimitReached", "orders", "Sum", ">= 1", "1 x 60", "notBreaching"),
    ),
    "DominantFailure": (
        *("Deadletter DominantFailure", "orders", "Sum", ">= 1", "1 x 60", "notBreaching"),
    ),
    "LedgerUnavailable": (
        *("Deadletter LedgerUnavailable", "orders", "Sum", ">= 1", "5 x 60", "notBreaching"),
    ),
    "CircuitOpen": ("Deadletter CircuitState", "orders", "Minimum", ">= 1", "6 x 300", "ignore"),
    "CircuitFlapping": (
        *("Deadletter CircuitOpened", "orders", "Sum", ">= 3", "1 x 3600", "notBreaching"),
    ),
    "OpenCircuits": ("Deadletter OpenCircuits", "orders", "Maximum", ">= 10", "5 x 60", "ignore"),
    "CircuitBreakerFailed": (
        *("States ExecutionsFailed", BREAKER, "Sum", ">= 2", "1 x 900", "notBreaching"),
    ),
    "RedriveHeartbeat": ("Lambda Invocations", REDRIVE, "Sum", "< 1", "1 x 300", "breaching"),
}

COMPARISONS = {"GreaterThanOrEqualToThreshold": ">=", "LessThanThreshold": "<"}


@pytest.fixture(scope="module")
def alarms(app: Synthesis) -> dict[str, dict[str, Any]]:
    """The alarms of the pipeline orders, by the last part of their names."""
    return {
        alarm["Properties"]["AlarmName"].removeprefix("deadletter-orders-"): alarm["Properties"]
        for alarm in app["Deadletter-Orders"].of("AWS::CloudWatch::Alarm").values()
    }


def where(dimensions: list[dict[str, Any]]) -> str:
    """The value of the last dimension; our own metrics name the app before the pipeline."""
    *before, last = dimensions
    assert before == (
        [{"Name": "app", "Value": "deadletter"}] if last["Name"] == "pipeline" else []
    )
    return str(filled(last["Value"]))


def test_the_alarms_are_those_of_the_table(alarms: dict[str, dict[str, Any]]) -> None:
    assert {
        name: (
            f"{alarm['Namespace'].removeprefix('AWS/')} {alarm['MetricName']}",
            where(alarm["Dimensions"]),
            alarm["Statistic"],
            f"{COMPARISONS[alarm['ComparisonOperator']]} {alarm['Threshold']}",
            f"{alarm['EvaluationPeriods']} x {alarm['Period']}",
            alarm["TreatMissingData"],
        )
        for name, alarm in alarms.items()
    } == ALARMS


def test_the_app_has_two_alarms_of_its_own(app: Synthesis) -> None:
    alarms = app["Deadletter-Shared"].of("AWS::CloudWatch::Alarm").values()
    assert {
        alarm["Properties"]["AlarmName"]: (
            alarm["Properties"]["MetricName"],
            alarm["Properties"]["Dimensions"],
            alarm["Properties"]["TreatMissingData"],
        )
        for alarm in alarms
    } == {
        "deadletter-RuleCheckFailed": (
            VISIBLE,
            [{"Name": "QueueName", "Value": "deadletter-check-rules-failures"}],
            "ignore",
        ),
        # Of rules whose pipeline does not exist, so that no pipeline's alarm can ring.
        "deadletter-RuleInvalid": (
            "RuleInvalid",
            [{"Name": "app", "Value": "deadletter"}, {"Name": "pipeline", "Value": "*"}],
            "notBreaching",
        ),
    }
    for alarm in alarms:
        look = ("Threshold", "Period", "EvaluationPeriods")
        assert [alarm["Properties"][key] for key in look] == [1, 60, 1]


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
        names = [dimension["Name"] for dimension in alarm["Properties"]["Dimensions"]]
        assert names == ["app", "pipeline"] or len(names) == 1, key


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


def test_a_description_says_symptom_cause_first_command_and_runbook(app: Synthesis) -> None:
    shape = re.compile(
        r"Symptom: .+\.\nLikely cause: .+\.\nFirst command: `(dlq [a-z ]+)( --pipeline [a-z-]+)?`\n"
        r"Runbook: docs/runbook\.md#(\w+)"
    )
    commands = (ROOT / "docs" / "cli.md").read_text()
    for key, alarm in app.of("AWS::CloudWatch::Alarm"):
        description = alarm["Properties"]["AlarmDescription"]
        said = shape.fullmatch(description)
        assert said, key
        pipeline = (said[2] or "").removeprefix(" --pipeline ")
        assert bool(pipeline) is ("Shared" not in key)
        owner = f"deadletter-{pipeline}-" if pipeline else "deadletter-"
        name = alarm["Properties"]["AlarmName"].removeprefix(owner)
        # A state, its alarm and its section of the runbook use one name.
        assert said[3] == name.partition("_")[0].lower()
        assert f"# `{said[1]}`\n" in commands
        assert len(description) <= 1024


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

    assert look("DlqAge") == (20, 10, 1)
    assert look("DlqDepth") == (7, 60, 5)
    assert look("ParkingLotNotEmpty") == (2, 60, 1)
    assert look("RedriveErrors") == (1, 60, 9)
    assert look("RouterErrors") == (4, 60, 3)
    assert look("RedriveHeartbeat") == (1, 120, 1)
    assert look("DominantFailure") == (3, 60, 1)
    assert look("LedgerUnavailable") == (1, 60, 2)
    assert look("CircuitOpen") == (1, 300, 2)
    assert look("CircuitFlapping") == (5, 3600, 1)
    assert look("OpenCircuits") == (3, 60, 5)
    assert look("CircuitBreakerFailed") == (1, 60, 1)


def test_without_the_consumer_library_there_are_no_alarms_of_the_ledger(app: Synthesis) -> None:
    names = {
        alarm["Properties"]["AlarmName"].removeprefix("deadletter-theirs-")
        for alarm in app["Deadletter-Theirs"].of("AWS::CloudWatch::Alarm").values()
    }
    of_each = {name for name in ALARMS if "_" not in name}
    # Nor for many keys, where there is one circuit for all.
    assert names == of_each - {"DominantFailure", "LedgerUnavailable", "OpenCircuits"}
