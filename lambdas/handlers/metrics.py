"""What the functions publish: lines of embedded metrics on their output."""

import os
import sys
from collections.abc import Iterable, Mapping
from threading import Lock

from aws_lambda_powertools.metrics import MetricUnit, single_metric

from deadletter.contract import APP_DIMENSION, DIMENSION, METRIC_UNITS, NAMESPACE, Variable
from handlers.runtime import settings

# Two threads must not write into each other's lines.
_writing = Lock()


def write(lines: Iterable[str]) -> None:
    """Write lines of embedded metrics."""
    with _writing:
        for line in lines:
            sys.stdout.write(f"{line}\n")


def dimensions(pipeline: str) -> Mapping[str, str]:
    """The dimensions of a pipeline's metrics; stages in one account are apps of their own."""
    return {APP_DIMENSION: os.environ[Variable.APP], DIMENSION: pipeline}


def unit(name: str) -> MetricUnit:
    """The unit of one of our metrics."""
    return MetricUnit(METRIC_UNITS[name])


def count_metric(name: str, number: int) -> None:
    """Count a metric of this function's pipeline, or set a gauge."""
    count_metric_of(settings()[0].name, name, number)


def count_metric_of(pipeline: str, name: str, number: int) -> None:
    """Count a metric of any pipeline, for the functions that belong to the whole app."""
    with _writing:
        with single_metric(name, unit(name), number, namespace=NAMESPACE) as metric:
            for dimension, value in dimensions(pipeline).items():
                metric.add_dimension(dimension, value)
        # The function may be ended at any moment: what it counts at once has to be out.
        sys.stdout.flush()
