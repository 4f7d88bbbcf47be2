"""The metrics of a dashboard, read from its widgets as CloudWatch reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# What a widget says for all of its metrics that do not say it themselves.
AT_WIDGET = ("stat", "period")


@dataclass(frozen=True)
class Drawn:
    """A metric of a graph, and the graph's title."""

    title: str
    namespace: str
    name: str
    dimensions: Mapping[str, str]
    options: Mapping[str, Any]

    @property
    def metric(self) -> tuple[str, frozenset[tuple[str, str]]]:
        """What makes it this metric, in its namespace."""
        return self.name, frozenset(self.dimensions.items())


def in_full(metrics: Sequence[Sequence[Any]]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The parts and the options of each metric, as CloudWatch reads the short form."""
    before: list[str] = []
    for metric in metrics:
        options = metric[-1] if isinstance(metric[-1], dict) else {}
        parts = [part for part in metric if isinstance(part, str)]
        parts = [before[place] if part == "." else part for place, part in enumerate(parts)]
        yield parts, options
        before = parts


def metrics_of(widgets: Sequence[Mapping[str, Any]]) -> Iterator[Drawn]:
    for widget in widgets:
        properties = widget["properties"]
        at_widget = {name: properties[name] for name in AT_WIDGET if name in properties}
        for parts, options in in_full(properties.get("metrics", [])):
            if parts:
                namespace, name, *where = parts
                dimensions = dict(zip(where[::2], where[1::2], strict=True))
                options = {**at_widget, **options}
                yield Drawn(properties["title"], namespace, name, dimensions, options)
