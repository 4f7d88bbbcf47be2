"""The figures of the watch as lines of embedded metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from deadletter.aws import emf
from deadletter.contract import EVERY_PIPELINE
from deadletter.watch.point import MetricPoint


def metric_lines(points: Iterable[MetricPoint], *, app: str, pipeline: str) -> Iterator[str]:
    """The lines for these points: one for each time and each set of dimensions."""
    lines: defaultdict[tuple[float, str | None, bool], dict[str, float]] = defaultdict(dict)
    for point in points:
        lines[point.at, point.source, point.everywhere][point.metric] = point.value
    for (at, source, everywhere), values in lines.items():
        named = EVERY_PIPELINE if everywhere else pipeline
        yield emf.line(values, app=app, pipeline=named, at=at, source=source)
