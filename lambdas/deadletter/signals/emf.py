"""Metrics in CloudWatch's embedded metric format: JSON lines on the output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from deadletter.contract import (
    APP_DIMENSION,
    CATEGORY_DIMENSION,
    DIMENSION,
    NAMESPACE,
    SOURCE_DIMENSION,
)
from deadletter.signals.figures import COUNTED, Figure, Values, with_sums

MOST_VALUES = 100
"""The most values of one metric that CloudWatch accepts in one line."""


def line(
    values: Mapping[str, Values],
    *,
    app: str,
    pipeline: str,
    at: float,
    source: str | None = None,
    category: str | None = None,
) -> str:
    """The line for figures and counts by name, at `at` (epoch seconds).

    Figures are metrics, and counts are fields of the line alone. A figure may have several values.
    With a `source` they are about one queue or lane, with a `category` about one kind of failure.

    Raises ValueError for more than MOST_VALUES values of one.
    """
    fields = with_sums(values)
    figures = [each for each in map(COUNTED.__getitem__, fields) if isinstance(each, Figure)]
    for name, value in fields.items():
        if isinstance(value, Sequence) and len(value) > MOST_VALUES:
            raise ValueError(f"{len(value)} values of {name}; a line holds {MOST_VALUES}")
    dimensions = {APP_DIMENSION: app, DIMENSION: pipeline}
    if source is not None:
        dimensions[SOURCE_DIMENSION] = source
    if category is not None:
        dimensions[CATEGORY_DIMENSION] = category
    metrics = [{"Name": str(figure), "Unit": figure.unit} for figure in figures]
    directive = {"Namespace": NAMESPACE, "Dimensions": [list(dimensions)], "Metrics": metrics}
    metadata = {"Timestamp": int(at * 1000), "CloudWatchMetrics": [directive]}
    embedded = {"_aws": metadata} if metrics else {}
    return json.dumps({**embedded, **dimensions, **fields}, separators=(",", ":"))


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
    first: dict[str, Values] = dict(counts)
    first |= {name: values[:MOST_VALUES] for name, values in samples.items() if values}
    if first:
        yield line(first, app=app, pipeline=pipeline, at=at)
    for name, values in samples.items():
        for start in range(MOST_VALUES, len(values), MOST_VALUES):
            rest = {name: values[start : start + MOST_VALUES]}
            yield line(rest, app=app, pipeline=pipeline, at=at)
    for category, number in failures.items():
        of_category = {str(Figure.FAILURES_BY_CATEGORY): number}
        yield line(of_category, app=app, pipeline=pipeline, at=at, category=category)
