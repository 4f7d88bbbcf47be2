"""What CloudWatch says: how old queues are, and how fast messages go back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from deadletter.contract import APP_DIMENSION, DIMENSION, NAMESPACE
from deadletter.signals.figures import Figure

from .app import App, DeployedPipeline
from .aws import rows

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient


# SQS publishes once a minute and a few minutes late; older figures describe the past.
WINDOW = timedelta(minutes=15)

_LATE = timedelta(minutes=1)

# Seconds of one figure.
_PERIOD = 60

# CloudWatch's limit for one call.
_MOST_METRICS = 500


class Metric(NamedTuple):
    """A metric of CloudWatch; `dimensions` are its names and values."""

    namespace: str
    name: str
    stat: str
    dimensions: tuple[tuple[str, str], ...]


Points = Sequence[tuple[datetime, float]]


@dataclass(frozen=True, slots=True)
class Recent:
    """One figure of a pipeline over the last hours."""

    pipeline: Annotated[str, "name of the pipeline"]
    name: Annotated[str, "arrived, sent again, processed, or age of the oldest (seconds)"]
    minutes: Annotated[int, "minutes of one value"]
    values: Annotated[Sequence[float], "the values, the earliest first; 0 where none is known"]


RECENT, RECENT_MINUTES = timedelta(hours=3), 5
"""How far back the drawing looks, and the minutes of one value."""


def recently(
    cloudwatch: CloudWatchClient, app: App, pipelines: Sequence[DeployedPipeline], now: datetime
) -> Sequence[Recent]:
    """What arrived, was sent again and was processed, and how old the DLQ was."""
    wanted = {
        (pipeline.name, name): metric
        for pipeline in pipelines
        for name, metric in _recent_metrics(app, pipeline)
    }
    seconds = RECENT_MINUTES * 60
    end = now.replace(second=0, microsecond=0)
    start = end - RECENT
    found = points(cloudwatch, list(wanted.values()), start, end, seconds) if wanted else {}
    recent = []
    for (pipeline, name), metric in wanted.items():
        values = [0.0] * int(RECENT.total_seconds() // seconds)
        for at, value in found.get(metric, ()):
            place = int((at - start).total_seconds() // seconds)
            if 0 <= place < len(values):
                values[place] = value
        recent.append(Recent(pipeline, name, RECENT_MINUTES, values))
    return recent


def _recent_metrics(app: App, pipeline: DeployedPipeline) -> Iterator[tuple[str, Metric]]:
    main, dlq = (url.rpartition("/")[2] for url in (pipeline.main_url, pipeline.dlq_url))
    ours = ((APP_DIMENSION, app.name), (DIMENSION, pipeline.name))
    yield "arrived", Metric("AWS/SQS", "NumberOfMessagesSent", "Sum", (("QueueName", main),))
    yield "sent again", Metric(NAMESPACE, str(Figure.REDRIVEN), "Sum", ours)
    yield "processed", Metric(NAMESPACE, str(Figure.PROCESSED), "Sum", ours)
    yield "age of the oldest (seconds)", _age(dlq)


def points(
    cloudwatch: CloudWatchClient,
    metrics: Sequence[Metric],
    start: datetime,
    end: datetime,
    period: int = _PERIOD,
) -> Mapping[Metric, Points]:
    """Each period's figure of each metric, the earliest first."""
    found: dict[Metric, Points] = {}
    for first in range(0, len(metrics), _MOST_METRICS):
        some = metrics[first : first + _MOST_METRICS]
        queries: list[Any] = [
            {"Id": f"q{number}", "MetricStat": _stat(metric, period)}
            for number, metric in enumerate(some)
        ]
        asked = {"MetricDataQueries": queries, "StartTime": start, "EndTime": end}
        for result in rows(cloudwatch, "get_metric_data", "MetricDataResults", **asked):
            metric = some[int(result["Id"][1:])]
            points = zip(result["Timestamps"], result["Values"], strict=True)
            found[metric] = sorted([*found.get(metric, ()), *points])
    return found


def _stat(metric: Metric, period: int) -> Mapping[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in metric.dimensions]
    named = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
    return {"Metric": named, "Period": period, "Stat": metric.stat}


def alarms(cloudwatch: CloudWatchClient, prefix: str = "", **which: Any) -> Iterator[Any]:
    """The alarms whose names begin so, as CloudWatch describes them."""
    which = which | ({"AlarmNamePrefix": prefix} if prefix else {})
    pages = cloudwatch.get_paginator("describe_alarms").paginate(
        AlarmTypes=["MetricAlarm", "CompositeAlarm"], **which
    )
    for page in pages:
        yield from (*page.get("MetricAlarms", ()), *page.get("CompositeAlarms", ()))


def _age(queue: str) -> Metric:
    return Metric("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", (("QueueName", queue),))


def _last(points: Points) -> int | None:
    return int(points[-1][1]) if points else None


def oldest_ages(
    cloudwatch: CloudWatchClient, names: Sequence[str], now: datetime
) -> Mapping[str, int]:
    """The age in seconds of each queue's oldest message, where CloudWatch has a figure."""
    found = points(cloudwatch, list(map(_age, names)), now - WINDOW, now + _LATE)
    ages = {name: _last(found.get(_age(name), ())) for name in names}
    return {name: age for name, age in ages.items() if age is not None}


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What CloudWatch says of a pipeline; a figure it does not have is None.

    `rate` is messages a second over the `ran` seconds from the first to the last run of the window:
    a rate over minutes without a run would be that of no run. `ran` is None without any.
    """

    dlq_age: int | None = None
    main_age: int | None = None
    rate: float = 0.0
    ran: int | None = None


def queue_figures(
    cloudwatch: CloudWatchClient, app: App, pipelines: Sequence[DeployedPipeline], now: datetime
) -> Mapping[str, QueueFigures]:
    """The ages of main queue and DLQ and the rate of re-drives, where CloudWatch has them."""
    metrics = {pipeline.name: _of(app, pipeline) for pipeline in pipelines}
    every = [metric for some in metrics.values() for metric in some]
    found = points(cloudwatch, every, now - WINDOW, now + _LATE) if every else {}
    return {
        name: _figures(*(found.get(metric, ()) for metric in some))
        for name, some in metrics.items()
    }


def _of(app: App, pipeline: DeployedPipeline) -> tuple[Metric, Metric, Metric, Metric]:
    """The ages of its DLQ and of its main queue, its re-drives and its runs."""
    function = pipeline.redrive_function.rpartition(":")[2]
    ours = ((APP_DIMENSION, app.name), (DIMENSION, pipeline.name))
    return (
        *(_age(url.rpartition("/")[2]) for url in (pipeline.dlq_url, pipeline.main_url)),
        Metric(NAMESPACE, str(Figure.REDRIVEN), "Sum", ours),
        Metric("AWS/Lambda", "Invocations", "Sum", (("FunctionName", function),)),
    )  # type: ignore[return-value]  # two ages


def _figures(dlq: Points, main: Points, redriven: Points, runs: Points) -> QueueFigures:
    ran = [at for at, value in (*redriven, *runs) if value]
    if not ran:
        return QueueFigures(_last(dlq), _last(main))
    # Figures are of whole minutes: the first may have begun before the window.
    seconds = min((max(ran) - min(ran)).total_seconds() + _PERIOD, WINDOW.total_seconds())
    sent = sum(value for _, value in redriven)
    return QueueFigures(_last(dlq), _last(main), sent / seconds, int(seconds))
