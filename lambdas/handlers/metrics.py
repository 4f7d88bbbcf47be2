"""What the functions publish: lines of embedded metrics on their output."""

import os
import sys
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING

from deadletter.contract import Variable
from deadletter.signals import emf
from handlers.runtime import settings, world

if TYPE_CHECKING:
    from deadletter.redrive.report import Report

# Two threads must not write into each other's lines.
_writing = Lock()


def write(lines: Iterable[str]) -> None:
    """Write lines of embedded metrics."""
    with _writing:
        for line in lines:
            sys.stdout.write(f"{line}\n")
        # The function may be ended at any moment: what it counts at once has to be out.
        sys.stdout.flush()


def app() -> str:
    """The first dimension of our metrics: stages in one account are apps of their own."""
    return os.environ[Variable.APP]


def count_metric(name: str, number: int) -> None:
    """Count something of this function's pipeline, or set a gauge."""
    count_metric_of(settings()[0].name, name, number)


def count_metric_of(pipeline: str, name: str, number: int) -> None:
    """Count something of any pipeline, for the functions that belong to the whole app."""
    write([emf.line({name: number}, app=app(), pipeline=pipeline, at=world().clock())])


def report_lines(report: "Report", app: str, now: float) -> Iterator[str]:
    """The lines of embedded metrics for a run: its numbers, and the values of each letter.

    Powertools formats all values of a line for its log with each value that it adds: a tenth of
    what a letter takes.
    """
    counts, samples = report.metrics(), report.samples()
    return emf.lines_of_batch(counts, samples, {}, app=app, pipeline=report.pipeline, at=now)
