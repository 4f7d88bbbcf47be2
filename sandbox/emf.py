"""Metrics that a function embeds in its log lines (CloudWatch embedded metric format).

CloudWatch turns such a line into metrics by itself; the emulator stores the line
and nothing else.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Datapoint:
    """One value of one metric under one set of dimensions.

    at  epoch seconds, which may lie ahead by two hours; None: when the line was written
    """

    namespace: str
    name: str
    unit: str
    dimensions: Mapping[str, str]
    value: float
    at: float | None = None


def datapoints(log: str) -> Iterator[Datapoint]:
    """Find every embedded metric in the lines of *log*.

    A line that is not understood is an ordinary line, as it is for CloudWatch.
    """
    for line in log.splitlines():
        # Nearly all lines are ordinary, and reading them as JSON takes time.
        if '"CloudWatchMetrics"' in line:
            with suppress(ValueError, KeyError, TypeError):
                yield from list(_embedded(json.loads(line)))


def _embedded(document: Mapping[str, Any]) -> Iterator[Datapoint]:
    stamp = document["_aws"].get("Timestamp")
    at = None if stamp is None else stamp / 1000
    for directive in document["_aws"]["CloudWatchMetrics"]:
        for dimensions in directive.get("Dimensions") or [[]]:
            for metric in directive["Metrics"]:
                values = document[metric["Name"]]
                for value in values if isinstance(values, list) else [values]:
                    yield Datapoint(
                        namespace=directive["Namespace"],
                        name=metric["Name"],
                        unit=metric.get("Unit", "None"),
                        dimensions={name: document[name] for name in dimensions},
                        value=float(value),
                        at=at,
                    )
