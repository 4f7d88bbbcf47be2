"""`dlq replay list`, `show`, and the switches of a run: hold, resume, abort, approve, refuse."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated

import typer

from deadletter.replay.run import RunState

from ..operations.problem import Cause, Problem
from ..operations.replay_runs import (
    LEAVE_TO,
    ReplayChange,
    ReplayDetails,
    ReplayList,
    ReplayRow,
    RunSwitch,
    details,
    ended,
    list_runs,
    missed,
)
from ..operations.session import Session
from ..operations.words import clock, count, duration
from . import asking, completion, output
from .asking import Yes
from .command import OnePipeline, PipelineArguments, SomePipelines, some_pipelines
from .exit import Exit
from .output import Block, Line, Reply, Styled, TextTable, line
from .progress import pause
from .replay_options import Why

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The run's id, or the first four characters or more.",
        autocompletion=completion.runs,
    ),
]
Watch = Annotated[bool, typer.Option("--watch", help="Go on showing it until it has ended.")]
LeaveTo = Annotated[
    str,
    typer.Option(
        "--to", metavar="PLACE", help="Where its letters go: parked, or schedule (fresh backoff)."
    ),
]

# Seconds between two looks at a run that is watched.
WATCH_SECONDS = 2.0

_BAR = 24

_TROUBLE = {RunState.HELD, RunState.BROKEN, RunState.WAITING_APPROVAL}


def list_(
    session: Session, pipelines: PipelineArguments = None, pipeline: SomePipelines = None
) -> Reply[ReplayList]:
    """List the replay runs, those that are live first.

    The exit status is 1 if a run waits for a person (HELD, BROKEN or WAITING_APPROVAL), or
    has lost its execution.
    """
    answer = list_runs(session, some_pipelines(pipelines, pipeline))
    waiting = any(run.state in _TROUBLE or run.lost for run in answer.runs)
    return Reply(answer, _show_list, Exit.ATTENTION if waiting else Exit.DONE)


def show(
    session: Session, run: Run, pipeline: OnePipeline = None, watch: Watch = False
) -> Reply[ReplayDetails]:
    """Show a replay run: how far it is, what it waits for, and when it ends.

    With --watch a line is printed whenever something changes, until the run has ended or
    waits for a person. Ctrl-C stops the watching, not the run. The exit status is 1 if the
    run waits for a person, has lost its execution, or did not take all letters that its plan
    has counted.
    """
    switch = RunSwitch(session, pipeline, run)
    answer = details(switch)
    if watch:
        answer = _watched(switch, answer)
    attention = answer.run.state in _TROUBLE or answer.run.lost or answer.missed
    return Reply(answer, _show_details, Exit.ATTENTION if attention else Exit.DONE)


def _watched(switch: RunSwitch, answer: ReplayDetails) -> ReplayDetails:
    """Shows each change until the run has ended, or needs a person; returns the last."""
    shown = ""
    while True:
        text = progress_line(answer)
        if text != shown:
            output.show([line(f"{answer.at:%H:%M:%S}  {text}")], sys.stderr)
            shown = text
        if answer.run.state in _TROUBLE or answer.run.empty or _is_over(answer.run):
            return answer
        pause(WATCH_SECONDS)
        answer = details(switch)


def _is_over(run: ReplayRow) -> bool:
    return run.state == RunState.DONE


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
                _state(run.state),
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
        texts.append(f"its execution has ended: dlq replay show {run.run}")
    if missed(run):
        texts.append(
            f"{run.letters or 0:,} of {run.counted:,} counted letters joined: "
            f"dlq replay show {run.run}"
        )
    return "; ".join(text for text in texts if text)


def _state(state: str) -> Styled:
    if state in _TROUBLE:
        return Styled(state, "alarm")
    return Styled(state, "good" if state == RunState.DONE else "strong")


def progress_line(answer: ReplayDetails) -> str:
    """A run on one line: its state, a bar, its outcomes, its pace, and when it ends."""
    run = answer.run
    parts = [run.state]
    if run.letters:
        share = min(1.0, run.ended / run.letters)
        full = int(share * _BAR)
        parts.append(f"[{'#' * full}{'.' * (_BAR - full)}]")
        parts.append(f"{run.ended:,} of {run.letters:,} ({share:.0%})")
    if counts := _counts(run):
        parts.append(counts)
    if run.state == RunState.CANARY:
        parts.append(f"canary {run.step + 1} of {len(answer.canary)}")
    if run.lost:
        parts.append("its execution has ended; the watch starts the next one")
    elif answer.ends_at is not None:
        parts.append(f"{run.rate:g}/s, ends about {clock(answer.ends_at, answer.at)}")
    return "  ".join(parts)


def _counts(run: ReplayRow) -> str:
    shown = {name: number for name, number in run.counts.items() if number and name != "OPEN"}
    return ", ".join(f"{number:,} {name.lower()}" for name, number in shown.items())


def _show_details(answer: ReplayDetails) -> Iterator[Block]:
    run, now = answer.run, answer.at
    yield line(
        Styled(f"Replay run {run.run} of {run.pipeline}", "strong"),
        f" in account {answer.account}, {answer.region}: ",
        _state(run.state),
    )
    yield line(progress_line(answer), indent=2)
    yield line(f"Waits for: {answer.waits_for}", indent=2)
    if answer.missed:
        yield line(Styled("! ", "alarm"), answer.missed, indent=2)
    yield Line()
    pace = f"{run.rate:g} of {answer.full_rate:g} letters/s"
    facts = {
        "from, to": f"{answer.source} to {answer.destination}",
        "planned by": f"{answer.who}: {answer.why}",
        "approved by": run.approved_by,
        "step": f"{run.step + 1} of {answer.steps}, at {pace}",
        "pace so far": f"{answer.letters_per_second:g} letters/s",
        "changed": _changed(run, now),
        "executions": f"{run.restarts + 1}, one after the other" if run.restarts else "",
        "expires": clock(run.expires, now) if run.expires else "",
    }
    yield TextTable((), [(f"  {name}", fact) for name, fact in facts.items() if fact])


def _changed(run: ReplayRow, now: datetime) -> str:
    if run.changed is None:
        return ""
    because = f": {run.because}" if run.because else ""
    ago = duration((now - run.changed).total_seconds())
    return f"{ago} ago by {run.by or 'its execution'}{because}"


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
        _state(run.state),
    )
    if (says := _NEXT.get(RunState(run.state))) is not None:
        yield line(says)
    if run.state == RunState.HELD:
        yield line(f"Go on:  dlq replay resume {run.run}")
        yield line(f"End it: dlq replay abort {run.run}")
    else:
        yield line(f"See:    dlq replay show {run.run} --watch")
