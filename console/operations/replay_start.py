"""A plan that a person has seen becomes a replay run: its rows are stored, its execution starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunState

from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .problem import Cause, Problem
from .replay_census import Census, CountedLetter, Progress, census
from .replay_draft_file import FiledPlan
from .replay_plan import circuits, consumer_now
from .replay_runs import ReplayRow, person, row, runs_of, starts_of
from .replay_source import source as source_named
from .session import Session
from .words import clock, count


@dataclass(frozen=True, slots=True)
class ReplayStarted(Answer):
    """What `dlq replay start` answers."""

    at: Annotated[datetime, "when it was started"]
    run: Annotated[ReplayRow, "the run"]
    again: Annotated[bool, "whether this plan had been started before: there is still one run"]


@dataclass(frozen=True, slots=True)
class RunsStarted(Answer):
    """What `dlq retry`, `dlq discard` and `dlq restore` answer."""

    at: Annotated[datetime, "when it was started"]
    pipeline: Annotated[str, "name of the pipeline"]
    messages: Annotated[int, "messages counted"]
    runs: Annotated[Sequence[ReplayRow], "the runs, one for each place, as they were seen last"]
    reason: Annotated[str, "the reason given"]


def started(
    session: Session,
    pipeline: DeployedPipeline,
    runs: Sequence[ReplayStarted],
    letters: Sequence[CountedLetter],
    reason: str,
) -> RunsStarted:
    """What was started: the runs that take these letters."""
    return RunsStarted(
        **session.place,
        at=session.now,
        pipeline=pipeline.name,
        messages=len(letters),
        runs=tuple(each.run for each in runs),
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class Drift:
    """What has changed since a plan was counted.

    `new` and `gone` are numbers of letters (on a FIFO queue: of groups), `there` those that were
    counted and are still in the source. `others` are sentences about anything else.
    """

    new: int
    gone: int
    there: int
    others: Sequence[str] = ()
    noun: str = "letter"

    @property
    def sentences(self) -> Sequence[str]:
        """What has changed, in words."""
        changed = (
            ("New, and not counted", self.new),
            ("Counted, and no longer there", self.gone),
        )
        letters = (f"{says}: {count(number, self.noun)}." for says, number in changed if number)
        return (*letters, *self.others)


def started_before(session: Session, filed: FiledPlan) -> bool:
    """Whether the plan has its run already: what that has moved is no drift."""
    app = session.app()
    pipeline = app.pipeline(filed.plan.pipeline)
    with aws_errors():
        return runs_of(session, app, pipeline).read(filed.plan.run_id) is not None


def drift(session: Session, filed: FiledPlan, progress: Progress = lambda _: None) -> Drift:
    """What has changed since the plan: its letters are counted again as they were then."""
    app = session.app()
    if filed.app != app.name:
        raise Problem(
            f"This plan is of app {filed.app}, and --app says {app.name}: nothing was started.",
            Cause.INPUT,
        )
    plan = filed.plan
    pipeline = app.pipeline(plan.pipeline)
    source = source_named(pipeline, plan.source)
    now = census(
        session,
        app,
        pipeline,
        source,
        replace(plan.selection, groups=None),
        look=filed.look,
        progress=progress,
    )
    before, after, noun = _compared(filed, now)
    return Drift(
        len(after - before),
        len(before - after),
        len(before & after),
        tuple(_others(session, app, pipeline, filed)),
        noun,
    )


def _compared(filed: FiledPlan, now: Census) -> tuple[frozenset[str], frozenset[str], str]:
    """What was counted, what is counted now, and the noun for one of it."""
    if filed.origins is None:
        groups = frozenset(filed.plan.selection.groups or ())
        return groups, frozenset(now.groups or ()), "FIFO group"
    after = frozenset(letter.origin for letter in now.taken)
    return frozenset(filed.origins), after, "letter"


def _others(
    session: Session, app: App, pipeline: DeployedPipeline, filed: FiledPlan
) -> Sequence[str]:
    changed = consumer_now(session, pipeline).changed
    circuit, _ = circuits(session, app, pipeline)
    sentences = []
    if changed is not None and changed.isoformat() != filed.consumer_changed:
        sentences.append(f"The consumer was changed at {clock(changed, session.now)}.")
    if circuit != filed.circuit:
        sentences.append(f"The circuit was {filed.circuit} and is {circuit}.")
    return sentences


def start(
    session: Session,
    plan: ReplayPlan,
    origins: Sequence[str] | None,
    *,
    command: str = "replay start",
    why: str = "",
    target: str = "",
) -> ReplayStarted:
    """Stores a plan with its counted letters and its run, and starts the run's execution.

    Starting one plan twice finds the first run: nothing is replayed twice. `command` is what was
    typed, and `why` it is started, if that is not why it was planned; `target` is what it is about,
    if that is more than the run.
    """
    from deadletter.aws.replay_starts import start_execution

    app = session.app()
    pipeline = app.pipeline(plan.pipeline)
    now = session.now.timestamp()
    if plan.expires <= now:
        raise Problem("This plan has expired: make one anew with dlq replay plan.", Cause.INPUT)
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
    runs = runs_of(session, app, pipeline)
    change = IntendedChange(
        command, pipeline.name, target or f"run {run.id}", why or plan.why, after=_facts(plan)
    )
    with recorded(session, app, change), aws_errors():
        # The run's item comes last: whoever finds it finds its plan.
        starts_of(session, app, pipeline).store(plan, origins)
        again = runs.read(run.id) is not None
        stored = runs.create(run)
        if stored.state is RunState.PLANNED:
            start_execution(session.aws.stepfunctions, pipeline.replay_machine, stored)
    return ReplayStarted(**session.place, at=session.now, run=row(stored), again=again)


def _facts(plan: ReplayPlan) -> Mapping[str, str | int]:
    """A plan as the audit table keeps it: which letters it chooses stands in the run's plan."""
    letters = {} if plan.counted is None else {"letters": plan.counted}
    return {
        "source": plan.source,
        "destination": plan.destination,
        **letters,
        **({} if plan.restores else {"rate": f"{plan.rate:g} letters/s"}),
        "planned by": plan.who,
        "planned because": plan.why,
    }
