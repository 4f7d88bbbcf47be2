"""The circuits of an app, and the manual override of a circuit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from functools import cached_property
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

from deadletter.circuit.state import NO_END, Circuit, Override, State
from deadletter.circuit.transitions import Event, OverrideBegun, OverrideEnded
from deadletter.contract import is_reserved_key
from deadletter.pace.kinds import field_of

from . import deployed
from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .aws import explain
from .problem import Cause, Problem
from .session import Session
from .words import count, moment

if TYPE_CHECKING:
    from deadletter.aws.breaker import DynamoDBBreaker

# More names do not fit on a screen.
_MAX_NAMED = 20

LONGEST_HOLD = timedelta(days=30)
"""The latest end of an override. A later one is as good as none, and no alarm would know."""


@dataclass(frozen=True, slots=True)
class Paced:
    """How fast calls may go to a dependency that is neither well nor dead."""

    limit: Annotated[float, "calls a second"]
    waiting: Annotated[int, "about how many messages were hidden and have a place behind others"]
    since: Annotated[datetime | None, "when it began; null if the record does not say"]
    because: Annotated[str, "why"]


@dataclass(frozen=True, slots=True)
class CircuitTotals:
    """What a circuit has counted since its row began."""

    since: Annotated[datetime | None, "since when; null if nothing was counted"]
    calls: Annotated[int, "calls that spoke for or against the dependency"]
    failed: Annotated[int, "those that failed, or were answered that there are too many"]
    refused: Annotated[
        int,
        "messages given back while it was not closed, at least: they are told with the next call; "
        "the metric RefusedWhileOpen has all",
    ]
    openings: Annotated[int, "how often it opened, by itself or by a person"]


@dataclass(frozen=True, slots=True)
class CircuitRow:
    """A circuit as it is in the table."""

    pipeline: Annotated[str, "name of the pipeline"]
    key: Annotated[str, "the dependency; the pipeline's own circuit has the pipeline's name"]
    state: Annotated[str, "CLOSED, OPEN, HALF_OPEN, or UNREADABLE (lets nothing through)"]
    since: Annotated[datetime | None, "when it opened or closed; null if it never did"]
    open_until: Annotated[
        datetime | None, "when the next canary is due, while it is OPEN; null if a person says when"
    ]
    cooldown: Annotated[float, "seconds that the last wait was drawn from"]
    trips: Annotated[int, "how often it has opened without having settled in between"]
    generation: Annotated[int, "grows with each change of state"]
    forced: Annotated[str | None, "the state of its manual override; null without an override"]
    forced_by: Annotated[str | None, "who"]
    forced_reason: Annotated[str | None, "why"]
    forced_since: Annotated[datetime | None, "since when; null if the record does not say"]
    forced_until: Annotated[datetime | None, "until when; null if a person has to end it"]
    consumer_paused: Annotated[bool, "whether the consumer's event source mapping is disabled"]
    because: Annotated[str, "why it last opened; empty if that is not on record"] = ""
    paced: Annotated[Paced | None, "how fast calls may go; null if nothing limits them"] = None
    slowed: Annotated[
        Mapping[str, int],
        "how many kinds of messages are slowed, by field: they fail while others succeed",
    ] = field(default_factory=dict)
    totals: Annotated[
        CircuitTotals | None, "what it has counted; null if its record cannot be read"
    ] = None


NOT_ON_RECORD = "why it opened is not on record"


@dataclass(frozen=True, slots=True)
class CircuitList(Answer):
    """What `dlq circuit list` answers."""

    at: Annotated[datetime, "when it was read"]
    circuits: Annotated[
        Sequence[CircuitRow], "each pipeline's own, and those not closed or overridden"
    ]


@dataclass(frozen=True, slots=True)
class CircuitChange(Answer):
    """What `dlq circuit open`, `close` and `auto` answer."""

    at: Annotated[datetime, "when it was changed"]
    before: Annotated[CircuitRow, "the circuit as it was"]
    after: Annotated[CircuitRow, "the circuit as it is now"]


def list_circuits(session: Session, pipelines: Sequence[str]) -> CircuitList:
    """The own circuit of each pipeline, and all others that are not closed or overridden."""
    app = session.app()
    rows = [
        circuit_row(pipeline.name, circuit, session.now)
        for pipeline in app.select(pipelines)
        for circuit in own_and_troubled(session, app, pipeline)
    ]
    return CircuitList(**session.place, at=session.now, circuits=rows)


def show_circuit(session: Session, pipeline: str | None, key: str) -> CircuitRow:
    """A single circuit of a pipeline. Problem if the key is unknown."""
    app = session.app()
    owner = app.pipeline(pipeline)
    circuit = _known(_breaker(session, app, owner), owner.name, key)
    return circuit_row(owner.name, circuit, session.now)


class CircuitSwitch:
    """A circuit that a person is about to change, in the state that was read.

    It is read when it is first needed: after the person has typed why and until when. A key
    without a record is refused with the known ones, unless it is `new`; the pipeline's own
    circuit needs no record.
    """

    def __init__(
        self, session: Session, pipeline: str | None, key: str | None, *, new: bool = False
    ) -> None:
        self._session = session
        self._app = session.app()
        self._pipeline = self._app.pipeline(pipeline)
        self._new = new
        self.key = _key(self._pipeline, key)
        if new and self.key != self.pipeline:
            self._must_have_keys()

    @cached_property
    def _breaker(self) -> DynamoDBBreaker:
        return _breaker(self._session, self._app, self._pipeline)

    @cached_property
    def _circuit(self) -> Circuit:
        return _known(self._breaker, self.pipeline, self.key, new=self._new)

    def _must_have_keys(self) -> None:
        """Refuses a key in a pipeline whose letters have none: its circuit would stop nothing."""
        if is_reserved_key(self.key):
            # A handler may name dependencies in any pipeline.
            return
        if deployed.settings(self._pipeline).circuit_key is None:
            raise Problem(
                f"Pipeline {self.pipeline} has no circuit_key in its settings, so no letter "
                f"belongs to a circuit {self.key!r}: leave KEY out for the pipeline's own.",
                Cause.INPUT,
            )

    @property
    def pipeline(self) -> str:
        return self._pipeline.name

    @property
    def caller(self) -> str:
        """The ARN of the identity that an override names."""
        return self._session.aws.caller

    @property
    def pauses_consumer(self) -> bool:
        """Whether the consumer's mapping is paused as well while the circuit is open."""
        return (
            self.key == self.pipeline and deployed.settings(self._pipeline).circuit.pause_consumer
        )

    @property
    def before(self) -> CircuitRow:
        return circuit_row(self.pipeline, self._circuit, self._session.now)

    def override(self, state: State, by: str, reason: str, until: datetime | None) -> CircuitChange:
        """Keep the circuit open or closed until a time, or until a person ends it (None).

        `by` is the caller that the override names.
        """
        if state is State.OPEN and self.key != self.pipeline:
            self._must_have_keys()
        if until is not None and until - self._session.now > LONGEST_HOLD:
            raise Problem(
                f"An override ends within {LONGEST_HOLD.days} days. To hold a circuit open without "
                "an end, use dlq circuit open --until-closed: an alarm reminds you of it.",
                Cause.INPUT,
            )
        end = NO_END if until is None else until.timestamp()
        command = "circuit open" if state is State.OPEN else "circuit close"
        intended = {"forced": str(state), "until": _end(until)}
        event = OverrideBegun(Override(state, by, reason, end))
        return self._change(command, event, reason, intended)

    def end_override(self, why: str = "") -> CircuitChange:
        """Ends the manual override; a malformed record is replaced."""
        return self._change("circuit auto", OverrideEnded(), why, {"forced": "none"})

    def _change(
        self, command: str, event: Event, why: str, intended: Mapping[str, str]
    ) -> CircuitChange:
        now, before = self._session.now, self.before
        change = IntendedChange(
            command, self.pipeline, f"circuit {self.key}", why, _facts(before), intended
        )
        with recorded(self._session, self._app, change) as record:
            with aws_errors():
                result = self._breaker.apply_to(self._circuit, event)
            if result.refused is not None:
                raise Problem(f"Nothing was done: {result.refused}.", Cause.FAILED)
            after = circuit_row(self.pipeline, result.circuit, now)
            record.done(_facts(after))
        return CircuitChange(**self._session.place, at=now, before=before, after=after)


def _breaker(session: Session, app: App, pipeline: DeployedPipeline) -> DynamoDBBreaker:
    from deadletter.aws.breaker import DynamoDBBreaker

    return DynamoDBBreaker(
        client=session.aws.dynamodb,
        table=app.circuits_table,
        pipeline=pipeline.name,
        policy=deployed.settings(pipeline).circuit,
        clock=session.clock,
        random=SystemRandom(),
        new_id=lambda: uuid4().hex,
    )


def _key(pipeline: DeployedPipeline, key: str | None) -> str:
    """The key that was typed; without one, the pipeline's own."""
    if key is None:
        return pipeline.name
    if not key.strip():
        raise Problem("KEY is empty: leave it out for the pipeline's own circuit.", Cause.INPUT)
    return key


def _known(breaker: DynamoDBBreaker, pipeline: str, key: str, *, new: bool = False) -> Circuit:
    """The circuit of this key; Problem with the known keys if it has no record and is not new."""
    with aws_errors():
        circuit = breaker.recorded([key]).get(key)
    if circuit is not None:
        return circuit
    if new or key == pipeline:
        return Circuit(key)
    raise Problem(
        f"Pipeline {pipeline} has no circuit {key!r}: {_known_keys(breaker, pipeline, key)} "
        "To hold a key before its first report, add --new to dlq circuit open or close.",
        Cause.ABSENT,
    )


def _known_keys(breaker: DynamoDBBreaker, pipeline: str, key: str) -> str:
    """The known keys in a sentence, those that are spelled most like `key` first."""
    try:
        with aws_errors():
            known = {pipeline, *breaker.keys()}
    except Exception as error:
        problem = explain(error)
        if problem is None:
            raise
        return f"the known ones could not be read ({problem.says.rstrip('.')})."

    # It remembers what it knows of the second text only.
    matcher = SequenceMatcher(None, b=key.lower(), autojunk=False)

    def likeness(other: str) -> float:
        matcher.set_seq1(other.lower())
        return matcher.ratio()

    nearest = sorted(known, key=lambda other: (-likeness(other), other))
    more = len(nearest) - _MAX_NAMED
    names = ", ".join(nearest[:_MAX_NAMED])
    others = f" and {count(more, 'other')}" if more > 0 else ""
    return f"it has {names}{others}."


def own_and_troubled(session: Session, app: App, pipeline: DeployedPipeline) -> list[Circuit]:
    """The own circuit of a pipeline, then those that are not closed or overridden."""
    breaker, own = _breaker(session, app, pipeline), pipeline.name
    with aws_errors():
        others = [circuit for circuit in breaker.troubled() if circuit.key != own]
        return [breaker.read([own])[own], *sorted(others, key=lambda circuit: circuit.key)]


def circuit_row(pipeline: str, circuit: Circuit, now: datetime) -> CircuitRow:
    """The circuit as answers show it."""
    at = now.timestamp()
    force = circuit.forced if circuit.is_forced(at) else None
    pace, sick = circuit.paced(at), circuit.sick if circuit.is_closed else None
    since = circuit.closed_at if circuit.is_closed else circuit.opened_at
    return CircuitRow(
        pipeline,
        circuit.key,
        "UNREADABLE" if circuit.unreadable else str(circuit.state),
        moment(since) if since else None,
        opens_at(circuit) if circuit.state is State.OPEN else None,
        circuit.cooldown,
        circuit.trips,
        circuit.generation,
        str(force.state) if force else None,
        force.by if force else None,
        force.reason if force else None,
        moment(force.begun) if force else None,
        moment(force.until) if force and force.has_end else None,
        circuit.paused is not None,
        circuit.because,
        Paced(pace.limit, pace.waiting(at), moment(pace.since), pace.because) if pace else None,
        Counter(_field_in_words(each.kind) for each in sick.kinds) if sick else {},
        None if circuit.unreadable else _totals(circuit),
    )


def _totals(circuit: Circuit) -> CircuitTotals:
    return CircuitTotals(
        moment(circuit.counted_since) if circuit.counted_since else None,
        circuit.total_calls,
        circuit.total_failed,
        circuit.total_refused,
        circuit.openings,
    )


def _field_in_words(kind: str) -> str:
    field = field_of(kind)
    where = {"c_": "context.", "b_": "body."}.get(field[:2])
    return "the body's length" if where is None else where + field[2:]


def _facts(row: CircuitRow) -> dict[str, str]:
    """A circuit as the audit table keeps it."""
    return {
        "state": row.state,
        "forced": row.forced or "none",
        **({"until": _end(row.forced_until)} if row.forced else {}),
    }


def _end(until: datetime | None) -> str:
    return until.isoformat(timespec="seconds") if until else "no end"


def opens_at(circuit: Circuit) -> datetime | None:
    """When a circuit that is not closed is tried next; None if unknown, or if a person says so."""
    return moment(circuit.open_until) if 0 < circuit.open_until < NO_END else None
