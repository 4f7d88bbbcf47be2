"""A replay run as a person sees it before it starts: counted, explained, and nothing moved."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.circuit.state import State
from deadletter.contract import Mode, Reason
from deadletter.failure.consumer_version import version_in
from deadletter.replay.plan import (
    DELIVER,
    DISCARD,
    LONGEST_RUN,
    MAIN_QUEUE,
    KeyPolicy,
    ReplayPlan,
)
from deadletter.routing.selection import Selection

from . import deployed
from .answer import Answer
from .app import App, DeployedPipeline
from .aws import explain
from .circuits import own_and_troubled
from .problem import Cause, Problem
from .replay_census import Census, CountedLetter, Progress, by, census, must_look
from .replay_pace import Pace, duration, pace
from .replay_source import ReplaySource
from .replay_source import source as source_named
from .session import Session
from .watched import read_memories, watched
from .words import clock, count, moment
from .words import duration as in_words

if TYPE_CHECKING:
    from deadletter.settings.pipeline import Pipeline

    from .sources import Chosen

# The steps of a plan that says nothing else.
_USUAL = ReplayPlan(pipeline="")

# Causes, tenants and keys that fit on a screen.
MOST_ROWS = 20


@dataclass(frozen=True, slots=True)
class CauseCount:
    """Letters that last failed alike."""

    cause: Annotated[str, "fingerprint of the failure; empty if none is on record"]
    category: Annotated[str, "what kind of failure"]
    error_type: Annotated[str, "the error; empty if it is not on record"]
    letters: Annotated[int, "letters of this cause"]
    last_failed: Annotated[datetime | None, "when the last of them failed"]


@dataclass(frozen=True, slots=True)
class NameCount:
    """Letters that have something in common."""

    name: Annotated[str, "the tenant or the ordering key; empty for letters without one"]
    letters: Annotated[int, "how many letters"]


@dataclass(frozen=True, slots=True)
class ReplayForecast(Answer):
    """What `dlq replay plan` answers."""

    at: Annotated[datetime, "when it was counted"]
    pipeline: Annotated[str, "name of the pipeline"]
    run: Annotated[str, "id that the run would have"]
    source: Annotated[str, "where the letters come from"]
    destination: Annotated[str, "where they go: `main`, `deliver`, `discard`, or a dedicated DLQ"]
    letters: Annotated[int, "letters that the run would take"]
    left_out: Annotated[Mapping[str, int], "letters that match and stay out, by reason"]
    others: Annotated[int, "letters of the source that do not match"]
    widened: Annotated[int, "letters that do not match and join because their FIFO group does"]
    groups: Annotated[int | None, "FIFO groups that the run takes wholly; null if not FIFO"]
    causes: Annotated[Sequence[CauseCount], f"the {MOST_ROWS} commonest causes"]
    tenants: Annotated[Sequence[NameCount], f"the {MOST_ROWS} commonest tenants"]
    keys: Annotated[Sequence[NameCount], f"the {MOST_ROWS} longest ordering keys"]
    ordering_keys: Annotated[int, "number of ordering keys; 0 if they are unknown"]
    reasons: Annotated[Mapping[str, int], "why parked letters are parked, with their number"]
    attempts: Annotated[Mapping[str, int], "letters by re-drives so far"]
    processed_before: Annotated[int, "letters that the ledger says were processed before"]
    by_ledger: Annotated[bool, "whether they were counted from the ledger, without a look"]
    in_queue: Annotated[int | None, "letters in the queue, as SQS estimates; null for a lane"]
    looked_at: Annotated[int, "letters received to answer this"]
    not_given_back: Annotated[int, "of them still hidden, for 11 minutes at most"]
    complete: Annotated[bool, "whether the source was read to its end"]
    rate: Annotated[float, "letters per second at full pace"]
    rate_because: Annotated[str, "where the rate comes from"]
    workers: Annotated[int, "workers that share the letters"]
    canary: Annotated[Sequence[int], "letters of each step before the ramp"]
    seconds: Annotated[float, "about how long the run takes"]
    first_expiry: Annotated[
        datetime | None, "when SQS deletes the first letter; null if unknown, or in a lane"
    ]
    oldest: Annotated[str, "origin id of the letter that was first sent; empty without letters"]
    consumer_changed: Annotated[
        datetime | None, "when the consumer's function was last changed; null if unknown"
    ]
    consumer_version: Annotated[
        str, "version, alias and CodeSha256 of the consumer's function now; empty if unknown"
    ]
    failed_in: Annotated[
        Mapping[str, int], "letters by the consumer's version in which they last failed, if known"
    ]
    failed_since: Annotated[int, "letters whose last failure is later than that change"]
    approval: Annotated[bool, "whether a person has to approve the snapshot"]
    warnings: Annotated[Sequence[str], "what to think about before it starts"]
    file: Annotated[str | None, "the file that --out wrote"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a person asks for; None leaves it to the settings."""

    pipeline: str | None = None
    source: str = "dlq"
    selection: Selection = field(default_factory=Selection)
    destination: str = MAIN_QUEUE
    look: bool = False
    rate: float | None = None
    canary: tuple[int, ...] | None = None
    ramp: tuple[float, ...] | None = None
    stop_on_failure: bool = False
    approve: bool = False
    accept_collision: bool = False
    keep_export: bool = True
    expires: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """A plan, the letters that were counted for it, and what people are told about it.

    `origins` is None where the letters cannot be counted one by one: the head of a FIFO queue.
    `circuit` is the state of the pipeline's own circuit.
    """

    app: App
    pipeline: DeployedPipeline
    source: ReplaySource
    plan: ReplayPlan
    origins: tuple[str, ...] | None
    forecast: ReplayForecast
    circuit: str
    census: Census

    def because(self, reason: str) -> ReplayPlan:
        """The plan with a person's reason."""
        return replace(self.plan, why=reason)


def draft(session: Session, request: PlanRequest, progress: Progress = lambda _: None) -> DraftPlan:
    """The plan that a person asks for, with its letters counted. Nothing is moved."""
    app = session.app()
    pipeline = app.pipeline(request.pipeline)
    source = source_named(pipeline, request.source)
    return _draft(session, app, pipeline, source, request, progress)


def draft_of(
    session: Session, found: Chosen, source: ReplaySource, request: PlanRequest
) -> DraftPlan:
    """The plan for one of the sources of chosen messages, which are counted. Nothing is moved.

    The messages of a DLQ are received, once, if the ledger can't tell which are meant.
    """
    look = must_look(session, found.app, found.pipeline, source, found.selection)
    request = replace(request, selection=found.selection, look=look)
    return _draft(session, found.app, found.pipeline, source, request, session.say)


def _draft(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    source: ReplaySource,
    request: PlanRequest,
    progress: Progress,
) -> DraftPlan:
    _check_destination(pipeline, request.destination)
    settings = deployed.settings(pipeline)
    if request.destination == DISCARD:
        # What is thrown away may look as it will.
        selection = replace(request.selection, include=tuple(Reason))
        request = replace(request, selection=selection)
    elif Reason.EXPIRED in request.selection.include:
        raise Problem(
            "An expired letter is never sent, so --include takes no EXPIRED. One that is only "
            "older than message_ttl can be sent once that setting is longer.",
            Cause.INPUT,
        )
    counted = census(
        session, app, pipeline, source, request.selection, look=request.look, progress=progress
    )
    _check_collisions(request, counted)
    speed = pace(session, pipeline, request.rate)
    plan = _plan(session, pipeline, source, settings, request, counted, speed)
    heads_alone = pipeline.fifo and source.url is not None and not counted.saw_each
    origins = None if heads_alone else tuple(sorted({letter.origin for letter in counted.taken}))
    plan = replace(plan, counted=None if origins is None else len(origins))
    circuit, troubles = circuits(session, app, pipeline)
    forecast = _forecast(session, app, pipeline, source, settings, plan, counted, speed, troubles)
    return DraftPlan(app, pipeline, source, plan, origins, forecast, circuit, counted)


def _plan(
    session: Session,
    pipeline: DeployedPipeline,
    source: ReplaySource,
    settings: Pipeline,
    request: PlanRequest,
    counted: Census,
    speed: Pace,
) -> ReplayPlan:
    terms, now = settings.replay, session.now.timestamp()
    longest = LONGEST_RUN if request.expires is None else min(request.expires, LONGEST_RUN)
    letters = len(counted.taken)
    above = terms.approve_above is not None and letters > terms.approve_above
    behind_failure = KeyPolicy.STOP if request.stop_on_failure else KeyPolicy.GO
    return ReplayPlan(
        pipeline=pipeline.name,
        source=source.id,
        selection=replace(request.selection, groups=counted.groups),
        destination=request.destination,
        rate=speed.rate,
        burst=max(1, min(10, int(speed.rate * 2))),
        canary=_USUAL.canary if request.canary is None else request.canary,
        ramp=_USUAL.ramp if request.ramp is None else request.ramp,
        on_failure=behind_failure,
        on_unknown=behind_failure,
        ordered=pipeline.fifo or settings.ordering_key is not None,
        outcome_timeout=float(terms.outcome_timeout),
        workers=speed.workers,
        approve=request.approve or above,
        keep_export=request.keep_export,
        accept="collision" if request.accept_collision else None,
        created=round(now, 3),
        expires=round(now + longest, 3),
        who=session.aws.caller,
        why=request.why,
    )


def _check_destination(pipeline: DeployedPipeline, destination: str) -> None:
    allowed = (MAIN_QUEUE, DELIVER, DISCARD, *pipeline.dedicated)
    if destination not in allowed:
        raise Problem(
            f"Pipeline {pipeline.name} has no destination {destination!r}: "
            f"it has {', '.join(name for name in allowed if name != DISCARD)}.",
            Cause.ABSENT,
        )


def _check_collisions(request: PlanRequest, counted: Census) -> None:
    """A letter that was parked for a collision would be parked for it again."""
    collided = by(counted.taken, "reason")[Reason.COLLISION]
    if collided and request.destination != DISCARD and not request.accept_collision:
        raise Problem(
            f"Parked for COLLISION: {count(collided, 'letter')}. Another message with the same "
            "idempotency key was processed, and differs; a letter that is released is parked "
            "again for it. If both messages are right, add --accept-collision; else leave it "
            "out, or discard it.",
            Cause.INPUT,
        )


def circuits(session: Session, app: App, pipeline: DeployedPipeline) -> tuple[str, Sequence[str]]:
    """The state of the pipeline's own circuit, and a sentence for each that is not closed."""
    own, *others = own_and_troubled(session, app, pipeline)
    troubled = [circuit for circuit in (own, *others) if circuit.state is not State.CLOSED]
    return str(own.state), tuple(
        f"Circuit {circuit.key} is {circuit.state}: letters that need it leave the run for its "
        "lane, and the run holds itself while the pipeline's own circuit is not closed."
        for circuit in troubled
    )


def _forecast(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    source: ReplaySource,
    settings: Pipeline,
    plan: ReplayPlan,
    counted: Census,
    speed: Pace,
    troubles: Sequence[str],
) -> ReplayForecast:
    letters = counted.taken
    consumer = consumer_now(session, pipeline)
    changed = consumer.changed
    expiry = _first_expiry(session, app, pipeline, source)
    keys = by((letter for letter in letters if letter.key), "key")
    seconds = duration(plan, len(letters))
    return ReplayForecast(
        **session.place,
        at=session.now,
        pipeline=pipeline.name,
        run=plan.run_id,
        source=source.id,
        destination=plan.destination,
        letters=len(letters),
        left_out=dict(by(counted.left_out, "left_out").most_common()),
        others=counted.others,
        widened=counted.widened,
        groups=None if counted.groups is None else len(counted.groups),
        causes=tuple(_causes(letters)),
        tenants=_names(by(letters, "tenant")),
        keys=_names(keys),
        ordering_keys=len(keys),
        reasons=dict(by((letter for letter in letters if letter.reason), "reason")),
        attempts=dict(sorted(by(letters, "attempts").items())),
        processed_before=sum(letter.applied for letter in letters),
        by_ledger=counted.by_ledger,
        in_queue=counted.in_queue,
        looked_at=counted.looked_at,
        not_given_back=counted.not_given_back,
        complete=counted.is_whole,
        rate=plan.rate,
        rate_because=speed.because,
        workers=plan.workers,
        canary=plan.canary,
        seconds=round(seconds, 1),
        first_expiry=expiry,
        oldest=min(letters, key=_first_seen, default=CountedLetter("")).origin,
        consumer_changed=changed,
        consumer_version=consumer.version,
        failed_in=dict(by((letter for letter in letters if letter.version), "version")),
        failed_since=_failed_since(letters, changed),
        approval=plan.approve,
        warnings=(
            # A letter that goes elsewhere needs no circuit.
            *(troubles if plan.destination in (MAIN_QUEUE, DELIVER) else ()),
            *_warnings(
                session, pipeline, source, settings, plan, counted, consumer, expiry, seconds
            ),
        ),
    )


def _first_seen(letter: CountedLetter) -> float:
    """When a letter was sent, or failed first for all that is known; epoch seconds."""
    if letter.first_sent:
        return letter.first_sent / 1000
    return math.inf if letter.failed_at is None else letter.failed_at


def _causes(letters: Sequence[CountedLetter]) -> Iterator[CauseCount]:
    examples = {letter.cause: letter for letter in letters}
    for cause, number in by(letters, "cause").most_common(MOST_ROWS):
        times = [
            letter.failed_at
            for letter in letters
            if letter.cause == cause and letter.failed_at is not None
        ]
        example = examples[cause]
        last = moment(max(times)) if times else None
        yield CauseCount(cause, example.category, example.error_type, number, last)


def _names(letters: Counter[str]) -> Sequence[NameCount]:
    return tuple(NameCount(name, number) for name, number in letters.most_common(MOST_ROWS))


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


def consumer_now(session: Session, pipeline: DeployedPipeline) -> ConsumerNow:
    """The consumer's function now; nothing is known where it cannot be read."""
    if not pipeline.consumer_function:
        return ConsumerNow()
    try:
        answer = session.aws.lambda_.get_function_configuration(
            FunctionName=pipeline.consumer_function
        )
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


def _first_expiry(
    session: Session, app: App, pipeline: DeployedPipeline, source: ReplaySource
) -> datetime | None:
    """When SQS deletes the oldest letter of the source, as the watch knows it."""
    if source.url is None:
        return None
    memories = read_memories(session.aws.dynamodb, app.letters_table, pipeline.name)
    known = watched(memories, app.name, pipeline, lambda _: 0, session.now)
    for status in known.sources:
        if status.source == source.id and status.seconds_to_expiry is not None:
            return moment(session.now.timestamp() + status.seconds_to_expiry)
    return None


def _warnings(
    session: Session,
    pipeline: DeployedPipeline,
    source: ReplaySource,
    settings: Pipeline,
    plan: ReplayPlan,
    counted: Census,
    consumer: ConsumerNow,
    expiry: datetime | None,
    seconds: float,
) -> Iterator[str]:
    """What a person should know before the run starts, the most dangerous first."""
    letters, now = counted.taken, session.now
    if plan.destination == DISCARD:
        if not plan.keep_export:
            yield "No export is kept: the discarded letters can't be brought back."
        return
    if pipeline.mode == Mode.OBSERVE:
        yield (
            "The pipeline observes, so this run would be aborted before it takes a letter: set "
            "mode enforce, deploy, and plan again."
        )
    yield from _duplicate_warnings(session, settings, letters)
    yield from _order_warnings(pipeline, settings, plan)
    failed_in = by((letter for letter in letters if letter.version), "version")
    if consumer.name and (same_version := failed_in[consumer.name]):
        yield (
            f"{count(same_version, 'letter')} failed in version {consumer.name} of the consumer, "
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
            f"{count(since, 'letter')} failed after the consumer's last change "
            f"({clock(changed, now)}), {same} that runs now: the fix may not be in it."
        )
    if expiry is not None and expiry.timestamp() < now.timestamp() + seconds:
        yield (
            f"SQS deletes the oldest letter at {clock(expiry, now)}, before the run would end; "
            "the snapshot takes the letters into custody at its start, so start soon."
        )
    if counted.widened:
        yield (
            f"Joining although they do not match: {count(counted.widened, 'letter')}; "
            "a FIFO group is taken wholly, or its order is lost."
        )
    if counted.by_ledger:
        yield _ledger_says(counted, settings)
        if settings.expires:
            yield (
                "The ledger has no bodies, so it does not know which letters are past their own "
                "expiry: they are parked as EXPIRED, and --look counts them."
            )
    elif pipeline.fifo and source.url is not None and not counted.saw_each:
        yield (
            "SQS shows at most ten letters of a FIFO group: the groups are counted, and the run "
            "takes all letters of each of them."
        )
    if counted.not_given_back:
        hidden = count(counted.not_given_back, "letter")
        yield f"{hidden} could not be given back at once: hidden for 11 minutes at most."
    if not counted.is_whole:
        yield "The count ended before the source did: letters that it has not seen stay out."


def _duplicate_warnings(
    session: Session, settings: Pipeline, letters: Sequence[CountedLetter]
) -> Iterator[str]:
    """Who keeps a letter from being processed twice."""
    if applied := sum(letter.applied for letter in letters):
        yield (
            f"{count(applied, 'letter')} were processed before, as the ledger says: "
            "the consumer skips them, if its idempotency still knows them."
        )
    if not settings.consumer_library:
        yield (
            "The consumer does not use the library: nothing keeps a letter from being processed "
            "twice, unless the consumer does it by itself."
        )
        return
    age = session.now.timestamp() - min(map(_first_seen, letters), default=math.inf)
    if age > settings.idempotency_keep:
        yield (
            f"The oldest letter is at least {in_words(age)} old, and idempotency remembers "
            f"{in_words(settings.idempotency_keep)}: an older letter that was processed is "
            "processed again."
        )


def _order_warnings(
    pipeline: DeployedPipeline, settings: Pipeline, plan: ReplayPlan
) -> Iterator[str]:
    """Whether outcomes are known, and so whether order can be promised."""
    if plan.destination not in (MAIN_QUEUE, DELIVER):
        yield (
            f"Letters that go to {plan.destination} have no outcome: the report can say that "
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
        f"Counted from the ledger: it knows {count(known, 'letter')} that failed, and did not "
        f"recover or get parked since. SQS estimates {there:,} in the queue."
    )
    if there > known and not settings.consumer_library:
        return (
            f"{text} The consumer does not use the library, which records failures: "
            f"{count(there - known, 'letter')} without a record stay out; --look counts them too."
        )
    if there > known:
        return (
            f"{text} {count(there - known, 'letter')} died without a record (a crash or a "
            "timeout) and stay out; --look counts them too."
        )
    return (
        f"{text} Some may be on their way, or parked: only those in the queue are taken, and the "
        "snapshot leaves out what automation would park."
    )
