"""Graphs of a pipeline, with a line at the threshold of each alarm on their metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from . import here
from .alarm_row import Row
from .alarm_table import rows
from .dashboard_metrics import OurMetrics
from .queues import Addresses
from .settings import AppDeployment, PipelineDeployment

# Columns of a dashboard, and of each graph: three in a row.
COLUMNS, GRAPH = 24, 8
HEIGHT = 6

FROM_ZERO = cloudwatch.YAxisProps(min=0, show_units=False)
DIRECTION = cloudwatch.YAxisProps(min=-1, max=1, show_units=False)

MetricList = Sequence[cloudwatch.IMetric]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a pipeline's alarms, for graphs that draw the same metrics."""

    rows: Sequence[Row]

    def of(self, metrics: Iterable[cloudwatch.IMetric]) -> list[cloudwatch.HorizontalAnnotation]:
        """A line for each threshold of an alarm on one of the metrics."""
        drawn = [
            (metric.namespace, metric.metric_name, metric.dimensions)
            for metric in metrics
            if isinstance(metric, cloudwatch.Metric)
        ]
        lines: dict[float, list[str]] = {}
        for row in self.rows:
            measured = row.measured
            if (measured.namespace, measured.name, measured.dimensions) in drawn:
                lines.setdefault(row.threshold, []).append(f"{row.alarm}: {row.annotation}")
        return [
            cloudwatch.HorizontalAnnotation(
                value=value, label=", ".join(labels), color=cloudwatch.Color.RED
            )
            for value, labels in lines.items()
        ]


@dataclass(frozen=True, slots=True)
class Band:
    """The part of a dashboard that is about one pipeline."""

    app: AppDeployment
    settings: PipelineDeployment
    queues: Addresses
    ours: OurMetrics
    rows: Sequence[Row]

    @classmethod
    def of(cls, app: AppDeployment, settings: PipelineDeployment) -> Band:
        """The band of a pipeline, with the alarms of its settings."""
        queues = Addresses.of(app, settings)
        table = tuple(rows(app, settings, queues))
        return cls(app, settings, queues, OurMetrics(app.app, settings.name), table)

    def title(self, title: str) -> str:
        """The title of a widget, with the pipeline's name."""
        return f"{self.settings.name}: {title}"

    def graph(
        self, title: str, left: MetricList, right: MetricList = (), **more: Any
    ) -> cloudwatch.IWidget:
        """A graph of the pipeline; `more` as in `graph`."""
        return graph(self.title(title), left, right, Thresholds(self.rows), **more)


def graph(
    title: str,
    left: MetricList,
    right: MetricList = (),
    thresholds: Thresholds | None = None,
    *,
    right_axis: cloudwatch.YAxisProps = FROM_ZERO,
    stacked: bool = False,
    bars: bool = False,
) -> cloudwatch.IWidget:
    """A graph with the thresholds of the alarms on its metrics.

    With `bars` it has one bar a metric, for all the time that the dashboard shows.
    """
    lines = thresholds or Thresholds(())
    return cloudwatch.GraphWidget(
        title=title,
        left=list(left),
        right=list(right),
        left_annotations=lines.of(left),
        right_annotations=lines.of(right),
        left_y_axis=FROM_ZERO,
        right_y_axis=right_axis if right else None,
        stacked=stacked,
        view=cloudwatch.GraphWidgetView.BAR if bars else None,
        set_period_to_time_range=True if bars else None,
        width=GRAPH,
        height=HEIGHT,
    )


def alarm_called(scope: Construct, name: str) -> cloudwatch.IAlarm:
    """The alarm of this name: by name, because its stack comes later than the dashboard's."""
    arn = f"arn:{here.PARTITION}:cloudwatch:{here.REGION}:{here.ACCOUNT_ID}:alarm:{name}"
    return cloudwatch.Alarm.from_alarm_arn(scope, name, arn)
