"""A figure of the watch: one value of a metric at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadletter.contract import Metric


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One value of `metric` at `at` (epoch seconds).

    `source` is the queue or lane that the figure is about, None for the whole pipeline.
    With `everywhere` the figure is about all pipelines of the app.
    """

    metric: Metric
    value: float
    at: float
    source: str | None = None
    everywhere: bool = False


METRICS: Mapping[str, Metric] = {str(metric): metric for metric in Metric}
"""The metrics by their names."""
