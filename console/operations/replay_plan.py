"""Plans a run, with its pace, and starts it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.circuit.state import State
from deadletter.contract import Mode, Reason
from deadletter.failure.failure import version_in
from deadletter.replay.plan import (
    CAREFUL_RATE,
    DELIVER,
    LONGEST_RUN,
    MAIN_QUEUE,
    ReplayPlan,
)
from deadletter.replay.run import ReplayRun, RunState

from .app import DeployedPipeline
from .audit import IntendedChange, recorded
from .circuits import in_the_way, own_and_troubled
from .errors import Cause, Problem, aws_errors, explain
from .letter_walk import See
from .replay_census import Census, CountedLetter, ReplaySource, census, must_look
from .replay_runs import ReplayRow, person, row
from .session import Answer, Here, Session
from .watched import read_memories, source_status
from .words import clock, count, moment
from .words import duration as in_words

if TYPE_CHECKING:
    from deadletter.settings.pipeline import Pipeline

    from .sources import Chosen


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


def pace(here: Here, given: float | None) -> Pace:
    """The rate that was given; else a share of the usual throughput; else a careful one."""
    if given is not None:
        return _paced(given, "as you asked")
    usual, unknown = _usual(here)
    if usual is None:
        return _paced(CAREFUL_RATE, f"a careful one, because {unknown}")
    return _paced(
        max(SLOWEST, usual * SHARE),
        f"15 % of the {usual:.3g} messages/s that the main queue usually has deleted",
    )


def _paced(rate: float, because: str) -> Pace:
    rate = float(f"{rate:.3g}")
    return Pace(rate, because, min(MOST_WORKERS, max(1, math.ceil(rate / ONE_WORKER))))


def _usual(here: Here) -> tuple[float | None, str]:
    """Messages that are deleted per second: the median hour of a day; else why it is unknown."""
    session, queue = here.session, here.pipeline.main_url.rpartition("/")[2]
    try:
        answer = session.aws.cloudwatch.get_metric_statistics(
            Namespace="AWS/SQS",
            MetricName="NumberOfMessagesDeleted",
            Dimensions=[{"Name": "QueueName", "Value": queue}],
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


RETRIED = tuple(each for each in Reason if each not in (Reason.QUARANTINED, Reason.EXPIRED))
"""Reasons for which automation parks a message, and a person's run sends it all the same: neither
against a rule that stops it, nor after its expiry."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """A plan, the messages that were counted for it, and what people are told about it.

    `origins` is None where they cannot be counted one by one: the head of a FIFO queue. `seconds`
    is about how long the run takes.
    """

    source: ReplaySource
    plan: ReplayPlan
    origins: tuple[str, ...] | None
    census: Census
    rate_because: str
    seconds: float
    warnings: Sequence[str]

    def because(self, reason: str) -> ReplayPlan:
        """The plan with a person's reason."""
        return replace(self.plan, why=reason)


def draft_of(
    found: Chosen,
    source: ReplaySource,
    terms: ReplayPlan,
    rate: float | None,
    see: See | None = None,
) -> DraftPlan:
    """The plan for one of the sources of chosen messages, which are counted. Nothing is moved.

    `terms` say where and how they are to be sent; a `rate` of None leaves that to the usual one.
    The messages of a DLQ are received, once, if the records can't tell which are meant, or if `see`
    is to be called with each that is chosen.
    """
    here, pipeline = found.here, found.pipeline
    # What is thrown away may look as it will.
    selection = replace(found.selection, include=tuple(Reason) if terms.discards else RETRIED)
    look = see is not None or must_look(pipeline, source, found.selection)
    counted = census(here, source, selection, look=look, see=see)
    _check_conflicts(terms, counted)
    speed = pace(here, rate)
    heads_alone = pipeline.fifo and source.url is not None and not counted.saw_each
    origins = None if heads_alone else tuple(sorted({letter.origin for letter in counted.taken}))
    plan = replace(
        planned(here, terms, speed, len(counted.taken)),
        source=source.id,
        selection=replace(selection, groups=counted.groups),
        counted=None if origins is None else len(origins),
    )
    seconds = duration(plan, len(counted.taken))
    warnings = [
        # What goes elsewhere needs no circuit.
        *(circuits(here) if plan.destination in (MAIN_QUEUE, DELIVER) else ()),
        *_warnings(here, source, plan, counted, seconds),
    ]
    return DraftPlan(source, plan, origins, counted, speed.because, seconds, tuple(warnings))


def planned(here: Here, terms: ReplayPlan, speed: Pace, letters: int) -> ReplayPlan:
    """A plan on these terms for so many letters: with its pace, and what the settings say of it."""
    settings, now = here.pipeline.settings(), here.session.now.timestamp()
    most = settings.replay.approve_above
    return replace(
        terms,
        rate=speed.rate,
        burst=max(1, min(10, int(speed.rate * 2))),
        ordered=here.pipeline.fifo or settings.ordering_key is not None,
        outcome_timeout=float(settings.replay.outcome_timeout),
        workers=speed.workers,
        approve=terms.approve or (most is not None and letters > most),
        created=round(now, 3),
        expires=round(now + LONGEST_RUN, 3),
        who=here.session.aws.caller,
    )


def _check_conflicts(terms: ReplayPlan, counted: Census) -> None:
    """A message that was parked for a conflict of keys would be parked for it again."""
    conflicts = sum(letter.reason == Reason.KEY_CONFLICT for letter in counted.taken)
    if conflicts and not terms.discards and not terms.accept:
        raise Problem(
            f"Parked for KEY_CONFLICT: {count(conflicts, 'message')}. Another message with the "
            "same idempotency key was processed, and differs; what is sent is parked again. If "
            "both messages are right, add --accept-conflict; else leave it out, or discard it.",
            Cause.INPUT,
        )


def observing(pipeline: DeployedPipeline, comes: str) -> Iterator[str]:
    """What comes of a change to a pipeline that only observes, and how that is lifted."""
    if pipeline.mode == Mode.OBSERVE:
        yield f"The pipeline observes, so {comes}: set mode enforce, deploy, and type it again."


def circuits(here: Here) -> Iterator[str]:
    """A sentence for each circuit that is not closed, and how to lift it."""
    for circuit in own_and_troubled(here.session, here.app, here.pipeline):
        if circuit.state is not State.CLOSED:
            yield in_the_way(
                here.pipeline,
                circuit,
                "messages that need it leave the run and wait for it, and the run holds itself "
                "while the pipeline's own circuit is not closed",
            )


def _first_seen(letter: CountedLetter) -> float:
    """When a letter was sent, or failed first for all that is known; epoch seconds."""
    if letter.first_sent:
        return letter.first_sent / 1000
    return math.inf if letter.failed_at is None else letter.failed_at


def _failed_since(letters: Sequence[CountedLetter], changed: datetime | None) -> int:
    if changed is None:
        return 0
    at = changed.timestamp()
    return sum(letter.failed_at is not None and letter.failed_at > at for letter in letters)


@dataclass(frozen=True, slots=True)
class ConsumerNow:
    """The consumer's function as it is deployed; `changed` is None if that is unknown.

    `version` is in words; `name` is the version as its library reports it with a failure.
    """

    changed: datetime | None = None
    version: str = ""
    name: str = ""


# Characters of CodeSha256 that tell two builds apart.
_CODE = 12


def consumer_now(here: Here) -> ConsumerNow:
    """The consumer's function now; nothing is known where it cannot be read."""
    function = here.pipeline.consumer_function
    if not function:
        return ConsumerNow()
    try:
        answer = here.session.aws.lambda_.get_function_configuration(FunctionName=function)
        variables = answer.get("Environment", {}).get("Variables", {})
        reports = {"AWS_LAMBDA_FUNCTION_VERSION": str(answer.get("Version", "")), **variables}
        return ConsumerNow(
            datetime.fromisoformat(answer["LastModified"]), _version(answer), version_in(reports)
        )
    except (KeyError, ValueError):
        return ConsumerNow()
    except Exception as error:
        if explain(error) is None:
            raise
        return ConsumerNow()


def _version(answer: Mapping[str, Any]) -> str:
    """What a function's configuration says of its code, in words."""
    version, code = (str(answer.get(name, "")) for name in ("Version", "CodeSha256"))
    # arn:aws:lambda:region:account:function:name[:qualifier]
    qualifier = "".join(str(answer.get("FunctionArn", "")).split(":")[7:8])
    alias = f" (alias {qualifier})" if qualifier not in ("", version) else ""
    parts = (f"version {version}{alias}" if version else "", f"code {code[:_CODE]}" if code else "")
    return ", ".join(filter(None, parts))


def _first_expiry(here: Here, source: ReplaySource) -> datetime | None:
    """When SQS deletes the oldest letter of the source, as the watch knows it."""
    if source.url is None:
        return None
    session, table = here.session, here.app.messages_table
    memories = read_memories(session.aws.dynamodb, table, here.pipeline.name)
    left = source_status(memories, source.id, source.url, 0, session.now).seconds_to_expiry
    return None if left is None else moment(session.now.timestamp() + left)


def _warnings(
    here: Here, source: ReplaySource, plan: ReplayPlan, counted: Census, seconds: float
) -> Iterator[str]:
    """What a person should know before the run starts, the most dangerous first."""
    session, pipeline, settings = here.session, here.pipeline, here.pipeline.settings()
    letters, now = counted.taken, session.now
    if plan.discards:
        return
    expiry = _first_expiry(here, source)
    consumer = consumer_now(here)
    yield from observing(pipeline, "this run would be aborted before it takes a message")
    yield from _duplicate_warnings(session, settings, letters)
    yield from _order_warnings(pipeline, settings, plan)
    failed_in = Counter(letter.version for letter in letters if letter.version)
    if consumer.name and (same_version := failed_in[consumer.name]):
        yield (
            f"{count(same_version, 'message')} failed in version {consumer.name} of the consumer, "
            "which runs now: the fix is not in it."
        )
    elif failed_in and not consumer.name:
        names = ", ".join(name for name, _ in failed_in.most_common(3))
        yield (
            f"They failed in version {names} of the consumer; which one runs now is not known here:"
            " make sure that it is another."
        )
    if not pipeline.consumer_function:
        yield (
            "The consumer is no Lambda function of the settings, so when it was last changed is "
            "unknown: make sure that the fix is deployed."
        )
    elif (changed := consumer.changed) is None:
        yield "When the consumer was last changed can't be read: make sure that the fix is in."
    elif since := _failed_since(letters, changed):
        same = f"in the same {consumer.version}" if consumer.version else "in the same code"
        yield (
            f"{count(since, 'message')} failed after the consumer's last change "
            f"({clock(changed, now)}), {same} that runs now: the fix may not be in it."
        )
    if expiry is not None and expiry.timestamp() < now.timestamp() + seconds:
        yield (
            f"SQS deletes the oldest message at {clock(expiry, now)}, before the run would end; "
            "a run takes its messages out of the queue at its start, so start soon."
        )
    if counted.widened:
        yield (
            f"Joining although they do not match: {count(counted.widened, 'message')}; "
            "a FIFO group is taken wholly, or its order is lost."
        )
    if counted.by_ledger:
        yield _ledger_says(counted, settings)
        if settings.expires:
            yield (
                "The records have no bodies, so which messages are past their own expiry is not "
                "known: they are parked as EXPIRED."
            )
    elif pipeline.fifo and source.url is not None and not counted.saw_each:
        yield (
            "SQS shows at most ten messages of a FIFO group: the groups are counted, and the run "
            "takes all messages of each of them."
        )
    if counted.not_given_back:
        hidden = count(counted.not_given_back, "message")
        yield f"{hidden} could not be given back at once: hidden for 11 minutes at most."
    if not counted.is_whole:
        yield "The count ended before the source did: messages that it has not seen stay out."


def _duplicate_warnings(
    session: Session, settings: Pipeline, letters: Sequence[CountedLetter]
) -> Iterator[str]:
    """Who keeps a message from being processed twice."""
    if applied := sum(letter.applied for letter in letters):
        yield (
            f"{count(applied, 'message')} were processed before, as is on record: "
            "the consumer skips them, if its idempotency still knows them."
        )
    if not settings.consumer_library:
        yield (
            "The consumer does not use the library: nothing keeps a message from being processed "
            "twice, unless the consumer does it by itself."
        )
        return
    age = session.now.timestamp() - min(map(_first_seen, letters), default=math.inf)
    if age > settings.idempotency_keep:
        yield (
            f"The oldest message is at least {in_words(age)} old, and idempotency remembers "
            f"{in_words(settings.idempotency_keep)}: an older message that was processed is "
            "processed again."
        )


def _order_warnings(
    pipeline: DeployedPipeline, settings: Pipeline, plan: ReplayPlan
) -> Iterator[str]:
    """Whether outcomes are known, and so whether order can be promised."""
    if plan.destination not in (MAIN_QUEUE, DELIVER):
        yield (
            f"Messages that go to {plan.destination} have no outcome: the report can say that "
            "they were delivered, not that they were processed."
        )
    elif not settings.consumer_library and plan.ordered:
        yield (
            "The consumer does not use the library, so no outcome is known: the order within an "
            "ordering key can't be promised."
        )
    elif not settings.consumer_library:
        yield "The consumer does not use the library: no outcome is known, only the sending."
    if plan.destination == DELIVER and not pipeline.consumer_function:
        yield "Direct delivery needs a consumer that is a Lambda function of this deployment."


def _ledger_says(counted: Census, settings: Pipeline) -> str:
    known, there = len(counted.taken) + counted.others, counted.in_queue or 0
    text = (
        f"Counted from the records: {count(known, 'message')} failed, and did not recover or get "
        f"parked since; nothing was received. SQS estimates {there:,} in the queue."
    )
    if there > known:
        how = "died without one (a crash or a timeout)"
        if not settings.consumer_library:
            how = "have none: the consumer does not use the library, which records failures"
        return (
            f"{text} {count(there - known, 'message')} {how}, and stay out; --all takes them too."
        )
    return f"{text} Some can be on their way, or parked: only those in the queue are taken."


@dataclass(frozen=True, slots=True)
class RunsStarted(Answer):
    """What `dlq discard` and `dlq restore` answer."""

    pipeline: Annotated[str, "name of the pipeline"]
    messages: Annotated[int, "messages counted"]
    runs: Annotated[Sequence[ReplayRow], "the runs, one for each place, as they were seen last"]
    left_out: Annotated[Mapping[str, int], "messages that no run takes, by reason"]
    not_found: Annotated[Sequence[str], "the ids that were given and that no message has"]
    reason: Annotated[str, "the reason given"]


def start(
    session: Session,
    plan: ReplayPlan,
    origins: Sequence[str] | None,
    *,
    command: str,
    target: str = "",
) -> ReplayRow:
    """Stores a plan with its counted letters and its run, and starts the run's execution.

    Starting one plan twice finds the first run: nothing is replayed twice. `command` is what was
    typed; `target` is what it is about, if that is more than the run.
    """
    from deadletter.aws.replay_runs import StepFunctionsReplays

    app = session.app()
    pipeline = app.pipeline(plan.pipeline)
    now = session.now.timestamp()
    if plan.expires <= now:
        raise Problem("This plan has expired: type the command again.", Cause.INPUT)
    run = ReplayRun(
        id=plan.run_id,
        pipeline=pipeline.name,
        burst=plan.burst,
        counted=plan.counted,
        created=now,
        started=now,
        changed=now,
        expires=plan.expires,
        by=person(session),
    )
    here = Here(session, app, pipeline)
    change = IntendedChange(
        command, pipeline.name, target or f"run {run.id}", plan.why, after=_facts(plan)
    )
    with recorded(session, app, change), aws_errors():
        # The run's item comes last: whoever finds it finds its plan.
        here.plans.store(plan, origins)
        stored = here.runs().create(run)
        if stored.state is RunState.PLANNED:
            machine = pipeline.replay_machine
            StepFunctionsReplays(lambda: session.aws.stepfunctions, machine).start(stored)
    return row(stored, plan=plan)


def _facts(plan: ReplayPlan) -> Mapping[str, str | int]:
    """A plan as the audit table keeps it: which letters it chooses stands in the run's plan."""
    letters = {} if plan.counted is None else {"messages": plan.counted}
    return {
        "source": plan.source,
        "destination": plan.destination,
        **letters,
        **({} if plan.restores else {"rate": f"{plan.rate:g} messages/s"}),
    }
