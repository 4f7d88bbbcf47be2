"""Metrics in CloudWatch's embedded metric format: one JSON line on the output."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deadletter.contract import APP_DIMENSION, DIMENSION, METRIC_UNITS, NAMESPACE

MOST_METRICS = 100
"""The most metrics that CloudWatch accepts in one line; it drops a line with more."""


def line(counts: Mapping[str, int], *, app: str, pipeline: str, at: float) -> str:
    """The line for counts by name of our metrics, at `at` (epoch seconds).

    Raises ValueError for more than MOST_METRICS metrics.
    """
    if len(counts) > MOST_METRICS:
        raise ValueError(f"{len(counts)} metrics; a line holds {MOST_METRICS}")
    metrics = [{"Name": name, "Unit": METRIC_UNITS[name]} for name in counts]
    dimensions = {APP_DIMENSION: app, DIMENSION: pipeline}
    metadata = {
        "Timestamp": int(at * 1000),
        "CloudWatchMetrics": [
            {"Namespace": NAMESPACE, "Dimensions": [list(dimensions)], "Metrics": metrics}
        ],
    }
    return json.dumps({"_aws": metadata, **dimensions, **counts}, separators=(",", ":"))
