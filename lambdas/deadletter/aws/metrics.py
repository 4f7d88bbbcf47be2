"""The figure RedriveStalled in CloudWatch, as the first heartbeat writes and sees it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deadletter.aws.errors import member, ours
from deadletter.contract import APP_DIMENSION, DIMENSION, MINUTE, NAMESPACE
from deadletter.signals.figures import Figure
from deadletter.watch.first_heartbeat import HeartbeatRefused

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef


class CloudWatchHeartbeats:
    """Writes zeros of RedriveStalled of the app's pipelines, and looks whether they are shown."""

    def __init__(self, client: CloudWatchClient, app: str) -> None:
        self._client, self._app = client, app

    def write(self, pipeline: str, times: Sequence[float]) -> None:
        """Write a 0 at each of these times, which may lie up to two hours ahead."""
        dimensions = self._dimensions(pipeline)
        with ours(HeartbeatRefused, "cloudwatch", NAMESPACE):
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
        with ours(HeartbeatRefused, "cloudwatch", NAMESPACE):
            answer = self._client.get_metric_data(
                MetricDataQueries=[
                    {
                        "Id": "stalled",
                        "MetricStat": {
                            "Metric": {
                                "Namespace": NAMESPACE,
                                "MetricName": Figure.REDRIVE_STALLED,
                                "Dimensions": self._dimensions(pipeline),
                            },
                            "Period": MINUTE,
                            "Stat": "Maximum",
                        },
                    }
                ],
                StartTime=datetime.fromtimestamp(begin, UTC),
                EndTime=datetime.fromtimestamp(end, UTC),
            )
            results = member(answer, "MetricDataResults")
        return any(result.get("Values") for result in results)

    def _dimensions(self, pipeline: str) -> list[DimensionTypeDef]:
        return [
            {"Name": APP_DIMENSION, "Value": self._app},
            {"Name": DIMENSION, "Value": pipeline},
        ]
