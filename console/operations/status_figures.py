"""What CloudWatch says of a pipeline's queues."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from deadletter.contract import APP_DIMENSION, DIMENSION, NAMESPACE
from deadletter.signals.figures import Figure

from .app import App, DeployedPipeline

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricStatTypeDef

# SQS publishes once a minute and a few minutes late; older figures describe the past.
WINDOW = timedelta(minutes=15)

PERIOD = 60
"""Seconds of one figure."""

_DLQ_AGE, _MAIN_AGE = "age of the DLQ", "age of the main queue"
_REDRIVEN, _RUNS = "re-driven", "runs"


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What CloudWatch says of a pipeline; a figure it does not have is None.

    `rate` is letters a second over the `ran` seconds from the first to the last run of the window:
    a rate over minutes without a run would be that of no run. `ran` is None without any.
    """

    dlq_age: int | None = None
    main_age: int | None = None
    rate: float | None = None
    ran: int | None = None


def queue_figures(
    cloudwatch: CloudWatchClient, app: App, pipelines: Sequence[DeployedPipeline], now: datetime
) -> Mapping[str, QueueFigures]:
    """The ages of main queue and DLQ and the rate of re-drives, where CloudWatch has them."""
    if not pipelines:
        return {}
    latest: dict[tuple[str, str], float] = {}
    sums: dict[tuple[str, str], float] = {}
    queries = [query for pipeline in pipelines for query in _queries(app, pipeline)]
    # More fit into one call than an app has pipelines.
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[
            {"Id": f"q{number}", "MetricStat": stat} for number, (_, _, stat) in enumerate(queries)
        ],
        StartTime=now - WINDOW,
        EndTime=now + timedelta(minutes=1),
    )
    newest: dict[tuple[str, str], datetime] = {}
    ran: dict[str, set[datetime]] = {}
    for page in pages:
        for result in page["MetricDataResults"]:
            name, what, _ = queries[int(result["Id"][1:])]
            for at, value in zip(result["Timestamps"], result["Values"], strict=True):
                key = (name, what)
                if value and what in (_REDRIVEN, _RUNS):
                    ran.setdefault(name, set()).add(at)
                sums[key] = sums.get(key, 0.0) + value
                if key not in newest or at > newest[key]:
                    newest[key], latest[key] = at, value
    return {
        pipeline.name: _figures(
            _whole(latest.get((pipeline.name, _DLQ_AGE))),
            _whole(latest.get((pipeline.name, _MAIN_AGE))),
            sums.get((pipeline.name, _REDRIVEN), 0.0),
            ran.get(pipeline.name, set()),
        )
        for pipeline in pipelines
    }


def _figures(
    dlq_age: int | None, main_age: int | None, redriven: float, ran: Collection[datetime]
) -> QueueFigures:
    if not ran:
        return QueueFigures(dlq_age, main_age)
    # Figures are of whole minutes: the first may have begun before the window.
    seconds = min((max(ran) - min(ran)).total_seconds() + PERIOD, WINDOW.total_seconds())
    return QueueFigures(dlq_age, main_age, redriven / seconds or None, int(seconds))


def _queries(app: App, pipeline: DeployedPipeline) -> Iterator[tuple[str, str, MetricStatTypeDef]]:
    """The pipeline's name, what is asked, and the metric that says it."""
    for what, url in ((_DLQ_AGE, pipeline.dlq_url), (_MAIN_AGE, pipeline.main_url)):
        dimension = {"Name": "QueueName", "Value": url.rpartition("/")[2]}
        yield (
            pipeline.name,
            what,
            _stat("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", dimension),
        )
    function = {"Name": "FunctionName", "Value": pipeline.redrive_function.rpartition(":")[2]}
    yield pipeline.name, _RUNS, _stat("AWS/Lambda", "Invocations", "Sum", function)
    yield (
        pipeline.name,
        _REDRIVEN,
        _stat(
            NAMESPACE,
            str(Figure.REDRIVEN),
            "Sum",
            {"Name": APP_DIMENSION, "Value": app.name},
            {"Name": DIMENSION, "Value": pipeline.name},
        ),
    )


def _stat(namespace: str, metric: str, stat: str, *dimensions: Any) -> MetricStatTypeDef:
    return {
        "Metric": {"Namespace": namespace, "MetricName": metric, "Dimensions": list(dimensions)},
        "Period": PERIOD,
        "Stat": stat,
    }


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
