"""Metrics in CloudWatch's embedded metric format: one JSON line on the output."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deadletter.contract import APP_DIMENSION, DIMENSION, METRIC_UNITS, NAMESPACE, SOURCE_DIMENSION

MOST_METRICS = 100
"""The most metrics that CloudWatch accepts in one line; it drops a line with more."""


def line(
    values: Mapping[str, float], *, app: str, pipeline: str, at: float, source: str | None = None
) -> str:
    """The line for values by name of our metrics, at `at` (epoch seconds).

    With a `source` they are about one queue or lane.

    Raises ValueError for more than MOST_METRICS metrics.
    """
    if len(values) > MOST_METRICS:
        raise ValueError(f"{len(values)} metrics; a line holds {MOST_METRICS}")
    metrics = [{"Name": name, "Unit": METRIC_UNITS[name]} for name in values]
    dimensions = {APP_DIMENSION: app, DIMENSION: pipeline}
    if source is not None:
        dimensions[SOURCE_DIMENSION] = source
    metadata = {
        "Timestamp": int(at * 1000),
        "CloudWatchMetrics": [
            {"Namespace": NAMESPACE, "Dimensions": [list(dimensions)], "Metrics": metrics}
        ],
    }
    return json.dumps({"_aws": metadata, **dimensions, **values}, separators=(",", ":"))
