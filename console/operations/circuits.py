"""`dlq circuit`: the circuits of an app, and what a person says about one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from functools import cached_property
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
from .words import clock, count, duration, ending, moment

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

    at: Annotated[datetime, "when it was read"]
    circuits: Annotated[
        Sequence[CircuitRow], "each pipeline's own, and those not closed or overridden"
    ]


@dataclass(frozen=True, slots=True)
class CircuitChange(Answer):
    """What `dlq circuit open`, `close` and `release` answer."""

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
        if self._pipeline.settings().circuit_key is None:
            raise Problem(
                f"Pipeline {self.pipeline} has no circuit_key in its settings, so no message "
                f"belongs to a circuit {self.key!r}: leave KEY out for the pipeline's own.",
                Cause.INPUT,
            )

    @property
    def now(self) -> datetime:
        return self._session.now

    @property
    def pipeline(self) -> str:
        return self._pipeline.name

    @property
    def pauses_consumer(self) -> bool:
        """Whether the consumer's mapping is paused as well while the circuit is open."""
        return self.key == self.pipeline and self._pipeline.settings().circuit.pause_consumer

    @property
    def before(self) -> CircuitRow:
        return circuit_row(self.pipeline, self._circuit, self.now)

    def override(self, state: State, reason: str, until: datetime | None) -> CircuitChange:
        """Keep the circuit open or closed until a time, or until a person ends it (None)."""
        if state is State.OPEN and self.key != self.pipeline:
            self._must_have_keys()
        end = NO_END if until is None else until.timestamp()
        command = "circuit open" if state is State.OPEN else "circuit close"
        intended = {"forced": str(state), "until": _end(until)}
        event = OverrideBegun(Override(state, self._session.aws.caller, reason, end))
        return self._change(command, event, reason, intended)

    def end_override(self, reason: str) -> CircuitChange:
        """Ends the manual override; a malformed record is replaced."""
        return self._change("circuit release", OverrideEnded(), reason, {"forced": "none"})

    def _change(
        self, command: str, event: Event, why: str, intended: Mapping[str, str]
    ) -> CircuitChange:
        now, before = self.now, self.before
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
        policy=pipeline.settings().circuit,
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


def state_of(circuit: Circuit) -> str:
    """The circuit's state as answers show it."""
    return UNREADABLE if circuit.unreadable else str(circuit.state)


def in_the_way(pipeline: DeployedPipeline, circuit: Circuit, comes: str) -> str:
    """What comes of a circuit that is not closed, and how that is lifted."""
    return (
        f"Circuit {circuit.key} is {state_of(circuit)}: {comes}. It is lifted by\n"
        f"dlq circuit close {quote(circuit.key)} -p {pipeline.name} --expires 10m"
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
        replaces = f"dlq circuit release {quote(circuit.key)} -p {circuit.pipeline}"
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
class CircuitHold:
    """A circuit that a person is about to hold open or closed.

    Without an end (`until`) a person ends it; whether that was said is `is_dated`.
    """

    switch: CircuitSwitch
    state: State
    until: datetime | None = None
    is_dated: bool = False

    def ending(self, until: datetime | None) -> CircuitHold:
        """This with its end. Problem for one that no person would wait for."""
        if until is not None and until - self.switch.now > LONGEST_HOLD:
            raise Problem(
                f"An override ends within {LONGEST_HOLD.days} days. To hold a circuit open without "
                "an end, open it with --expires never: an alarm reminds you of it.",
                Cause.INPUT,
            )
        return replace(self, until=until, is_dated=True)


def _list(session: Session, request: CircuitsRequest) -> CircuitList:
    return list_circuits(session, request.pipelines)


def _to_open(session: Session, request: OpenRequest) -> CircuitHold:
    switch = CircuitSwitch(session, request.pipeline, request.key, new=request.new)
    return _dated(CircuitHold(switch, State.OPEN), request.expires)


def _to_close(session: Session, request: CloseRequest) -> CircuitHold:
    switch = CircuitSwitch(session, request.pipeline, request.key)
    return _dated(CircuitHold(switch, State.CLOSED), request.expires)


def _dated(plan: CircuitHold, expires: str | None) -> CircuitHold:
    if expires is None:
        return plan
    never = plan.state is State.OPEN
    return plan.ending(ending(expires, plan.switch.now, "the override", never=never))


def _hold_question(plan: CircuitHold) -> Iterator[str]:
    switch = plan.switch
    end = until_when(plan.until, switch.now)
    yield f"Keep circuit {switch.key} of {switch.pipeline} {plan.state} {end}."
    if plan.state is State.OPEN and switch.pauses_consumer:
        yield "The consumer is paused too: live messages wait in the main queue."
    yield _as_it_is(switch)


def _as_it_is(switch: CircuitSwitch) -> str:
    said = "; ".join(details(switch.before, switch.now))
    return f"It is {switch.before.state} now{': ' if said else ''}{said}."


def _hold(_: Session, plan: CircuitHold, reason: str) -> CircuitChange:
    return plan.switch.override(plan.state, reason, plan.until)


def _to_release(session: Session, request: ReleaseRequest) -> CircuitSwitch:
    return CircuitSwitch(session, request.pipeline, request.key)


def _release_question(switch: CircuitSwitch) -> Iterator[str]:
    yield f"Leave circuit {switch.key} of {switch.pipeline} to itself again."
    yield _as_it_is(switch)


def _release(_: Session, switch: CircuitSwitch, reason: str) -> CircuitChange:
    return switch.end_override(reason)


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
        question=_hold_question,
        commit=_hold,
    ),
    Verb(
        name="close",
        request=CloseRequest,
        examples=('dlq circuit close --expires 30m --reason "false alarm" --yes',),
        change="A manual override",
        prepare=_to_close,
        question=_hold_question,
        commit=_hold,
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
    question=_release_question,
    commit=_release,
    plans=False,
)
