"""A figure of the watch: one value of a metric at one time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deadletter.contract import EVERY_PIPELINE
from deadletter.signals import emf
from deadletter.signals.figures import Counted


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One value of `metric` at `at` (epoch seconds).

    `source` is the queue or lane that the figure is about, None for the whole pipeline.
    With `everywhere` the figure is about all pipelines of the app.
    """

    metric: Counted
    value: float
    at: float
    source: str | None = None
    everywhere: bool = False


def metric_lines(points: Iterable[MetricPoint], *, app: str, pipeline: str) -> Iterator[str]:
    """The lines for these points: one for each time and each set of dimensions."""
    lines: defaultdict[tuple[float, str | None, bool], dict[str, float]] = defaultdict(dict)
    for point in points:
        lines[point.at, point.source, point.everywhere][point.metric] = point.value
    for (at, source, everywhere), values in lines.items():
        named = EVERY_PIPELINE if everywhere else pipeline
        yield emf.line(values, app=app, pipeline=named, at=at, source=source)
