"""The policy in force of a pipeline: what is deployed, not what `cdk.json` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import MAIN, Mode, pipeline_prefix

from . import observed
from .app import App, DeployedPipeline
from .deadline import Asking, Deadline, side_by_side
from .figures import alarms
from .observed import ObservedPipeline
from .queue import DeployedQueue, deployed_queue
from .session import Session

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

    from deadletter.settings.backoff import Backoff
    from deadletter.settings.pipeline import RetryPolicy


@dataclass(frozen=True, slots=True)
class Delays:
    """Exponential backoff with full jitter: a delay is drawn between `floor` and a ceiling."""

    base: Annotated[float, "seconds: the ceiling of the first delay"]
    factor: Annotated[float, "how much longer the next ceiling is"]
    cap: Annotated[float, "seconds: the highest ceiling"]
    floor: Annotated[float, "seconds: the shortest delay"]


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often a message is retried, and when."""

    max_attempts: Annotated[int, "retries before a message is parked as RETRIES_EXHAUSTED"]
    backoff: Annotated[Delays, "the delays before them"]
    ceilings: Annotated[Sequence[float], "seconds: the longest delay before each attempt"]


@dataclass(frozen=True, slots=True)
class AlarmSetting:
    """When a person is called."""

    name: Annotated[str, "name of the alarm"]
    state: Annotated[str, "OK, ALARM or INSUFFICIENT_DATA"]
    when: Annotated[str, "what makes it ring, in words"]


@dataclass(frozen=True, slots=True)
class SettingsInForce:
    """The policy in force of a pipeline."""

    mode: Annotated[str, "`enforce`, or `observe` (decides and reports, moves nothing)"]
    fifo: Annotated[bool, "whether its queues are FIFO queues"]
    policy: Annotated[Attempts, "attempts and delays of messages that no rule gives another policy"]
    policies: Annotated[Mapping[str, Attempts], "the policies that rules may name, by id"]
    receives: Annotated[Delays, "the delays between the receives of one attempt"]
    most_tries: Annotated[
        int | None,
        "how often the consumer is given one message at most, until a person retries it: the main "
        "queue's receives in each attempt; null if that queue could not be read",
    ]
    parked_end: Annotated[str, "what becomes of parked messages that no person looks after"]
    settings: Annotated[
        Mapping[str, Any],
        "all other settings by their names in docs/settings.md, defaults filled in: rate, "
        "message_ttl, circuit and so on",
    ]
    queues: Annotated[Mapping[str, DeployedQueue | None], "its queues; null if it could not be "
                      "read"]  # fmt: skip
    alarms: Annotated[Sequence[AlarmSetting] | None, "its alarms; null if they could not be read"]
    unread: Annotated[Sequence[str], "what could not be read, and why"]
    observed: Annotated[
        ObservedPipeline | None, "what mode observe would have done; null if nothing was observed"
    ] = None


def read(session: Session, app: App, name: str) -> SettingsInForce:
    """The policy in force. Raises Problem if the pipeline or its settings can't be read."""
    pipeline = app.pipeline(name)
    settings = pipeline.settings()
    aws = session.aws
    _ = aws.sqs, aws.cloudwatch  # made before there are threads
    with side_by_side(Deadline()) as start:
        ask = Asking(start)
        reads = {
            id_: ask(f"queue {id_}", deployed_queue, aws.sqs, url)
            for id_, url in pipeline.urls.items()
        }
        ringing = ask("the alarms", _alarms, aws.cloudwatch, app, pipeline)
        seen = ask("what mode observe has seen", observed.read, session, app, pipeline)
        queues = {id_: queue() for id_, queue in reads.items()}
        known, would = ringing(), seen()
    others = asdict(settings)
    for shown in ("name", "mode", "fifo", "policy", "policies", "retry"):
        others.pop(shown)
    return SettingsInForce(
        mode=settings.mode,
        fifo=settings.fifo,
        policy=_attempts(settings.policy),
        policies={id_: _attempts(policy) for id_, policy in settings.policies.items()},
        receives=_delays(settings.retry),
        most_tries=_most_tries(settings.policy, queues[MAIN]),
        parked_end=_PARKED_END[settings.mode],
        settings=others,
        queues=queues,
        alarms=known,
        unread=[f"{what} could not be read: {why.says}" for what, why in ask.lost],
        observed=would,
    )


def _most_tries(policy: RetryPolicy, main: DeployedQueue | None) -> int | None:
    """The receives of one life, in the first life and in that of each re-drive."""
    if main is None or main.max_receive_count is None:
        return None
    return main.max_receive_count * (1 + policy.max_attempts)


_PARKED_END = {
    Mode.ENFORCE: "none: a day before SQS would delete them, the monitor saves them, until a "
    "person retries or discards them",
    Mode.OBSERVE: "SQS deletes them when their queue's retention is over: observe moves nothing",
}


def _attempts(policy: RetryPolicy) -> Attempts:
    ceilings = [policy.backoff.ceiling(number) for number in range(1, policy.max_attempts + 1)]
    return Attempts(policy.max_attempts, _delays(policy.backoff), ceilings)


def _delays(backoff: Backoff) -> Delays:
    return Delays(**asdict(backoff))


def _alarms(
    cloudwatch: CloudWatchClient, app: App, pipeline: DeployedPipeline
) -> Sequence[AlarmSetting]:
    every = alarms(cloudwatch, pipeline_prefix(app.name, pipeline.name))
    return [AlarmSetting(alarm["AlarmName"], alarm["StateValue"], _when(alarm)) for alarm in every]


_COMPARISONS = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
}


def _when(alarm: Mapping[str, Any]) -> str:
    """What makes an alarm ring, in words."""
    if "Threshold" not in alarm:
        return str(alarm.get("AlarmRule") or "an anomaly")
    metrics = [
        metric["MetricStat"]["Metric"]["MetricName"]
        for metric in alarm.get("Metrics", ())
        if "MetricStat" in metric
    ]
    metric = alarm.get("MetricName") or " and ".join(dict.fromkeys(metrics)) or "an expression"
    comparison = _COMPARISONS.get(str(alarm.get("ComparisonOperator")), "?")
    periods, period = alarm.get("EvaluationPeriods", 1), alarm.get("Period")
    needed = alarm.get("DatapointsToAlarm", periods)
    looks = f"{needed} of {periods} periods" if periods != 1 else "one period"
    each = f" of {period} s" if period else ""
    return f"{metric} {comparison} {alarm['Threshold']:g} in {looks}{each}"
