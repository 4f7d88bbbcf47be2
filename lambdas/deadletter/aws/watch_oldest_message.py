"""How old the oldest message of a queue is: SQS tells only CloudWatch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deadletter.aws.errors import ours
from deadletter.contract import HOUR, MINUTE
from deadletter.message.queue import QueueUnavailable
from deadletter.watch.observation import OldestMessage

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef

LOOK_BACK = 3 * HOUR
"""Seconds before now from which a value still counts: SQS publishes none for an idle queue."""


def oldest_message(client: CloudWatchClient, queue: str, now: float) -> OldestMessage:
    """When the oldest message of a queue was sent, by one request of one metric.

    Raises QueueUnavailable.
    """
    age_of_queue: MetricDataQueryTypeDef = {
        "Id": "age",
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/SQS",
                "MetricName": "ApproximateAgeOfOldestMessage",
                "Dimensions": [{"Name": "QueueName", "Value": queue}],
            },
            "Period": MINUTE,
            "Stat": "Maximum",
        },
    }
    with ours(QueueUnavailable, "cloudwatch", queue):
        answer = client.get_metric_data(
            MetricDataQueries=[age_of_queue],
            StartTime=datetime.fromtimestamp(now - LOOK_BACK, UTC),
            EndTime=datetime.fromtimestamp(now, UTC),
            ScanBy="TimestampDescending",
        )
    values = [
        (at.timestamp(), age)
        for result in answer.get("MetricDataResults", [])
        for at, age in zip(result.get("Timestamps", []), result.get("Values", []), strict=False)
    ]
    if not values:
        return OldestMessage(None)
    at, age = max(values)
    return OldestMessage(at - age)
