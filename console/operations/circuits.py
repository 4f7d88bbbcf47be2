"""`dlq circuit`: the circuits of an app, and what a person says about one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from random import SystemRandom
from shlex import quote
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

from deadletter.circuit.state import NO_END, Circuit, Override, State
from deadletter.circuit.transitions import Event, OverrideBegun, OverrideEnded
from deadletter.contract import is_reserved_key
from deadletter.pace.kinds import field_of

from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .errors import Cause, Problem, aws_errors, explain
from .selection import NamedPipelines, Pipeline
from .session import Answer, Session
from .verbs import Asked, Verb
from .words import clock, count, duration, ending, moment, some

if TYPE_CHECKING:
    from deadletter.aws.breaker import DynamoDBBreaker


UNREADABLE = "UNREADABLE"
"""The state of a circuit whose record is malformed: the router holds its letters."""

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
    times_opened: Annotated[int, "how often it has opened since it was last well"]
    version: Annotated[int, "grows with each change of state"]
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

    circuits: Annotated[
        Sequence[CircuitRow], "each pipeline's own, and those not closed or overridden"
    ]


@dataclass(frozen=True, slots=True)
class CircuitChange(Answer):
    """What `dlq circuit open`, `close` and `release` answer."""

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
    return CircuitList(**session.place, circuits=rows)


def show_circuit(session: Session, pipeline: str | None, key: str) -> CircuitRow:
    """A single circuit of a pipeline. Problem if the key is unknown."""
    app = session.app()
    owner = app.pipeline(pipeline)
    circuit = _known(_breaker(session, app, owner), owner.name, key)
    return circuit_row(owner.name, circuit, session.now)


def _breaker(session: Session, app: App, pipeline: DeployedPipeline) -> DynamoDBBreaker:
    from deadletter.aws.breaker import DynamoDBBreaker

    return DynamoDBBreaker(
        client=session.aws.dynamodb,
        table=app.circuits_table,
        pipeline=pipeline.name,
        policy=pipeline.settings().circuit,
        clock=session.clock,
        random=SystemRandom(),
        new_id=lambda: uuid4().hex,
    )


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
        "To hold a key open before its first report, add --new.",
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

    def likeness(other: str) -> float:
        return SequenceMatcher(None, other.lower(), key.lower(), autojunk=False).ratio()

    nearest = sorted(known, key=lambda other: (-likeness(other), other))
    return f"it has {some(nearest, _MAX_NAMED)}."


def own_and_troubled(session: Session, app: App, pipeline: DeployedPipeline) -> list[Circuit]:
    """The own circuit of a pipeline, then those that are not closed or overridden."""
    breaker, own = _breaker(session, app, pipeline), pipeline.name
    with aws_errors():
        others = [circuit for circuit in breaker.troubled() if circuit.key != own]
        return [breaker.read([own])[own], *sorted(others, key=lambda circuit: circuit.key)]


def state_of(circuit: Circuit) -> str:
    """The circuit's state as answers show it."""
    return UNREADABLE if circuit.unreadable else str(circuit.state)


def in_the_way(pipeline: DeployedPipeline, circuit: Circuit, comes: str) -> str:
    """What comes of a circuit that is not closed, and how that is lifted."""
    return (
        f"Circuit {circuit.key} is {state_of(circuit)}: {comes}. It is lifted by\n"
        f"dlq circuit close {quote(circuit.key)} -p {quote(pipeline.name)} --expires 10m"
    )


def circuit_row(pipeline: str, circuit: Circuit, now: datetime) -> CircuitRow:
    """The circuit as answers show it."""
    at = now.timestamp()
    force = circuit.forced if circuit.is_forced(at) else None
    pace, sick = circuit.paced(at), circuit.sick if circuit.is_closed else None
    since = circuit.closed_at if circuit.is_closed else circuit.opened_at
    is_dated = circuit.state is State.OPEN and 0 < circuit.open_until < NO_END
    return CircuitRow(
        pipeline,
        circuit.key,
        state_of(circuit),
        moment(since) if since else None,
        moment(circuit.open_until) if is_dated else None,
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


def details(circuit: CircuitRow, now: datetime) -> Iterator[str]:
    """All that is known of a circuit, in sentences."""
    if circuit.since:
        often = (
            f", opened {circuit.times_opened:,} times in a row" if circuit.times_opened > 1 else ""
        )
        yield f"since {clock(circuit.since, now)}{often}"
    if circuit.state in (State.OPEN, State.HALF_OPEN):
        yield f"it opened: {circuit.because}" if circuit.because else NOT_ON_RECORD
    if circuit.open_until:
        until = clock(circuit.open_until, now)
        yield f"no canary before {until}, cooldown {duration(circuit.cooldown)}"
    if circuit.forced:
        since = f" since {clock(circuit.forced_since, now)}" if circuit.forced_since else ""
        end = until_when(circuit.forced_until, now)
        yield f"held {circuit.forced} by {circuit.forced_by}{since} {end}: {circuit.forced_reason}"
    yield from pace_of(circuit, now)
    if circuit.consumer_paused:
        yield "the consumer is paused; it is resumed when the circuit has closed"
    if circuit.state == UNREADABLE:
        replaces = f"dlq circuit release {quote(circuit.key)} -p {quote(circuit.pipeline)}"
        yield f"its record is malformed; this replaces it:\n{replaces}"
    if (totals := circuit.totals) is not None and totals.since is not None:
        yield (
            f"in all since {clock(totals.since, now)}: {totals.failed:,} of "
            f"{count(totals.calls, 'call')} failed, opened {count(totals.openings, 'time')}, "
            f"{count(totals.refused, 'message')} given back"
        )


def until_when(until: datetime | None, now: datetime) -> str:
    """The end of what a person said about a circuit; None means that a person ends it."""
    return "until a person ends it" if until is None else f"until {clock(until, now)}"


def pace_of(circuit: CircuitRow, now: datetime) -> Iterator[str]:
    """What slows calls while the circuit is closed, in words; nothing if nothing does."""
    if (paced := circuit.paced) is not None:
        since = paced.since and f", since {duration(now - paced.since)}"
        yield (
            f"paced: {paced.limit:.3g} calls a second, about {count(paced.waiting, 'message')} "
            f"wait{since or ''}, because {paced.because}"
        )
    if circuit.slowed:
        kinds = ", ".join(
            f"{count(number, 'value')} of {field}" for field, number in circuit.slowed.items()
        )
        yield f"slowed, since they fail while others succeed: {kinds}"


# The verbs.

Key = Annotated[
    str | None,
    Asked("The dependency, as `circuit list` names it; else the pipeline's own.", metavar="KEY"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitsRequest:
    """List each pipeline's own circuit, and all others that are not closed or overridden.

    With --check the exit status is 1 if a listed circuit is not CLOSED. dlq show circuit:KEY tells
    more of one, with what it has counted.
    """

    pipelines: NamedPipelines = ()
    check: Annotated[bool, Asked("Exit with 1 if a circuit is not CLOSED.", ("--check",))] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """Open a circuit by hand: nothing is sent on, and live traffic is paused too.

    This is the kill switch. Running runs notice it at their next chunk of messages. When the
    override expires, a canary finds out whether the dependency works.

    The pipeline's own circuit (without KEY) stops live traffic: where the mapping is ours, as
    that of the webhook dispatcher, it is paused, and messages wait in the main queue. A
    consumer with the library gives back what it has in hand. A circuit with a KEY, such as an
    endpoint's, pauses no mapping.

    With --expires never it lasts until dlq circuit close or dlq circuit release; the alarm
    CircuitTrouble reminds you of it.
    """

    key: Key = None
    pipeline: Pipeline = None
    new: Annotated[
        bool, Asked("The key is right although no consumer has reported it yet.", ("--new",))
    ] = False
    expires: Annotated[
        str | None,
        Asked("After 30m, 2h, 7d, at an ISO 8601 time, or never.", ("--expires",), "WHEN"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRequest:
    """Close a circuit by hand: messages are sent again.

    Until the override expires, no failure opens the circuit.
    """

    key: Key = None
    pipeline: Pipeline = None
    expires: Annotated[
        str | None, Asked("After 30m, 2h, 7d, or at an ISO 8601 time.", ("--expires",), "WHEN")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """End what a person said about a circuit. An open circuit is tried with a canary at once.

    What a person opened is CLOSED within two minutes, whatever single endpoints answer: their own
    circuits hold their messages. It stays open if a canary shows that the dependency is down. It
    also replaces a circuit record that is malformed.
    """

    key: Key = None
    pipeline: Pipeline = None


@dataclass(frozen=True, slots=True)
class CircuitPlan:
    """A circuit, as it was read, that a person is about to hold in a state, or to leave to itself.

    Without a `state` it is released. Without an end (`until`) a person ends the hold; whether that
    was said is `is_dated`.
    """

    app: App
    pipeline: DeployedPipeline
    breaker: DynamoDBBreaker
    circuit: Circuit
    now: datetime
    state: State | None = None
    until: datetime | None = None
    is_dated: bool = False

    def ending(self, until: datetime | None) -> CircuitPlan:
        """This with its end. Problem for one that no person would wait for."""
        if until is not None and until - self.now > LONGEST_HOLD:
            raise Problem(
                f"An override ends within {LONGEST_HOLD.days} days. To hold a circuit open without "
                "an end, open it with --expires never: an alarm reminds you of it.",
                Cause.INPUT,
            )
        return replace(self, until=until, is_dated=True)

    @property
    def is_own(self) -> bool:
        """Whether it is the pipeline's own circuit."""
        return self.circuit.key == self.pipeline.name

    @property
    def row(self) -> CircuitRow:
        return circuit_row(self.pipeline.name, self.circuit, self.now)


def _list(session: Session, request: CircuitsRequest) -> CircuitList:
    return list_circuits(session, request.pipelines)


def _to_open(session: Session, request: OpenRequest) -> CircuitPlan:
    plan = _to_release(session, request, new=request.new)
    # A handler may name dependencies in any pipeline.
    has_keys = plan.pipeline.settings().circuit_key is not None or is_reserved_key(plan.circuit.key)
    if not plan.is_own and not has_keys:
        raise Problem(
            f"Pipeline {plan.pipeline.name} has no circuit_key in its settings, so no message "
            f"belongs to a circuit {plan.circuit.key!r}: leave KEY out for the pipeline's own.",
            Cause.INPUT,
        )
    return _dated(replace(plan, state=State.OPEN), request.expires)


def _to_close(session: Session, request: CloseRequest) -> CircuitPlan:
    plan = replace(_to_release(session, request), state=State.CLOSED)
    return _dated(plan, request.expires)


def _to_release(
    session: Session, request: OpenRequest | CloseRequest | ReleaseRequest, *, new: bool = False
) -> CircuitPlan:
    app = session.app()
    pipeline = app.pipeline(request.pipeline)
    breaker, key = _breaker(session, app, pipeline), request.key
    if key is None:
        key = pipeline.name
    if not key.strip():
        raise Problem("KEY is empty: leave it out for the pipeline's own circuit.", Cause.INPUT)
    circuit = _known(breaker, pipeline.name, key, new=new)
    return CircuitPlan(app, pipeline, breaker, circuit, session.now)


def _dated(plan: CircuitPlan, expires: str | None) -> CircuitPlan:
    if expires is None:
        return plan
    never = plan.state is State.OPEN
    return plan.ending(ending(expires, plan.now, "the override", never=never))


def _question(plan: CircuitPlan) -> Iterator[str]:
    name = f"circuit {plan.circuit.key} of {plan.pipeline.name}"
    if plan.state is None:
        yield f"Leave {name} to itself again."
    else:
        yield f"Keep {name} {plan.state} {until_when(plan.until, plan.now)}."
    pauses = plan.is_own and plan.pipeline.settings().circuit.pause_consumer
    if plan.state is State.OPEN and pauses:
        yield "The consumer is paused too: live messages wait in the main queue."
    said = "; ".join(details(plan.row, plan.now))
    yield f"It is {plan.row.state} now{': ' if said else ''}{said}."


def _commit(session: Session, plan: CircuitPlan, reason: str) -> CircuitChange:
    """Begins or ends the manual override; a malformed record is replaced by a release."""
    name = plan.pipeline.name
    event: Event = OverrideEnded()
    command, intended = "release", {"forced": "none"}
    if plan.state is not None:
        command = "open" if plan.state is State.OPEN else "close"
        intended = {"forced": str(plan.state), "until": _end(plan.until)}
        end = NO_END if plan.until is None else plan.until.timestamp()
        event = OverrideBegun(Override(plan.state, session.aws.caller, reason, end))
    target, before = f"circuit {plan.circuit.key}", _facts(plan.row)
    change = IntendedChange(f"circuit {command}", name, target, reason, before, intended)
    with recorded(session, plan.app, change) as record:
        with aws_errors():
            result = plan.breaker.apply_to(plan.circuit, event)
        if result.refused is not None:
            raise Problem(f"Nothing was done: {result.refused}.", Cause.FAILED)
        now = session.now
        after = circuit_row(name, result.circuit, now)
        record.done(_facts(after))
    return CircuitChange(**session.place, before=plan.row, after=after)


LIST = Verb(
    name="list",
    request=CircuitsRequest,
    examples=("dlq circuit list", "dlq circuit list orders"),
    read=_list,
)

HOLDS: Sequence[Verb] = (
    Verb(
        name="open",
        request=OpenRequest,
        examples=(
            'dlq circuit open --expires 3h --reason "the bank is down till 6"',
            'dlq circuit open --expires never --reason "nothing goes back until I say so"',
            "dlq circuit open",
        ),
        change="A manual override",
        prepare=_to_open,
        question=_question,
        commit=_commit,
    ),
    Verb(
        name="close",
        request=CloseRequest,
        examples=('dlq circuit close --expires 30m --reason "false alarm" --yes',),
        change="A manual override",
        prepare=_to_close,
        question=_question,
        commit=_commit,
        plans=False,
    ),
)

RELEASE = Verb(
    name="release",
    request=ReleaseRequest,
    examples=(
        'dlq circuit release --reason "the bank is back"',
        'dlq circuit release hooks.acme.example --reason "mended" --yes',
    ),
    change="A release",
    prepare=_to_release,
    question=_question,
    commit=_commit,
    plans=False,
)
