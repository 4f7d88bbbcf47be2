"""Figures in CloudWatch: written by the first heartbeat, read by it and by the watch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import member, ours
from deadletter.contract import APP_DIMENSION, DIMENSION, HOUR, MINUTE, NAMESPACE
from deadletter.signals.figures import Figure

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef, MetricTypeDef

    from deadletter.watch.observation import OldestMessage

LOOK_BACK = 3 * HOUR
"""Seconds before now from which an age still counts: SQS publishes none for an idle queue."""


class CloudWatchHeartbeats:
    """Writes zeros of RedriveStalled of the app's pipelines, and looks whether they are shown."""

    def __init__(self, client: CloudWatchClient, app: str) -> None:
        # The functions that look at other figures do without.
        from deadletter.watch.first_heartbeat import HeartbeatRefused

        self._client, self._app = client, app
        self._refused = HeartbeatRefused

    def write(self, pipeline: str, times: Sequence[float]) -> None:
        """Write a 0 at each of these times, which may lie up to two hours ahead."""
        dimensions = _dimensions(self._app, pipeline)
        with ours(self._refused, "cloudwatch", NAMESPACE):
            self._client.put_metric_data(
                Namespace=NAMESPACE,
                MetricData=[
                    {
                        "MetricName": Figure.REDRIVE_STALLED,
                        "Dimensions": dimensions,
                        "Timestamp": datetime.fromtimestamp(at, UTC),
                        "Value": 0.0,
                        "Unit": "Count",
                    }
                    for at in times
                ],
            )

    def shown(self, pipeline: str, begin: float, end: float) -> bool:
        """True if CloudWatch answers with a value between these times."""
        stalled = _figure(Figure.REDRIVE_STALLED, self._app, pipeline)
        with ours(self._refused, "cloudwatch", NAMESPACE):
            results = _results(self._client, stalled, "Maximum", begin, end)
        return any(result.get("Values") for result in results)


def recovered_letters(
    client: CloudWatchClient, app: str, pipeline: str, since: float, until: float
) -> int:
    """The letters that were recovered between two whole minutes. Raises RecoveredUnread."""
    from deadletter.watch.news import RecoveredUnread

    recovered = _figure(Figure.REDRIVE_SUCCESS, app, pipeline)
    with ours(RecoveredUnread, "cloudwatch", NAMESPACE):
        results = _results(client, recovered, "Sum", since, until)
    values: list[float] = [value for result in results for value in result.get("Values", [])]
    return round(sum(values))


def oldest_message(client: CloudWatchClient, queue: str, now: float) -> OldestMessage:
    """When the oldest message of a queue was sent, by one request of one metric.

    Raises QueueUnavailable.
    """
    from deadletter.message.queue import QueueUnavailable
    from deadletter.watch.observation import OldestMessage

    age: MetricTypeDef = {
        "Namespace": "AWS/SQS",
        "MetricName": "ApproximateAgeOfOldestMessage",
        "Dimensions": [{"Name": "QueueName", "Value": queue}],
    }
    with ours(QueueUnavailable, "cloudwatch", queue):
        results = _results(client, age, "Maximum", now - LOOK_BACK, now)
    values = [
        (at.timestamp(), age)
        for result in results
        for at, age in zip(result.get("Timestamps", []), result.get("Values", []), strict=False)
    ]
    if not values:
        return OldestMessage(None)
    at, seconds = max(values)
    return OldestMessage(at - seconds)


def _results(
    client: CloudWatchClient, metric: MetricTypeDef, statistic: str, since: float, until: float
) -> list[Any]:
    """What CloudWatch has of a metric, a value a minute."""
    answer = client.get_metric_data(
        MetricDataQueries=[
            {
                "Id": "figure",
                "MetricStat": {"Metric": metric, "Period": MINUTE, "Stat": statistic},
            }
        ],
        StartTime=datetime.fromtimestamp(since, UTC),
        EndTime=datetime.fromtimestamp(until, UTC),
    )
    return list(member(answer, "MetricDataResults"))


def _figure(name: Figure, app: str, pipeline: str) -> MetricTypeDef:
    dimensions = _dimensions(app, pipeline)
    return {"Namespace": NAMESPACE, "MetricName": str(name), "Dimensions": dimensions}


def _dimensions(app: str, pipeline: str) -> list[DimensionTypeDef]:
    return [{"Name": APP_DIMENSION, "Value": app}, {"Name": DIMENSION, "Value": pipeline}]
