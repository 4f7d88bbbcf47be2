"""A plan that a person has seen becomes a replay run: its rows are stored, its execution starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunState

from .adapter_errors import aws_errors
from .answer import Answer
from .app import DeployedPipeline
from .audit import IntendedChange, recorded
from .problem import Cause, Problem
from .replay_census import CountedLetter
from .replay_runs import ReplayRow, person, row, runs_of, starts_of
from .session import Session


@dataclass(frozen=True, slots=True)
class RunsStarted(Answer):
    """What `dlq discard` and `dlq restore` answer."""

    at: Annotated[datetime, "when it was started"]
    pipeline: Annotated[str, "name of the pipeline"]
    messages: Annotated[int, "messages counted"]
    runs: Annotated[Sequence[ReplayRow], "the runs, one for each place, as they were seen last"]
    reason: Annotated[str, "the reason given"]


def started(
    session: Session,
    pipeline: DeployedPipeline,
    runs: Sequence[ReplayRow],
    letters: Sequence[CountedLetter],
    reason: str,
) -> RunsStarted:
    """What was started: the runs that take these letters."""
    return RunsStarted(
        **session.place,
        at=session.now,
        pipeline=pipeline.name,
        messages=len(letters),
        runs=tuple(runs),
        reason=reason,
    )


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
    from deadletter.aws.executions import start_replay

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
    runs = runs_of(session, app, pipeline)
    change = IntendedChange(
        command, pipeline.name, target or f"run {run.id}", plan.why, after=_facts(plan)
    )
    with recorded(session, app, change), aws_errors():
        # The run's item comes last: whoever finds it finds its plan.
        starts_of(session, app, pipeline).store(plan, origins)
        stored = runs.create(run)
        if stored.state is RunState.PLANNED:
            machine = pipeline.replay_machine
            start_replay(session.aws.stepfunctions, machine, stored)
    return row(stored)


def _facts(plan: ReplayPlan) -> Mapping[str, str | int]:
    """A plan as the audit table keeps it: which letters it chooses stands in the run's plan."""
    letters = {} if plan.counted is None else {"messages": plan.counted}
    return {
        "source": plan.source,
        "destination": plan.destination,
        **letters,
        **({} if plan.restores else {"rate": f"{plan.rate:g} messages/s"}),
    }
