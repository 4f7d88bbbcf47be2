"""`dlq circuit`: which dependencies are held for down, and a person's own word on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from deadletter.circuit.state import Circuit, CircuitsUnavailable, Override, State
from deadletter.circuit.transitions import Event, OverrideBegun, OverrideEnded

from ..operations import deployed
from ..operations.app import App, DeployedPipeline
from ..operations.problem import Exit, Problem
from . import asking
from .command import OnePipeline, Session, SomePipelines, command, group
from .output import (
    Block,
    CommandResult,
    Part,
    Reply,
    Styled,
    TextTable,
    clock,
    duration,
    line,
    moment,
)

if TYPE_CHECKING:
    from deadletter.aws.circuits import DynamoDBBreaker

# Long enough to call somebody, and over before it is forgotten: a circuit held open holds
# every letter of its dependency.
SUGGESTED = "2h"

typer_app = group("Circuit breakers: what is held up, and your own word on it.")

Key = Annotated[
    str | None,
    typer.Argument(
        metavar="KEY", help="The dependency, as `circuit list` names it; else the pipeline's own."
    ),
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; asked for if not given.")
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="WHEN", help="After 30m, 2h …, or at an ISO 8601 time."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Don't ask; needed where nobody can be asked.")
]


@dataclass(frozen=True, slots=True)
class Seen:
    """One circuit as it stands in the table."""

    pipeline: Annotated[str, "name of the pipeline"]
    key: Annotated[str, "the dependency; the pipeline's own circuit has the pipeline's name"]
    state: Annotated[str, "CLOSED, OPEN, HALF_OPEN, or UNREADABLE (lets nothing through)"]
    since: Annotated[datetime | None, "when it opened or closed; null if it never did"]
    open_until: Annotated[datetime | None, "when the next canary is due, while it is OPEN"]
    cooldown: Annotated[float, "seconds that the last wait was drawn from"]
    trips: Annotated[int, "how often it has opened without having settled in between"]
    generation: Annotated[int, "grows with each change of state"]
    forced: Annotated[str | None, "the state a person holds it in; null if nobody does"]
    forced_by: Annotated[str | None, "who"]
    forced_reason: Annotated[str | None, "why"]
    forced_until: Annotated[datetime | None, "until when"]
    consumer_paused: Annotated[bool, "whether the consumer's event source mapping is disabled"]


@dataclass(frozen=True, slots=True)
class CircuitList(CommandResult):
    """What `dlq circuit list` and `dlq circuit show` answer."""

    at: Annotated[datetime, "when it was read"]
    circuits: Annotated[Sequence[Seen], "each pipeline's own, and those not closed or held"]


@dataclass(frozen=True, slots=True)
class CircuitChange(CommandResult):
    """What `dlq circuit open`, `close` and `auto` answer."""

    at: Annotated[datetime, "when it was changed"]
    before: Annotated[Seen, "the circuit as it was"]
    after: Annotated[Seen, "the circuit as it is now"]


@command(typer_app, "list", example=["dlq circuit list", "dlq circuit list --pipeline orders"])
def list_(session: Session, pipeline: SomePipelines = None) -> Reply[CircuitList]:
    """List each pipeline's own circuit, and every other that is not closed or is held.

    Exit status 1 if one of them lets nothing through.
    """
    app = session.app()
    found = [
        seen(one.name, circuit, session.now)
        for one in app.some(pipeline or [])
        for circuit in _standing(_breaker(session, app, one), one.name)
    ]
    return _reply(session, app, found, _show_list)


@command(typer_app, "show", example=["dlq circuit show", "dlq circuit show hooks.acme.example"])
def show(session: Session, key: Key = None, pipeline: OnePipeline = None) -> Reply[CircuitList]:
    """Show one circuit with all that is known of it."""
    app = session.app()
    one = app.one(pipeline)
    with _readable():
        circuit = _breaker(session, app, one).read([key or one.name])[key or one.name]
    return _reply(session, app, [seen(one.name, circuit, session.now)], _show_one)


@command(
    typer_app,
    "open",
    example=[
        'dlq circuit open --reason "the bank is down till 6" --expires 3h',
        "dlq circuit open",
    ],
)
def open_(
    session: Session,
    key: Key = None,
    pipeline: OnePipeline = None,
    reason: Reason = None,
    expires: Expires = None,
    yes: Yes = False,
) -> Reply[CircuitChange]:
    """Open a circuit by hand: nothing is re-driven to its dependency until you say so.

    The kill switch. Runs that are under way notice at their next chunk of letters. When
    it expires, a canary finds out whether the dependency works.
    """
    return _hold(session, State.OPEN, key, pipeline, reason, expires, yes)


@command(
    typer_app,
    "close",
    example=['dlq circuit close --reason "false alarm" --expires 30m --yes'],
)
def close(
    session: Session,
    key: Key = None,
    pipeline: OnePipeline = None,
    reason: Reason = None,
    expires: Expires = None,
    yes: Yes = False,
) -> Reply[CircuitChange]:
    """Close a circuit by hand: letters go out again.

    Until it expires, no failure opens it.
    """
    return _hold(session, State.CLOSED, key, pipeline, reason, expires, yes)


@command(typer_app, "auto", example=["dlq circuit auto", "dlq circuit auto hooks.acme.example -y"])
def auto(
    session: Session, key: Key = None, pipeline: OnePipeline = None, yes: Yes = False
) -> Reply[CircuitChange]:
    """Leave a circuit to itself again. One that is open is tried with a canary at once.

    It also begins a circuit anew whose record nobody understands.
    """
    app = session.app()
    one = app.one(pipeline)
    return _change(
        session, app, one, key or one.name, OverrideEnded(), "Leave circuit {} to itself.", yes
    )


def _hold(
    session: Session,
    state: State,
    key: str | None,
    pipeline: str | None,
    reason: str | None,
    expires: str | None,
    yes: bool,
) -> Reply[CircuitChange]:
    app = session.app()
    one = app.one(pipeline)
    why = asking.reason(reason, "A circuit held by hand")
    until = asking.end(expires, session.now, "the hold", suggested=SUGGESTED)
    force = Override(state, session.aws.caller, why, until.timestamp())
    what = f"Hold circuit {{}} {state} until {clock(until, session.now)}."
    return _change(session, app, one, key or one.name, OverrideBegun(force), what, yes)


def _change(
    session: Session, app: App, one: DeployedPipeline, key: str, event: Event, what: str, yes: bool
) -> Reply[CircuitChange]:
    breaker = _breaker(session, app, one)
    with _readable():
        before = breaker.read([key])[key]
    if not yes:
        session.agreed(what.format(f"{key} of {one.name}"), _said(before, session.now))
    with _readable():
        moved = breaker.apply_to(before, event)
    if moved.refused is not None:
        raise Problem(f"Nothing was done: {moved.refused}.", Exit.ATTENTION)
    aws = session.aws
    return Reply(
        CircuitChange(
            aws.account,
            aws.region,
            session.app_name,
            session.now,
            seen(one.name, before, session.now),
            seen(one.name, moved.circuit, session.now),
        ),
        _show_changed,
    )


def _breaker(session: Session, app: App, one: DeployedPipeline) -> DynamoDBBreaker:
    from deadletter.aws.circuits import DynamoDBBreaker

    return DynamoDBBreaker(
        client=session.aws.dynamodb,
        table=app.circuits_table,
        pipeline=one.name,
        policy=deployed.settings(one).circuit,
        clock=session.clock,
        random=SystemRandom(),
        new_id=lambda: uuid4().hex,
    )


def _standing(breaker: DynamoDBBreaker, own: str) -> list[Circuit]:
    """The pipeline's own circuit first, then the others that need looking at."""
    with _readable():
        others = [one for one in breaker.troubled() if one.key != own]
        return [breaker.read([own])[own], *sorted(others, key=lambda one: one.key)]


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except CircuitsUnavailable as error:
        if error.__cause__ is not None:
            raise error.__cause__ from error
        raise Problem(f"Try again: {error}.", Exit.UNREACHABLE) from error


def seen(pipeline: str, circuit: Circuit, now: datetime) -> Seen:
    """The circuit in the words of the answer."""
    force = circuit.forced if circuit.is_forced(now.timestamp()) else None
    since = circuit.closed_at if circuit.is_closed else circuit.opened_at
    return Seen(
        pipeline,
        circuit.key,
        "UNREADABLE" if circuit.unreadable else str(circuit.state),
        moment(since) if since else None,
        moment(circuit.open_until) if circuit.state is State.OPEN and circuit.open_until else None,
        circuit.cooldown,
        circuit.trips,
        circuit.generation,
        str(force.state) if force else None,
        force.by if force else None,
        force.reason if force else None,
        moment(force.until) if force else None,
        circuit.paused is not None,
    )


def _reply(
    session: Session,
    app: App,
    found: Sequence[Seen],
    view: Callable[[CircuitList], Iterator[Block]],
) -> Reply[CircuitList]:
    aws = session.aws
    answer = CircuitList(aws.account, aws.region, app.name, session.now, found)
    held_up = any(one.state != State.CLOSED for one in found)
    return Reply(answer, view, Exit.ATTENTION if held_up else Exit.DONE)


def _show_list(found: CircuitList) -> Iterator[Block]:
    headings = ("PIPELINE", "CIRCUIT", "STATE", "SINCE", ">TRIPS", "CONSUMER", "HELD BY")
    yield TextTable(headings, [_row(one, found.at) for one in found.circuits])


def _row(one: Seen, now: datetime) -> Sequence[Part]:
    held = f"{one.forced_by}, until {clock(one.forced_until, now)}" if one.forced_until else ""
    return (
        one.pipeline,
        one.key,
        _state(one),
        duration((now - one.since).total_seconds()) if one.since else "",
        str(one.trips),
        "paused" if one.consumer_paused else "",
        held,
    )


def _state(one: Seen) -> Styled:
    return Styled(one.state, "good" if one.state == State.CLOSED else "alarm")


def _show_one(found: CircuitList) -> Iterator[Block]:
    (one,) = found.circuits
    yield line(Styled(f"Circuit {one.key} of {one.pipeline}", "strong"), ": ", _state(one))
    for text in _details(one, found.at):
        yield line(text, indent=2)


def _details(one: Seen, now: datetime) -> Iterator[str]:
    if one.since:
        yield f"since {clock(one.since, now)}, generation {one.generation}, trips {one.trips}"
    if one.open_until:
        yield f"no canary before {clock(one.open_until, now)}, cooldown {duration(one.cooldown)}"
    if one.forced_until:
        until = clock(one.forced_until, now)
        yield f"held {one.forced} by {one.forced_by} until {until}: {one.forced_reason}"
    if one.consumer_paused:
        yield "the consumer is paused; it is put back once the circuit has closed"
    if one.state == "UNREADABLE":
        yield "its record is not understood: dlq circuit auto begins it anew"


def _said(circuit: Circuit, now: datetime) -> str:
    told = seen("", circuit, now)
    details = "; ".join(_details(told, now))
    return f"It is {told.state} now{': ' + details if details else ''}."


def _show_changed(found: CircuitChange) -> Iterator[Block]:
    after = found.after
    yield line(
        Styled(f"Circuit {after.key} of {after.pipeline}", "strong"),
        f" in account {found.account}, {found.region}: {found.before.state} → ",
        _state(after),
    )
    for text in _details(after, found.at):
        yield line(text, indent=2)
