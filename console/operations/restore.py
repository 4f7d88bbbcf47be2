"""Discarded messages brought back among the parked, as long as their copies are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deadletter.contract import REPORT_DAYS
from deadletter.replay.plan import DISCARDED_LETTERS, LONGEST_RUN, RESTORE, ReplayPlan
from deadletter.routing.selection import Selection

from .app import App, DeployedPipeline
from .discard import told
from .errors import Cause, Problem, aws_errors
from .letter_walk import FoundLetter, as_parked, discarded
from .life_record import record_of
from .replay_census import Census, CountedLetter, ReplaySource, StaysOut, census_of
from .replay_plan import RunsStarted, start
from .selection import Choice, Ids, Pipeline, compiled
from .session import Here, Session
from .sources import business_ids
from .verbs import Verb
from .words import count, moment

if TYPE_CHECKING:
    from deadletter.replay.objects import DiscardedLetter
    from deadletter.replay.run import ReplayRun

# Characters of a run's id, at least four and all of them at most.
_RUN = re.compile(r"[0-9a-f]{4,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Bring discarded messages back: those of a run, or single ones.

    Each comes back with its body, its attributes, its group and its history, and is parked: once,
    also if another person restores it too, with a current ID of its own. Its copy is deleted then.
    Nothing is sent. Copies are kept for 90 days, and none of what dlq discard --no-copy has thrown
    away.
    """

    ids: Ids
    pipeline: Pipeline = None


@dataclass(slots=True)
class _Copies:
    """What the copies say that were read so far; bodies are not kept."""

    discards: dict[str, tuple[str, DiscardedLetter]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Discarded messages that would come back: counted, and nothing changed.

    `source` is what the run takes: the copies of one run, or of all. `discards` are the runs that
    have thrown them away, each with how many of them, and the first.
    """

    pipeline: DeployedPipeline
    source: str
    selection: Selection
    letters: Sequence[CountedLetter]
    out: StaysOut
    discards: Sequence[tuple[str, int, DiscardedLetter]]
    damaged: Sequence[str]


def prepare(session: Session, request: RestoreRequest) -> RestorePlan:
    """The discarded messages with these ids, or of this run; Problem if no copy is kept."""
    app = session.app()
    pipelines = app.select([] if request.pipeline is None else [request.pipeline])
    folders = {each.name: _folders(session, app, each) for each in pipelines}
    run = _run(request.ids, folders)
    if run is not None:
        pipeline, folder = run
        here = Here(session, app, app.pipeline(pipeline))
        source, chosen, looked = f"{DISCARDED_LETTERS}:{folder}", Selection(), [folder]
    else:
        kept = [each for each in pipelines if folders[each.name]]
        noted = _noted(session, app, request)
        names = {noted.pipeline} if noted else {each.name for each in kept}
        name = names.pop() if len(names) == 1 else request.pipeline
        here = Here(session, app, app.pipeline(name))
        source = DISCARDED_LETTERS if noted is None else f"{DISCARDED_LETTERS}:{noted.id}"
        chosen = Selection(ids=request.ids)
        looked = list(folders[here.pipeline.name]) if noted is None else [noted.id]
    counted, copies = _counted(here, source, chosen, looked)
    business = None if counted.taken or run else business_ids(here.pipeline, request.ids)
    if business is not None:
        chosen, _ = compiled(Choice(terms=(business,)), session.now)
        counted, copies = _counted(here, source, chosen, looked)
    named = {} if run else {id_: {id_} for id_ in request.ids}
    letters, out = counted.taken, StaysOut.of(here.pipeline.name, [counted], named)
    if not letters:
        says = " ".join([_nothing(here.pipeline.name, copies.damaged), *out.says()])
        raise Problem(says, Cause.ABSENT)
    discards = _discards(letters, copies.discards)
    return RestorePlan(here.pipeline, source, chosen, letters, out, discards, copies.damaged)


def _noted(session: Session, app: App, request: RestoreRequest) -> ReplayRun | None:
    """The run that has thrown the one message away, as its record says: one folder is looked at."""
    if len(request.ids) != 1:
        return None
    try:
        record = record_of(session, app, request.ids[0], request.pipeline)
    except Problem as problem:
        if problem.cause is not Cause.ABSENT:
            raise
        return None
    return record.tickets[-1].run if record.discard and record.discard.copy else None


def _counted(
    here: Here, source: str, selection: Selection, folders: Sequence[str]
) -> tuple[Census, _Copies]:
    copies = _Copies()
    counted = census_of(here, ReplaySource(source), selection, _read(here, folders, copies))
    # What keeps a message out of a retry does not keep it from being parked.
    return counted.without_reasons, copies


def _nothing(pipeline: str, damaged: Sequence[str]) -> str:
    if damaged:
        return f"No copy can be read: nothing was done. Damaged: {', '.join(damaged)}."
    return (
        f"No discarded message of {pipeline} matches whose copy is kept: nothing was done. "
        f"Copies are kept for {REPORT_DAYS} days, and none with --no-copy."
    )


def _run(ids: Sequence[str], folders: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """The pipeline and the run that the one id names; None if it is a message's."""
    if len(ids) != 1 or not _RUN.fullmatch(ids[0]):
        return None
    known = [
        (pipeline, run) for pipeline in folders for run in folders[pipeline]
        if run.startswith(ids[0])
    ]  # fmt: skip
    if len(known) > 1:
        runs = ", ".join(run for _, run in known)
        raise Problem(f"Several runs begin with {ids[0]}: {runs}.", Cause.INPUT)
    return known[0] if known else None


def question(plan: RestorePlan) -> Iterator[str]:
    """What would come back, and who threw it away."""
    number = count(len(plan.letters), "discarded message")
    yield f"Restore {number} of {plan.pipeline.name}, as they were: they are parked then."
    yield from told(plan.letters)
    yield from plan.out.says()
    for run, messages, first in plan.discards:
        at = moment(first.at)
        when = f" at {at:%Y-%m-%d %H:%M} UTC" if at else ""
        yield f"Run {run} discarded {messages:,} of them{when}, for {first.by}: {first.because}"
    if plan.damaged:
        yield f"Note: these copies can't be read, and stay: {', '.join(plan.damaged)}"


def commit(session: Session, plan: RestorePlan, reason: str) -> RunsStarted:
    """Starts the run that restores them."""
    now = session.now.timestamp()
    origins = sorted({letter.origin for letter in plan.letters})
    made = ReplayPlan(
        pipeline=plan.pipeline.name,
        source=plan.source,
        selection=plan.selection,
        destination=RESTORE,
        counted=len(origins),
        canary=(),
        ramp=(1.0,),
        created=round(now, 3),
        expires=round(now + LONGEST_RUN, 3),
        who=session.aws.caller,
        why=reason,
    )
    run = start(session, made, origins, command="restore")
    facts = {**session.place, **plan.out.facts, "messages": len(plan.letters)}
    return RunsStarted(**facts, pipeline=plan.pipeline.name, runs=(run,), reason=reason)


VERB = Verb(
    name="restore",
    request=RestoreRequest,
    examples=(
        'dlq restore 4f0c1b --reason "the wrong filter"',
        'dlq restore A-4711 --reason "it was right"',
    ),
    change="A restore",
    prepare=prepare,
    question=question,
    commit=commit,
)


def _folders(session: Session, app: App, pipeline: DeployedPipeline) -> Sequence[str]:
    """The runs that may keep copies."""
    from deadletter.aws.objects import runs_with_objects

    with aws_errors():
        return list(runs_with_objects(session.aws.s3, app.messages_bucket, pipeline.name))


def _read(here: Here, folders: Sequence[str], copies: _Copies) -> Iterator[FoundLetter]:
    """Each discarded letter, as it was parked; notes in `copies` who discarded it."""
    for run in folders:
        for copy in discarded(here, run, copies.damaged):
            without_body = replace(copy, letter=replace(copy.letter, body=""))
            copies.discards[copy.letter.message_id] = (run, without_body)
            yield as_parked(copy)


def _discards(
    letters: Sequence[CountedLetter], known: Mapping[str, tuple[str, DiscardedLetter]]
) -> Sequence[tuple[str, int, DiscardedLetter]]:
    """The runs that threw these letters away, how many, and the first; the latest run first."""
    by_run: dict[str, list[DiscardedLetter]] = {}
    for letter in letters:
        run, discarded = known[letter.copy]
        by_run.setdefault(run, []).append(discarded)
    found = [(run, len(some), min(some, key=lambda each: each.at)) for run, some in by_run.items()]
    return sorted(found, key=lambda row: -row[2].at)
