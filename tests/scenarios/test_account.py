"""The account of the scenarios: templates deployed, functions run, alarms judged."""

from __future__ import annotations

import pytest

from tests.scenarios.account import MINUTE, Fault
from tests.scenarios.cloudwatch import CloudWatch
from tests.scenarios.conftest import MakeStage

pytestmark = pytest.mark.long

ALARM = {
    "AlarmName": "high",
    "Namespace": "Deadletter",
    "MetricName": "Height",
    "Dimensions": [{"Name": "pipeline", "Value": "orders"}],
    "Statistic": "Maximum",
    "Period": 60,
    "EvaluationPeriods": 3,
    "DatapointsToAlarm": 1,
    "Threshold": 1,
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    "TreatMissingData": "notBreaching",
}


def test_a_letter_goes_back_through_the_real_functions(deployed: MakeStage) -> None:
    stage = deployed("enforce-1m")
    stage.die(3)
    stage.account.minutes(20)
    assert stage.account.errors == []
    assert len(stage.held(stage.main)) == 3
    assert stage.account.invocations[stage.function("route")] >= 1
    received = stage.account.cloudwatch.values(
        "Deadletter", "Received", app="deadletter", pipeline="enforce-1m"
    )
    assert sum(received) == 3


@pytest.mark.parametrize(("phase", "runs"), [(0, 4), (3, 3), (9, 3)])
def test_a_schedule_begins_in_the_minute_of_its_phase(
    deployed: MakeStage, phase: int, runs: int
) -> None:
    stage = deployed("enforce-10m", phase=phase)
    stage.account.minutes(31)
    assert stage.account.invocations[stage.function("redrive")] == runs


def test_a_longer_step_runs_a_schedule_once(deployed: MakeStage) -> None:
    stage = deployed("enforce-1m")
    stage.account.tick(60)
    assert stage.account.invocations[stage.function("redrive")] == 1
    assert stage.account.clock() == pytest.approx(stage.account.began + 60 * MINUTE, abs=2)


def test_a_function_without_concurrency_is_throttled_and_counted(deployed: MakeStage) -> None:
    stage = deployed("enforce-1m")
    name = stage.function("route")
    stage.account.throttled.add(name)
    stage.die()
    stage.account.minutes(5)
    throttles = stage.account.cloudwatch.values("AWS/Lambda", "Throttles", FunctionName=name)
    assert sum(throttles) >= 1
    assert not stage.held(stage.main)


def test_a_fault_refuses_the_calls_of_one_function(deployed: MakeStage) -> None:
    stage = deployed("enforce-1m")
    stage.die()
    receives = Fault("sqs", frozenset({"receive_message"}), "AccessDenied", "-redrive")
    with stage.account.fault(receives):
        stage.account.minutes(5)
        assert len(stage.held(stage.dlq)) == 1
    stage.account.minutes(20)
    assert len(stage.held(stage.main)) == 1


def test_an_alarm_changes_when_its_metric_does() -> None:
    cloudwatch = CloudWatch()
    cloudwatch.add_alarm(ALARM)
    for minute, value in enumerate([0, 1, 0, 0, 0, 0], start=1):
        at = minute * MINUTE
        cloudwatch.put("Deadletter", "Height", {"pipeline": "orders"}, value, at + 1)
        cloudwatch.put("Deadletter", "Height", {"pipeline": "others"}, 9, at + 1)
        cloudwatch.judge(at + MINUTE)
    assert [(change.at / MINUTE, change.after) for change in cloudwatch.changes] == [
        (2, "OK"),
        (3, "ALARM"),
        (6, "OK"),
    ]
    assert [page.alarm for page in cloudwatch.pages] == ["high"]
