"""Metrics in CloudWatch's embedded metric format: JSON lines on the output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from deadletter.contract import (
    APP_DIMENSION,
    CATEGORY_DIMENSION,
    DIMENSION,
    METRIC_UNITS,
    NAMESPACE,
    SOURCE_DIMENSION,
    Metric,
)

MOST_METRICS = 100
"""The most metrics that CloudWatch accepts in one line; it drops a line with more."""

MOST_VALUES = 100
"""The most values of one metric that CloudWatch accepts in one line."""


def line(
    values: Mapping[str, float | Sequence[float]],
    *,
    app: str,
    pipeline: str,
    at: float,
    source: str | None = None,
    category: str | None = None,
) -> str:
    """The line for values by name of our metrics, at `at` (epoch seconds).

    A metric may have several values. With a `source` they are about one queue or lane, with a
    `category` about one kind of failure.

    Raises ValueError for more than MOST_METRICS metrics or MOST_VALUES values of one.
    """
    if len(values) > MOST_METRICS:
        raise ValueError(f"{len(values)} metrics; a line holds {MOST_METRICS}")
    for name, value in values.items():
        if isinstance(value, Sequence) and len(value) > MOST_VALUES:
            raise ValueError(f"{len(value)} values of {name}; a line holds {MOST_VALUES}")
    metrics = [{"Name": name, "Unit": METRIC_UNITS[name]} for name in values]
    dimensions = {APP_DIMENSION: app, DIMENSION: pipeline}
    if source is not None:
        dimensions[SOURCE_DIMENSION] = source
    if category is not None:
        dimensions[CATEGORY_DIMENSION] = category
    metadata = {
        "Timestamp": int(at * 1000),
        "CloudWatchMetrics": [
            {"Namespace": NAMESPACE, "Dimensions": [list(dimensions)], "Metrics": metrics}
        ],
    }
    return json.dumps({"_aws": metadata, **dimensions, **values}, separators=(",", ":"))


def lines_of_batch(
    counts: Mapping[str, int],
    samples: Mapping[str, Sequence[int]],
    failures: Mapping[str, int],
    *,
    app: str,
    pipeline: str,
    at: float,
) -> Iterator[str]:
    """The lines for what a batch of the consumer did; none if nothing is to be said.

    `samples` are metrics with one value a letter, `failures` are counts by category.
    """
    first: dict[str, float | Sequence[float]] = dict(counts)
    first |= {name: values[:MOST_VALUES] for name, values in samples.items() if values}
    if first:
        yield line(first, app=app, pipeline=pipeline, at=at)
    for name, values in samples.items():
        for start in range(MOST_VALUES, len(values), MOST_VALUES):
            rest = {name: values[start : start + MOST_VALUES]}
            yield line(rest, app=app, pipeline=pipeline, at=at)
    for category, number in failures.items():
        of_category = {str(Metric.FAILURES_BY_CATEGORY): number}
        yield line(of_category, app=app, pipeline=pipeline, at=at, category=category)
