"""Why a function has left no record: which of four causes, by CloudWatch's figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.operations.figures import Silence, because

NOW = datetime.now(UTC).replace(second=0, microsecond=0)

SILENCE = Silence(
    "orders", "deadletter-orders-redrive", "deadletter-orders-dlq", NOW - timedelta(minutes=7)
)

LAMBDA = {"FunctionName": SILENCE.function}
TABLE = {"TableName": "letters"}


def put(
    cloud: Any, name: str, value: float, dimensions: dict[str, str], *, minutes_ago: float = 2
) -> None:
    cloud.cloudwatch.put_metric_data(
        Namespace="AWS/Lambda" if dimensions is LAMBDA else "AWS/DynamoDB",
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": key, "Value": dimensions[key]} for key in dimensions],
                "Timestamp": NOW - timedelta(minutes=minutes_ago),
                "Value": value,
            }
        ],
    )


def says(cloud: Any) -> str:
    head, _, why = because(cloud.cloudwatch, SILENCE, "letters", NOW).says().partition(": ")
    assert head == "deadletter-orders-redrive has left no record for 7 min"
    return why


def test_a_function_that_is_not_started_has_a_schedule_that_starts_nothing(cloud: Any) -> None:
    # The start that left the last record says nothing of the silence.
    put(cloud, "Invocations", 1, LAMBDA, minutes_ago=7)
    assert says(cloud) == (
        "it is not started; its schedule deadletter-orders-dlq is disabled or deleted, or may not "
        "start it"
    )


def test_a_function_that_lambda_throttles_is_told_from_one_that_is_not_started(cloud: Any) -> None:
    put(cloud, "Throttles", 5, LAMBDA)
    assert says(cloud).startswith("Lambda throttles it (5 times); its reserved concurrency is 0")


@pytest.mark.parametrize("metric", ["ReadThrottleEvents", "WriteThrottleEvents"])
def test_a_throttled_table_is_named_before_the_failures_that_it_causes(
    cloud: Any, metric: str
) -> None:
    put(cloud, "Invocations", 5, LAMBDA)
    put(cloud, "Errors", 5, LAMBDA)
    put(cloud, metric, 40, TABLE)
    assert says(cloud) == (
        "it runs, and DynamoDB throttles letters (ThrottlingException, 40 requests)"
    )


def test_a_function_that_fails_has_a_log(cloud: Any) -> None:
    put(cloud, "Invocations", 5, LAMBDA)
    put(cloud, "Errors", 4, LAMBDA)
    assert says(cloud) == "it fails (4 of 5 starts); its log says why"


def test_a_function_that_runs_well_may_not_write_its_record(cloud: Any) -> None:
    put(cloud, "Invocations", 5, LAMBDA)
    assert says(cloud) == (
        "it runs without an error, and its record is not in letters; its log says why"
    )
