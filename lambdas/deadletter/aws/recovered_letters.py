"""How many letters consumers have recovered, as CloudWatch has counted it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deadletter.aws.errors import member, ours
from deadletter.contract import APP_DIMENSION, DIMENSION, MINUTE, NAMESPACE
from deadletter.signals.figures import Figure
from deadletter.watch.newsroom import RecoveredUnread

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef


def recovered_letters(
    client: CloudWatchClient, app: str, pipeline: str, since: float, until: float
) -> int:
    """The letters that were recovered between two whole minutes. Raises RecoveredUnread."""
    query: MetricDataQueryTypeDef = {
        "Id": "recovered",
        "MetricStat": {
            "Metric": {
                "Namespace": NAMESPACE,
                "MetricName": str(Figure.REDRIVE_SUCCESS),
                "Dimensions": [
                    {"Name": APP_DIMENSION, "Value": app},
                    {"Name": DIMENSION, "Value": pipeline},
                ],
            },
            "Period": MINUTE,
            "Stat": "Sum",
        },
        "ReturnData": True,
    }
    with ours(RecoveredUnread, "cloudwatch", NAMESPACE):
        answer = client.get_metric_data(
            MetricDataQueries=[query],
            StartTime=datetime.fromtimestamp(since, UTC),
            EndTime=datetime.fromtimestamp(until, UTC),
        )
        results = member(answer, "MetricDataResults")
    values: list[float] = [value for result in results for value in result.get("Values", [])]
    return round(sum(values))
