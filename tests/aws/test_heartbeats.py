"""First heartbeats as CloudWatch is asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber

from deadletter.aws.metrics import CloudWatchHeartbeats
from deadletter.watch.first_heartbeat import HeartbeatRefused

DIMENSIONS = [{"Name": "app", "Value": "shop"}, {"Name": "pipeline", "Value": "orders"}]


@pytest.fixture
def asked() -> Iterator[tuple[CloudWatchHeartbeats, Stubber]]:
    client = boto3.client(
        "cloudwatch",
        region_name="eu-west-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    with Stubber(client) as stubber:
        yield CloudWatchHeartbeats(client, "shop"), stubber
        stubber.assert_no_pending_responses()


def test_a_zero_is_written_at_each_time(asked: tuple[CloudWatchHeartbeats, Stubber]) -> None:
    heartbeats, stubber = asked
    stubber.add_response(
        "put_metric_data",
        {},
        {
            "Namespace": "Deadletter",
            "MetricData": [
                {
                    "MetricName": "RedriveStalled",
                    "Dimensions": DIMENSIONS,
                    "Timestamp": datetime(2027, 1, 15, 8, minute, tzinfo=UTC),
                    "Value": 0.0,
                    "Unit": "Count",
                }
                for minute in (0, 1)
            ],
        },
    )
    heartbeats.write("orders", [1_800_000_000.0, 1_800_000_060.0])


@pytest.mark.parametrize(("values", "shown"), [([], False), ([0.0], True)])
def test_it_looks_for_a_value(
    asked: tuple[CloudWatchHeartbeats, Stubber], values: list[float], shown: bool
) -> None:
    heartbeats, stubber = asked
    metric = {"Namespace": "Deadletter", "MetricName": "RedriveStalled", "Dimensions": DIMENSIONS}
    stubber.add_response(
        "get_metric_data",
        {"MetricDataResults": [{"Id": "figure", "Values": values}]},
        {
            "MetricDataQueries": [
                {
                    "Id": "figure",
                    "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Maximum"},
                }
            ],
            "StartTime": datetime(2027, 1, 15, 8, tzinfo=UTC),
            "EndTime": datetime(2027, 1, 15, 8, 1, tzinfo=UTC),
        },
    )
    assert heartbeats.shown("orders", 1_800_000_000.0, 1_800_000_060.0) is shown


def test_an_error_names_the_action(asked: tuple[CloudWatchHeartbeats, Stubber]) -> None:
    heartbeats, stubber = asked
    stubber.add_client_error("put_metric_data", "AccessDenied")
    with pytest.raises(HeartbeatRefused, match=r"^AccessDenied for cloudwatch:PutMetricData on"):
        heartbeats.write("orders", [0.0])
    stubber.add_client_error("get_metric_data", "Throttling")
    with pytest.raises(HeartbeatRefused, match=r"^Throttling for cloudwatch:GetMetricData on"):
        heartbeats.shown("orders", 0.0, 60.0)
