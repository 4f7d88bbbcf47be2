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
from deadletter.signals.troubles import Fact, Seen, TroubleKind

from .adapter_errors import aws_errors
from .words import duration

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
    cloudwatch: CloudWatchClient, silence: Silence, letters_table: str, now: datetime
) -> Seen:
    """Why a function is silent, from the figures of the minutes of its silence."""
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
    started, failed, refused = (int(figures[name]) for name in (_INVOCATIONS, _ERRORS, _THROTTLES))
    throttled = int(sum(figures[name] for name in _TABLE))
    if refused:
        kind, times = TroubleKind.NOT_LET_RUN, refused
    elif not started:
        kind, times = TroubleKind.NOT_STARTED, 0
    elif throttled:
        kind, times = TroubleKind.TABLE_THROTTLED, throttled
    elif failed:
        kind, times = TroubleKind.FUNCTION_FAILS, failed
    else:
        kind, times = TroubleKind.NOT_RECORDED, 0
    facts: dict[str, Fact] = {"function": silence.function, "schedule": silence.schedule}
    ago = duration((now - silence.since).total_seconds())
    facts |= {"ago": ago, "table": letters_table, "times": times, "starts": started}
    return Seen(kind, facts)


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
