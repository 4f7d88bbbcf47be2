"""`dlq run`: what a person may do with a run that retries, discards or restores messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import Annotated

from deadletter.circuit.state import State

from .circuits import in_the_way, own_and_troubled
from .errors import Cause, Problem
from .replay_plan import consumer_now
from .replay_runs import LEAVE_TO, ReplayChange, ReplayList, RunSwitch, ended, list_runs
from .selection import NamedPipelines
from .session import Session
from .verbs import Asked, Verb
from .words import clock, count

RunId = Annotated[str, Asked("The run's ID, or its first four characters or more.", metavar="RUN")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsRequest:
    """Whose runs to list."""

    pipelines: NamedPipelines = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Which run is meant."""

    run: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRequest:
    """Which run to end, and where its messages go."""

    run: RunId
    to: Annotated[
        str,
        Asked("Where its messages go: parked, or schedule (fresh backoff).", ("--to",), "PLACE"),
    ] = LEAVE_TO[0]


@dataclass(frozen=True, slots=True)
class Abort:
    """A run that a person is about to end."""

    switch: RunSwitch
    to: str


def _list(session: Session, request: RunsRequest) -> ReplayList:
    return list_runs(session, request.pipelines)


def _found(session: Session, request: RunRequest) -> RunSwitch:
    return RunSwitch(session, None, request.run)


def _hold(_: Session, switch: RunSwitch, reason: str) -> ReplayChange:
    return switch.hold(reason)


def _resumable(session: Session, request: RunRequest) -> RunSwitch:
    switch = _found(session, request)
    switch.must_be_resumable()
    if not switch.before.resumed_at and switch.plan.hold:
        _must_be_as_planned(switch)
    return switch


def _must_be_as_planned(switch: RunSwitch) -> None:
    """Problem if a run that was planned to wait would meet something else than was planned."""
    session, run = switch.session, switch.before
    changed = consumer_now(switch.here).changed
    if changed is not None and changed.timestamp() > run.created:
        raise Problem(
            f"The consumer was changed at {clock(changed, session.now)}, after run {run.id} was "
            "planned: nothing was sent. Plan it anew, and end this one by\n"
            f"dlq run abort {quote(run.id)}",
            Cause.FAILED,
        )
    own, *_ = own_and_troubled(session, switch.app, switch.pipeline)
    if own.state is not State.CLOSED:
        raise Problem(in_the_way(switch.pipeline, own, "nothing was sent"), Cause.FAILED)


def _resume(_: Session, switch: RunSwitch, reason: str) -> ReplayChange:
    return switch.resume(reason)


def _abortable(session: Session, request: AbortRequest) -> Abort:
    if request.to not in LEAVE_TO:
        raise Problem(f"--to is {' or '.join(LEAVE_TO)}, not {request.to!r}.", Cause.INPUT)
    switch = RunSwitch(session, None, request.run)
    switch.must_be_abortable()
    return Abort(switch, request.to)


def _abort_question(plan: Abort) -> Iterator[str]:
    run = plan.switch.before
    yield from _about(plan.switch, "Abort")
    left = (run.messages or 0) - ended(run)
    messages = f" (about {count(left, 'message')})" if run.messages is not None else ""
    place = "is parked" if plan.to == LEAVE_TO[0] else "goes back to the schedule"
    yield f"What is left of it{messages} {place}. It sends nothing any more."


def _abort(_: Session, plan: Abort, reason: str) -> ReplayChange:
    return plan.switch.abort(reason, plan.to)


def _waiting(session: Session, request: RunRequest) -> RunSwitch:
    switch = _found(session, request)
    switch.must_wait()
    return switch


def _decision(switch: RunSwitch, verb: str) -> Iterator[str]:
    plan = switch.plan
    yield from _about(switch, verb)
    yield f"From {plan.source} to {plan.destination}, up to {plan.rate:g} messages/s."
    yield f"Planned by {plan.who}: {plan.why or 'no reason'}"


def _approve(_: Session, switch: RunSwitch, reason: str) -> ReplayChange:
    return switch.approve(reason)


def _reject(_: Session, switch: RunSwitch, reason: str) -> ReplayChange:
    return switch.reject(reason)


def _about(switch: RunSwitch, verb: str) -> Iterator[str]:
    run = switch.before
    messages = "not yet counted" if run.messages is None else count(run.messages, "message")
    because = f": {run.because}" if run.because else ""
    yield f"{verb} run {run.id} of {switch.pipeline.name} ({messages})."
    yield f"It is {run.state} now{because}."


LIST = Verb(
    name="list",
    says="""List the runs, those that are live first.

    The exit status is 1 if a run waits for a person (HELD, BROKEN or WAITING_APPROVAL), or has lost
    its execution.
    """,
    request=RunsRequest,
    examples=("dlq run list", "dlq run list orders --json"),
    read=_list,
)

CHANGES: Sequence[Verb] = (
    Verb(
        name="hold",
        says="""Stop a run: nothing is sent from two seconds after this on. It asks nothing.

        What is under way is awaited and recorded. dlq run resume goes on, dlq run abort ends it.
        """,
        request=RunRequest,
        examples=("dlq run hold 4f0c1b", 'dlq run hold 4f0c1b --reason "support is asking"'),
        prepare=_found,
        commit=_hold,
    ),
    Verb(
        name="resume",
        says="Go on with a run that was held, by a person or by itself; its step begins anew.",
        request=RunRequest,
        examples=('dlq run resume 4f0c1b --reason "the bank is back"',),
        change="To resume a run",
        prepare=_resumable,
        question=partial(_about, verb="Go on with"),
        commit=_resume,
        plans=False,
    ),
    Verb(
        name="abort",
        says="""End a run for good. It sends nothing any more.

        Its remaining messages are parked as RUN_ABORTED, or keep the reason for which they were
        parked before; with --to schedule they are retried automatically, with a fresh backoff. To
        stop at once without a question, use dlq run hold.
        """,
        request=AbortRequest,
        examples=(
            'dlq run abort 4f0c1b --reason "the fix is wrong"',
            'dlq run abort 4f0c1b --to schedule --reason "they recover by themselves" --yes',
        ),
        change="An abort",
        prepare=_abortable,
        question=_abort_question,
        commit=_abort,
        plans=False,
    ),
    Verb(
        name="approve",
        says="Approve the messages of a run that waits for it: its first ones are sent.",
        request=RunRequest,
        examples=('dlq run approve 4f0c1b --reason "checked with finance"',),
        change="An approval",
        prepare=_waiting,
        question=partial(_decision, verb="Approve"),
        commit=_approve,
        plans=False,
    ),
    Verb(
        name="reject",
        says="Reject a run that waits for approval: nothing was sent, its messages are parked.",
        request=RunRequest,
        examples=('dlq run reject 4f0c1b --reason "not on a Friday"',),
        change="A rejection",
        prepare=_waiting,
        question=partial(_decision, verb="Reject"),
        commit=_reject,
        plans=False,
    ),
)
