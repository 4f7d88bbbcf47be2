"""Which alarms there are, on which metrics, and what their descriptions say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.infra.conftest import ROOT
from tests.infra.templates import Synthesis, filled

DLQ, PARKING, MAIN = (f"deadletter-orders-{queue}" for queue in ("dlq", "parking", "main"))
BREAKER = "arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-orders-circuit-breaker"
AGE, VISIBLE = "SQS ApproximateAgeOfOldestMessage", "SQS ApproximateNumberOfMessagesVisible"
OURS = "deadletter orders"
FUNCTION = "deadletter-orders-{}"

# Alarm -> metric, where, statistic, comparison with threshold, breaching of periods x seconds,
# missing data.
LEVEL = ("Maximum", ">= 1", "1 of 3 x 60", "notBreaching")
ALARMS: dict[str, tuple[str, ...]] = {
    **{
        f"{name}{suffix}": row
        for suffix, queue, source in (
            *(("", DLQ, "dlq"), ("_vip", f"{DLQ}_vip", "vip"), ("_slow", f"{DLQ}_slow", "slow")),
        )
        for name, row in {
            "DlqAge": (AGE, queue, "Maximum", ">= 3600", "3 of 3 x 60", "ignore"),
            "LetterAge": (
                *("Deadletter OldestLetterAge", f"{OURS} {source}"),
                *("Maximum", ">= 3600", "1 of 3 x 60", "notBreaching"),
            ),
            "DlqDepth": (VISIBLE, queue, "Maximum", ">= 100", "5 of 5 x 60", "ignore"),
        }.items()
    },
    "LetterExpiry": (
        *("Deadletter SecondsToExpiry", OURS),
        *("Minimum", "<= 43200", "1 of 3 x 60", "notBreaching"),
    ),
    "MainQueueAge": (AGE, MAIN, "Maximum", ">= 259200", "3 of 3 x 60", "ignore"),
    "ParkingLotNotEmpty": ("Deadletter Letters", f"{OURS} parking:default", *LEVEL),
    "ParkingLotNotEmpty_quarantine": ("Deadletter Letters", f"{OURS} parking:quarantine", *LEVEL),
    "WaitingRoomLate": (
        *("Deadletter OldestLetterAge", f"{OURS} room:due"),
        *("Maximum", ">= 900", "1 of 3 x 60", "notBreaching"),
    ),
    "WaitingRoomDepth": (
        *("Deadletter Letters", f"{OURS} room", "Maximum", ">= 10000", "1 of 1 x 600", "ignore"),
    ),
    "RedriveStalled": (
        *("Deadletter RedriveStalled", OURS, "Maximum", ">= 1", "2 of 5 x 60", "notBreaching"),
    ),
    "WatchHeartbeat": (
        *("Deadletter WatchOverdue", OURS, "Minimum", ">= 1", "3 of 3 x 60", "ignore"),
    ),
    "LetterTrouble": ("Deadletter LetterTrouble", OURS, *LEVEL),
    "ReplayBroken": ("Deadletter ReplayBroken", OURS, *LEVEL),
    "ReplayBroken_execution": (
        *("Deadletter ReplayRestarted", OURS, "Sum", ">= 2", "1 of 1 x 900", "notBreaching"),
    ),
    "RuleInvalid": ("Deadletter RulesRefused", OURS, *LEVEL),
    "RuleLimitReached": ("Deadletter RulesAtLimit", OURS, *LEVEL),
    "DominantFailure": ("Deadletter FailureDominates", OURS, *LEVEL),
    "CircuitHeld": ("Deadletter CircuitHeld", OURS, *LEVEL),
    "SuddenlyPermanent": ("Deadletter CausesHeld", OURS, *LEVEL),
    "ManyCollisions": (
        *("Deadletter ManyCollisions", OURS, "Sum", ">= 1", "1 of 2 x 300", "notBreaching"),
    ),
    "ConfigurationHeld": ("Deadletter ConfigurationHeld", OURS, *LEVEL),
    "LedgerUnavailable": (
        *("Deadletter LedgerUnavailable", OURS, "Sum", ">= 1", "5 of 5 x 60", "notBreaching"),
    ),
    "CircuitOpen": (
        *("Deadletter CircuitState", OURS, "Minimum", ">= 1", "6 of 6 x 300", "ignore"),
    ),
    "CircuitFlapping": (
        *("Deadletter CircuitOpened", OURS, "Sum", ">= 3", "1 of 1 x 3600", "notBreaching"),
    ),
    "OpenCircuits": (
        *("Deadletter OpenCircuits", OURS, "Maximum", ">= 10", "5 of 5 x 60", "ignore"),
    ),
    "CircuitBreakerFailed": (
        *("States ExecutionsFailed", BREAKER, "Sum", ">= 2", "1 of 1 x 900", "notBreaching"),
    ),
    **{
        f"FunctionThrottled_{role}": (
            *("Lambda Throttles", FUNCTION.format(role)),
            *("Sum", ">= 1", f"{datapoints} x 60", "notBreaching"),
        )
        for role, datapoints in {
            "consumer": "3 of 5",
            "circuit": "2 of 15",
            "probe": "2 of 15",
            "replay": "2 of 15",
        }.items()
    },
    **{
        f"FunctionSlow_{role}": (
            *("Lambda Duration", FUNCTION.format(role)),
            *("Maximum", f">= {milliseconds}", "3 of 5 x 60", "notBreaching"),
        )
        for role, milliseconds in {"route": 16_000, "consumer": 48_000}.items()
    },
}

COMPARISONS = {"GreaterThanOrEqualToThreshold": ">=", "LessThanOrEqualToThreshold": "<="}


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
        "deadletter-RuleCheckFailed": (
            VISIBLE.removeprefix("SQS "),
            "deadletter-check-rules-failures",
            "ignore",
        ),
        "deadletter-RuleCheckFailed_throttled": (
            "Throttles",
            "deadletter-check-rules",
            "notBreaching",
        ),
        # Of rules for every pipeline, and of rules whose pipeline does not exist.
        "deadletter-RuleInvalid": ("RulesRefused", "deadletter *", "notBreaching"),
        "deadletter-RuleLimitReached": ("RulesAtLimit", "deadletter *", "notBreaching"),
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

    assert look("DlqAge") == (20, 120, 1)
    assert look("LetterAge") == (20, 60, 3)
    assert look("LetterExpiry") == (3 * 86400, 60, 3)
    assert look("DlqDepth") == (7, 60, 5)
    assert look("MainQueueAge") == (2 * 86400, 60, 3)
    assert look("ParkingLotNotEmpty") == (2, 60, 3)
    assert look("WaitingRoomLate") == (1200, 60, 3)
    assert look("WaitingRoomDepth") == (500, 600, 1)
    assert look("LedgerUnavailable") == (1, 60, 2)
    assert look("CircuitOpen") == (1, 60, 7)
    assert look("CircuitFlapping") == (5, 3600, 1)
    assert look("OpenCircuits") == (3, 60, 5)
    assert look("CircuitBreakerFailed") == (1, 60, 1)


def test_observe_warns_two_days_before_sqs_drops_a_letter(app: Synthesis) -> None:
    stack = app["Deadletter-Watched"]
    expiry = stack.named("AWS::CloudWatch::Alarm", "AlarmName", "deadletter-watched-LetterExpiry")
    assert expiry["Threshold"] == 2 * 86400


def test_without_the_consumer_library_there_are_no_alarms_of_the_ledger(app: Synthesis) -> None:
    names = {
        alarm["Properties"]["AlarmName"].removeprefix("deadletter-theirs-")
        for alarm in app["Deadletter-Theirs"].of("AWS::CloudWatch::Alarm").values()
    }
    of_ours = {
        *("FunctionThrottled_circuit", "FunctionThrottled_probe", "FunctionSlow_route"),
        *("FunctionThrottled_replay", "ReplayBroken_execution"),
    }
    of_each = {name for name in ALARMS if "_" not in name} | of_ours
    # Nor for many keys, where there is one circuit for all, nor for a consumer of yours.
    of_failures = {
        *("DominantFailure", "SuddenlyPermanent", "ManyCollisions"),
        *("ConfigurationHeld", "LedgerUnavailable"),
    }
    assert names == of_each - of_failures - {"OpenCircuits"}
