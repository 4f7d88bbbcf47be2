"""Why a function of ours has left no record: what CloudWatch says of its starts.

A run, or the watch, that is silent has not been started, or was refused by Lambda, or fails, or
could not write its record. From the record alone these look alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from deadletter.contract import MAIN_DLQ, pipeline_prefix
from deadletter.signals.commands import TypedLine, typed
from deadletter.signals.troubles import stack_of

from .adapter_errors import aws_errors
from .words import count, duration

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef

    from .status import PipelineStatus

# The minute of the record itself, and the minutes that CloudWatch may be late.
_AFTER_THE_RECORD = timedelta(minutes=1)

# Silence is not asked about before: a figure would be of too few minutes.
LEAST = timedelta(minutes=3)

# CloudWatch keeps figures of single minutes for 15 days; nobody is helped by older ones.
_MOST = timedelta(hours=3)

_INVOCATIONS, _ERRORS, _THROTTLES = "Invocations", "Errors", "Throttles"
_TABLE = ("ReadThrottleEvents", "WriteThrottleEvents")


@dataclass(frozen=True, slots=True)
class Silence:
    """A function of a pipeline that has left no record since a time, and its schedule."""

    pipeline: str
    function: str
    schedule: str
    since: datetime


@dataclass(frozen=True, slots=True)
class SilenceReason:
    """Why a function is silent, and what ends that."""

    says: str
    type: str


def silences(app: str, pipeline: PipelineStatus, now: datetime) -> Iterator[Silence]:
    """The functions of a pipeline that have been silent for longer than they should."""
    prefix = pipeline_prefix(app, pipeline.name)
    if not pipeline.sources:
        return  # What runs and the watch remember could not be read.
    watch = f"{prefix}watch"
    if pipeline.watch_ran_at is not None and now - pipeline.watch_ran_at >= LEAST:
        yield Silence(pipeline.name, watch, watch, pipeline.watch_ran_at)
    source = pipeline.source(MAIN_DLQ)
    ending = None if source is None or source.last_ending is None else source.last_ending.at
    # The watch knows how often runs begin: where it sees no stall, this one is not late.
    if pipeline.is_stalled and ending is not None and now - ending >= LEAST:
        yield Silence(pipeline.name, f"{prefix}redrive", f"{prefix}dlq", ending)


def because(
    cloudwatch: CloudWatchClient, silence: Silence, app: str, letters_table: str, now: datetime
) -> SilenceReason:
    """The sentence that says why, and what ends it, from the figures of the minutes of silence."""
    start = max(silence.since + _AFTER_THE_RECORD, now - _MOST)
    function = {"FunctionName": silence.function}
    figures = _sums(
        cloudwatch,
        [
            *(("AWS/Lambda", name, function) for name in (_INVOCATIONS, _ERRORS, _THROTTLES)),
            *(("AWS/DynamoDB", name, {"TableName": letters_table}) for name in _TABLE),
        ],
        start,
        now,
    )
    ago = duration((now - silence.since).total_seconds())
    why, command = _why(silence, figures, letters_table)
    facts = {"function": silence.function, "stack": stack_of(app, silence.pipeline)}
    says = f"{silence.function} has left no record for {ago}: {why}"
    return SilenceReason(says, typed(command, facts))


def _why(silence: Silence, figures: Mapping[str, float], table: str) -> tuple[str, TypedLine]:
    started, failed, refused = (int(figures[name]) for name in (_INVOCATIONS, _ERRORS, _THROTTLES))
    if refused:
        says = (
            f"Lambda throttles it ({count(refused, 'time')}); its reserved concurrency is 0 or too "
            "low, or the account's is used up"
        )
        return says, TypedLine.LET_RUN
    if not started:
        says = (
            f"it is not started; its schedule {silence.schedule} is disabled or deleted, or may "
            "not start it"
        )
        return says, TypedLine.DEPLOY
    if throttled := int(sum(figures[name] for name in _TABLE)):
        says = (
            f"it runs, and DynamoDB throttles {table} (ThrottlingException, "
            f"{count(throttled, 'request')})"
        )
        return says, TypedLine.DEPLOY
    if failed:
        says = f"it fails ({failed} of {count(started, 'start')}); its log says why"
        return says, TypedLine.LOG
    return (
        f"it runs without an error, and its record is not in {table}; its log says why",
        TypedLine.LOG,
    )


def _sums(
    cloudwatch: CloudWatchClient,
    metrics: Sequence[tuple[str, str, Mapping[str, str]]],
    start: datetime,
    end: datetime,
) -> Mapping[str, float]:
    """The sum of each metric over the minutes, by its name; 0 for a metric without data."""
    queries: list[MetricDataQueryTypeDef] = [
        {
            "Id": f"q{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": namespace,
                    "MetricName": name,
                    "Dimensions": [{"Name": key, "Value": dimensions[key]} for key in dimensions],
                },
                "Period": 60,
                "Stat": "Sum",
            },
        }
        for number, (namespace, name, dimensions) in enumerate(metrics)
    ]
    sums = dict.fromkeys((name for _, name, _ in metrics), 0.0)
    with aws_errors():
        pages = cloudwatch.get_paginator("get_metric_data").paginate(
            MetricDataQueries=queries, StartTime=start, EndTime=end
        )
        for result in chain.from_iterable(page["MetricDataResults"] for page in pages):
            sums[metrics[int(result["Id"][1:])][1]] += sum(result["Values"])
    return sums
