"""How fast a replay run may be, from what the main queue usually does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Annotated

from deadletter.replay.plan import CAREFUL_RATE, ReplayPlan

from .app import DeployedPipeline
from .aws import explain
from .session import Session

SHARE = 0.15
"""The share of the usual throughput that a run takes: live messages keep the rest."""

_HOUR = 3_600
_HOURS = 24

SLOWEST = 0.2
"""Letters per second of a run whose main queue is nearly idle: one in five seconds."""

ONE_WORKER = 40.0
"""Letters per second that one worker sends with ease; a faster run has more workers."""

MOST_WORKERS = 8
"""A worker has at least one of the eight shards of a run's letters."""

# A canary's outcome is known when its consumer has answered and the ledger was read.
_CANARY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate of a run, and where it comes from."""

    rate: Annotated[float, "messages per second at full pace, of all workers together"]
    because: Annotated[str, "where the rate comes from"]
    workers: Annotated[int, "workers that share the messages"]


def pace(session: Session, pipeline: DeployedPipeline, given: float | None) -> Pace:
    """The rate that was given; else a share of the usual throughput; else a careful one."""
    if given is not None:
        return _paced(given, "as you asked")
    usual, unknown = _usual(session, pipeline)
    if usual is None:
        return _paced(CAREFUL_RATE, f"a careful one, because {unknown}")
    return _paced(
        max(SLOWEST, usual * SHARE),
        f"15 % of the {usual:.3g} messages/s that the main queue usually has deleted",
    )


def _paced(rate: float, because: str) -> Pace:
    rate = float(f"{rate:.3g}")
    return Pace(rate, because, min(MOST_WORKERS, max(1, math.ceil(rate / ONE_WORKER))))


def _usual(session: Session, pipeline: DeployedPipeline) -> tuple[float | None, str]:
    """Messages that are deleted per second: the median hour of a day; else why it is unknown."""
    try:
        answer = session.aws.cloudwatch.get_metric_statistics(
            Namespace="AWS/SQS",
            MetricName="NumberOfMessagesDeleted",
            Dimensions=[{"Name": "QueueName", "Value": pipeline.main_url.rpartition("/")[2]}],
            StartTime=session.now - timedelta(hours=_HOURS),
            EndTime=session.now,
            Period=_HOUR,
            Statistics=["Sum"],
        )
    except Exception as error:
        problem = explain(error)
        if problem is None:
            raise
        return None, f"CloudWatch did not say ({problem.says.rstrip('.')})"
    hours = [point["Sum"] for point in answer["Datapoints"] if point.get("Sum")]
    if not hours:
        return None, "CloudWatch has no deleted messages of the last 24 hours"
    return median(hours) / _HOUR, ""


def duration(plan: ReplayPlan, letters: int) -> float:
    """About how long a run takes, in seconds: its canaries, its ramp, and the rest at its rate."""
    left, seconds = float(letters), 0.0
    for canary in plan.canary:
        if left <= 0:
            return seconds
        seconds += _CANARY_SECONDS + canary / plan.rate
        left -= canary
    for share in plan.ramp:
        if left <= 0:
            return seconds
        step = min(plan.ramp_seconds, left / (plan.rate * share))
        seconds += step
        left -= step * plan.rate * share
    return seconds + max(0.0, left) / plan.rate
