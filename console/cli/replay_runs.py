"""`dlq replay list`, and the switches of a run: hold, resume, abort, approve, refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from deadletter.replay.run import RunState

from ..operations.problem import Cause, Problem
from ..operations.replay_runs import (
    IN_TROUBLE,
    LEAVE_TO,
    ReplayChange,
    ReplayList,
    ReplayRow,
    RunSwitch,
    ended,
    list_runs,
    missed,
)
from ..operations.session import Session
from ..operations.words import clock, count
from . import asking, completion, runs
from .asking import Yes
from .command import OnePipeline, PipelineArguments, SomePipelines, some_pipelines
from .exit import Exit
from .output import Block, Reply, Styled, TextTable, line
from .replay_options import Why

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The run's id, or the first four characters or more.",
        autocompletion=completion.runs,
    ),
]
LeaveTo = Annotated[
    str,
    typer.Option(
        "--to", metavar="PLACE", help="Where its letters go: parked, or schedule (fresh backoff)."
    ),
]


def list_(
    session: Session, pipelines: PipelineArguments = None, pipeline: SomePipelines = None
) -> Reply[ReplayList]:
    """List the replay runs, those that are live first.

    The exit status is 1 if a run waits for a person (HELD, BROKEN or WAITING_APPROVAL), or
    has lost its execution.
    """
    answer = list_runs(session, some_pipelines(pipelines, pipeline))
    waiting = any(run.state in IN_TROUBLE or run.lost for run in answer.runs)
    return Reply(answer, _show_list, Exit.ATTENTION if waiting else Exit.DONE)


def hold(
    session: Session, run: Run, pipeline: OnePipeline = None, why: Why = None
) -> Reply[ReplayChange]:
    """Stop a run: nothing is sent from two seconds after this on. It asks nothing.

    What is under way is awaited and recorded. dlq replay resume goes on with it, dlq replay
    abort ends it.
    """
    switch = RunSwitch(session, pipeline, run)
    return Reply(switch.hold(why or ""), _show_change)


def resume(
    session: Session,
    run: Run,
    pipeline: OnePipeline = None,
    why: Why = None,
    yes: Yes = False,
) -> Reply[ReplayChange]:
    """Go on with a run that was held, by a person or by itself; its step begins anew."""
    switch = RunSwitch(session, pipeline, run)
    switch.must_be_resumable()
    if not yes:
        asking.confirm(session, *_about(switch, "Go on with"))
    return Reply(switch.resume(why or ""), _show_change)


def abort(
    session: Session,
    run: Run,
    pipeline: OnePipeline = None,
    to: LeaveTo = LEAVE_TO[0],
    why: Why = None,
    yes: Yes = False,
) -> Reply[ReplayChange]:
    """End a run for good. It sends nothing any more.

    Its remaining letters are parked as REPLAY_ABORTED, or keep the reason for which they
    were parked before; with --to schedule they go back to the scheduled re-drives with a
    fresh backoff. To stop at once without a question, use dlq replay hold.
    """
    if to not in LEAVE_TO:
        raise Problem(f"--to is {' or '.join(LEAVE_TO)}, not {to!r}.", Cause.INPUT)
    switch = RunSwitch(session, pipeline, run)
    switch.must_be_abortable()
    because = asking.reason(why, "An abort", option="--why")
    if not yes:
        place = "to the parking lot" if to == LEAVE_TO[0] else "back to the schedule"
        run_now = switch.before
        left = (run_now.letters or 0) - ended(run_now)
        letters = f" (about {count(left, 'letter')})" if run_now.letters is not None else ""
        asking.confirm(
            session,
            *_about(switch, "Abort"),
            f"What is left of its letters{letters} goes {place}. It sends nothing any more.",
        )
    return Reply(switch.abort(because, to), _show_change)


def approve(
    session: Session,
    run: Run,
    pipeline: OnePipeline = None,
    why: Why = None,
    yes: Yes = False,
) -> Reply[ReplayChange]:
    """Approve the snapshot of a run that waits for it: its canaries begin."""
    return _decide(session, run, pipeline, why, yes, "Approve", RunSwitch.approve)


def refuse(
    session: Session,
    run: Run,
    pipeline: OnePipeline = None,
    why: Why = None,
    yes: Yes = False,
) -> Reply[ReplayChange]:
    """Refuse a run that waits for approval: it has sent nothing, and its letters are parked."""
    return _decide(session, run, pipeline, why, yes, "Refuse", RunSwitch.refuse)


def _decide(
    session: Session,
    run: str,
    pipeline: str | None,
    why: str | None,
    yes: bool,
    verb: str,
    act: Callable[[RunSwitch, str], ReplayChange],
) -> Reply[ReplayChange]:
    switch = RunSwitch(session, pipeline, run)
    switch.must_wait()
    because = asking.reason(
        why, "An approval" if verb == "Approve" else "A refusal", option="--why"
    )
    if not yes:
        plan = switch.plan
        asking.confirm(
            session,
            *_about(switch, verb),
            f"From {plan.source} to {plan.destination}, up to {plan.rate:g} letters/s.",
            f"Planned by {plan.who}: {plan.why or 'no reason'}",
        )
    return Reply(act(switch, because), _show_change)


def _about(switch: RunSwitch, verb: str) -> Iterator[str]:
    run = switch.before
    letters = "no snapshot yet" if run.letters is None else count(run.letters, "letter")
    because = f": {run.because}" if run.because else ""
    yield f"{verb} replay run {run.id} of {switch.pipeline.name} ({letters})."
    yield f"It is {run.state} now{because}."


def _show_list(answer: ReplayList) -> Iterator[Block]:
    if not answer.runs:
        yield line("No replay run is remembered. dlq replay plan makes the first.")
        return
    yield TextTable(
        ("RUN", "PIPELINE", "STATE", ">LETTERS", ">ENDED", "STARTED", "BECAUSE"),
        [
            (
                run.run,
                run.pipeline,
                runs.state(run.state),
                "" if run.letters is None else f"{run.letters:,}",
                f"{run.ended:,}",
                clock(run.created, answer.at) if run.created else "",
                _because(run),
            )
            for run in answer.runs
        ],
    )


def _because(run: ReplayRow) -> str:
    """Why a run is as it is, on one line of a list."""
    texts = [run.because]
    if run.lost:
        texts.append(f"its execution has ended: dlq show {run.run}")
    if missed(run):
        texts.append(
            f"{run.letters or 0:,} of {run.counted:,} counted letters joined: dlq show {run.run}"
        )
    return "; ".join(text for text in texts if text)


_NEXT = {
    RunState.HELD: "Nothing is sent any more, at the latest two seconds from now. What is under "
    "way is awaited.",
    RunState.ABORTED: "It sends nothing any more. Its letters leave its custody within minutes.",
}


def _show_change(change: ReplayChange) -> Iterator[Block]:
    run = change.after
    yield line(
        Styled(f"Replay run {run.run} of {run.pipeline}", "strong"),
        f" in account {change.account}, {change.region}: {change.before.state} → ",
        runs.state(run.state),
    )
    if (says := _NEXT.get(RunState(run.state))) is not None:
        yield line(says)
    if run.state == RunState.HELD:
        yield line(f"Go on:  dlq replay resume {run.run}")
        yield line(f"End it: dlq replay abort {run.run}")
    else:
        yield line(f"See:    dlq show {run.run} --watch")
