"""`dlq circuit`: which dependencies are considered down, and the manual override."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from deadletter.circuit.state import State

from ..operations.circuits import (
    NOT_ON_RECORD,
    CircuitChange,
    CircuitList,
    CircuitRow,
    CircuitSwitch,
    list_circuits,
)
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.status import CircuitStatus
from ..operations.words import clock, count, duration
from . import asking
from .asking import OptionalWhy, Reason, Yes
from .command import OnePipeline, PipelineArguments, SomePipelines, command, group, some_pipelines
from .exit import Exit
from .output import Block, Part, Reply, Styled, TextTable, line

# Long enough to call for help, and over before it is forgotten: a circuit held open holds
# every letter of its dependency.
SUGGESTED = "2h"

typer_app = group("Circuit breakers: which dependencies are down, and the manual override.")

Check = Annotated[bool, typer.Option("--check", help="Exit with 1 if a circuit is not CLOSED.")]
Key = Annotated[
    str | None,
    typer.Argument(
        metavar="KEY", help="The dependency, as `circuit list` names it; else the pipeline's own."
    ),
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="WHEN", help="After 30m, 2h …, or at an ISO 8601 time."),
]
ExpiresOrNever = Annotated[
    str | None,
    typer.Option(
        "--expires", metavar="WHEN", help="After 30m, 2h …, at an ISO 8601 time, or never."
    ),
]
UntilClosed = Annotated[
    bool,
    typer.Option("--until-closed", help="No end: you end it with close or auto. --expires never."),
]
New = Annotated[
    bool,
    typer.Option("--new", help="The key is right although no consumer has reported it yet."),
]


@command(typer_app, "list", example=["dlq circuit list", "dlq circuit list orders"])
def list_(
    session: Session,
    pipelines: PipelineArguments = None,
    pipeline: SomePipelines = None,
    check: Check = False,
) -> Reply[CircuitList]:
    """List each pipeline's own circuit, and all others that are not closed or overridden.

    With --check the exit status is 1 if a listed circuit is not CLOSED.
    """
    names = some_pipelines(pipelines, pipeline)
    answer = list_circuits(session, names)
    not_closed = any(circuit.state != State.CLOSED for circuit in answer.circuits)
    return Reply(answer, _show_list, Exit.ATTENTION if check and not_closed else Exit.DONE)


@command(
    typer_app,
    "open",
    example=[
        'dlq circuit open --reason "the bank is down till 6" --expires 3h',
        'dlq circuit open --until-closed --reason "nothing goes back until I say so"',
        "dlq circuit open",
    ],
)
def open_(
    session: Session,
    key: Key = None,
    pipeline: OnePipeline = None,
    new: New = False,
    reason: Reason = None,
    expires: ExpiresOrNever = None,
    until_closed: UntilClosed = False,
    yes: Yes = False,
) -> Reply[CircuitChange]:
    """Open a circuit by hand: nothing is re-driven to its dependency.

    This is the kill switch. Running runs notice it at their next chunk of letters. When
    the override expires, a canary finds out whether the dependency works.

    The pipeline's own circuit (without KEY) stops live traffic too. Where the mapping is ours,
    as that of the webhook dispatcher, it is paused: messages wait in the main queue. A
    consumer with the library gives back what it has in hand. A circuit with a KEY, such as an
    endpoint's, pauses no mapping.

    With --until-closed it lasts until dlq circuit close or dlq circuit auto; the alarm
    CircuitTrouble reminds you of it.
    """
    if until_closed and expires is not None:
        raise Problem("--until-closed and --expires exclude each other: give one.", Cause.INPUT)
    switch = CircuitSwitch(session, pipeline, key, new=new)
    why = asking.reason(reason, "A manual override")
    given = asking.NEVER if until_closed else expires
    until = asking.end_or_never(given, session.now, "the override", suggested=SUGGESTED)
    return _override(session, switch, State.OPEN, why, until, yes)


@command(
    typer_app,
    "close",
    example=['dlq circuit close --reason "false alarm" --expires 30m --yes'],
)
def close(
    session: Session,
    key: Key = None,
    pipeline: OnePipeline = None,
    new: New = False,
    reason: Reason = None,
    expires: Expires = None,
    yes: Yes = False,
) -> Reply[CircuitChange]:
    """Close a circuit by hand: letters are re-driven again.

    Until the override expires, no failure opens the circuit.
    """
    switch = CircuitSwitch(session, pipeline, key, new=new)
    why = asking.reason(reason, "A manual override")
    until = asking.end(expires, session.now, "the override", suggested=SUGGESTED)
    return _override(session, switch, State.CLOSED, why, until, yes)


@command(typer_app, "auto", example=["dlq circuit auto", "dlq circuit auto hooks.acme.example -y"])
def auto(
    session: Session,
    key: Key = None,
    pipeline: OnePipeline = None,
    why: OptionalWhy = None,
    yes: Yes = False,
) -> Reply[CircuitChange]:
    """End the manual override of a circuit. An open circuit is tried with a canary at once.

    What a person opened is CLOSED within two minutes, whatever single endpoints answer: their
    own circuits hold their messages. It stays open if a canary shows that the dependency is
    down. It also replaces a circuit record that is malformed.
    """
    because = asking.why(why)
    switch = CircuitSwitch(session, pipeline, key)
    if not yes:
        _confirm(
            session,
            switch,
            f"End the manual override of circuit {switch.key} of {switch.pipeline}.",
        )
    return Reply(switch.end_override(because), _show_changed)


def _override(
    session: Session,
    switch: CircuitSwitch,
    state: State,
    why: str,
    until: datetime | None,
    yes: bool,
) -> Reply[CircuitChange]:
    # A person without permission learns it before the question, not after the answer.
    caller = switch.caller
    if not yes:
        end = _end(until, session.now)
        question = f"Keep circuit {switch.key} of {switch.pipeline} {state} {end}."
        if state is State.OPEN and switch.pauses_consumer:
            question += " The consumer is paused too: live messages wait in the main queue."
        _confirm(session, switch, question)
    return Reply(switch.override(state, caller, why, until), _show_changed)


def _end(until: datetime | None, now: datetime) -> str:
    """The end of an override; None means that a person ends it."""
    return "until a person ends it" if until is None else f"until {clock(until, now)}"


def _confirm(session: Session, switch: CircuitSwitch, question: str) -> None:
    before = switch.before
    details = "; ".join(_details(before, session.now))
    now = f"It is {before.state} now{': ' + details if details else ''}."
    asking.confirm(session, question, now)


def _show_list(answer: CircuitList) -> Iterator[Block]:
    headings = ("PIPELINE", "CIRCUIT", "STATE", "SINCE", ">TRIPS", "CONSUMER", "OVERRIDE BY")
    yield TextTable(headings, [_row(circuit, answer.at) for circuit in answer.circuits])


def _row(circuit: CircuitRow, now: datetime) -> Sequence[Part]:
    override = f"{circuit.forced_by}, {_end(circuit.forced_until, now)}" if circuit.forced else ""
    return (
        circuit.pipeline,
        circuit.key,
        _state(circuit),
        duration((now - circuit.since).total_seconds()) if circuit.since else "",
        str(circuit.trips),
        "paused" if circuit.consumer_paused else "",
        override,
    )


def _state(circuit: CircuitRow) -> Styled:
    return Styled(circuit.state, "good" if circuit.state == State.CLOSED else "alarm")


def show_circuit(circuit: CircuitRow, now: datetime) -> Iterator[Block]:
    """All details of a circuit, for a person."""
    name = f"Circuit {circuit.key} of {circuit.pipeline}"
    yield line(Styled(name, "strong"), ": ", _state(circuit))
    for text in _details(circuit, now):
        yield line(text, indent=2)


def _details(circuit: CircuitRow, now: datetime) -> Iterator[str]:
    if circuit.since:
        since = clock(circuit.since, now)
        yield f"since {since}, generation {circuit.generation}, trips {circuit.trips}"
    if circuit.state in (State.OPEN, State.HALF_OPEN):
        yield f"it opened: {circuit.because}" if circuit.because else NOT_ON_RECORD
    if circuit.open_until:
        until = clock(circuit.open_until, now)
        yield f"no canary before {until}, cooldown {duration(circuit.cooldown)}"
    if circuit.forced:
        since = f" since {clock(circuit.forced_since, now)}" if circuit.forced_since else ""
        end = _end(circuit.forced_until, now)
        yield f"held {circuit.forced} by {circuit.forced_by}{since} {end}: {circuit.forced_reason}"
    yield from pace_of(circuit, now)
    if circuit.consumer_paused:
        yield "the consumer is paused; it is resumed when the circuit has closed"
    if circuit.state == "UNREADABLE":
        yield "its record is malformed: dlq circuit auto replaces it"


def pace_of(circuit: CircuitRow | CircuitStatus, now: datetime) -> Iterator[str]:
    """What slows calls while the circuit is closed, in words; nothing if nothing does."""
    if (paced := circuit.paced) is not None:
        since = paced.since and f", since {duration((now - paced.since).total_seconds())}"
        yield (
            f"paced: {paced.limit:.3g} calls a second, about {count(paced.waiting, 'message')} "
            f"wait{since or ''}, because {paced.because}"
        )
    if circuit.slowed:
        kinds = ", ".join(
            f"{count(number, 'value')} of {field}" for field, number in circuit.slowed.items()
        )
        yield f"slowed, since they fail while others succeed: {kinds}"


def _show_changed(change: CircuitChange) -> Iterator[Block]:
    after = change.after
    yield line(
        Styled(f"Circuit {after.key} of {after.pipeline}", "strong"),
        f" in account {change.account}, {change.region}: {change.before.state} → ",
        _state(after),
    )
    for text in _details(after, change.at):
        yield line(text, indent=2)
