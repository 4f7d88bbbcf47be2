"""Figures in CloudWatch's embedded metric format: one JSON line on the output is enough."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deadletter.contract import DIMENSION, NAMESPACE

MOST = 100
"""Metrics that CloudWatch takes in one line; of more it would take none."""


def line(counts: Mapping[str, int], *, pipeline: str, at: float) -> str:
    """The line for counts by the metric's name, at `at` (epoch seconds).

    Raises ValueError for more metrics than a line holds.
    """
    if len(counts) > MOST:
        raise ValueError(f"{len(counts)} metrics; a line holds {MOST}")
    metrics = [{"Name": name, "Unit": "Count"} for name in counts]
    about = {
        "Timestamp": int(at * 1000),
        "CloudWatchMetrics": [
            {"Namespace": NAMESPACE, "Dimensions": [[DIMENSION]], "Metrics": metrics}
        ],
    }
    return json.dumps({"_aws": about, DIMENSION: pipeline, **counts}, separators=(",", ":"))
