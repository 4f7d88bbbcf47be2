"""What the watch saw in one minute, and what it publishes.

What could not be read is missing, and never zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from deadletter.circuit.state import Circuit
from deadletter.contract import (
    CIRCUIT_LEVELS,
    DEPENDENCY_PREFIX,
    EVERY_PIPELINE,
    MINUTE,
    config_key,
    is_config_key,
)
from deadletter.message.queue import QueueState
from deadletter.redrive.source_memory import SourceMemory
from deadletter.replay.care import Care
from deadletter.routing.router import RouterAnswer
from deadletter.signals import emf
from deadletter.signals.figures import Counted
from deadletter.signals.troubles import Seen, TroubleKind

TURN = 60.0
"""Seconds for which one watch has the look: its answer holds for all watches."""

MAPPING_EVERY = 5.0 * MINUTE
"""Seconds between two questions to Lambda, whose control plane answers the whole account 15 times a
second."""

FAILURES_THAT_CALL = 3
"""Looks in a row that fail until a person is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLook:
    """What is known of the rule checker.

    turn_ends    until when the answer holds
    mapping_at   when Lambda was last asked
    late         why edits of rules are noticed late; empty if they are not
    undelivered  edits that the checker could not handle
    failed       looks in a row that failed, the last one for the reason `why`
    """

    turn_ends: float = 0.0
    mapping_at: float = 0.0
    late: str = ""
    undelivered: int = 0
    failed: int = 0
    why: str = ""


def shared_troubles(look: SharedLook) -> Iterator[Seen]:
    """What of it calls the app's owner."""
    if look.late:
        yield Seen(TroubleKind.EDITS_LATE, {"why": look.late})
    if look.undelivered:
        yield Seen(TroubleKind.EDITS_UNCHECKED, {"edits": look.undelivered})
    if look.failed >= FAILURES_THAT_CALL:
        yield Seen(TroubleKind.CHECKER_UNREAD, {"why": look.why})


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One value of `metric` at `at` (epoch seconds).

    `source` is the queue or lane that the figure is about, None for the whole pipeline.
    With `everywhere` the figure is about all pipelines of the app.
    """

    metric: Counted
    value: float
    at: float
    source: str | None = None
    everywhere: bool = False


def metric_lines(points: Iterable[MetricPoint], *, app: str, pipeline: str) -> Iterator[str]:
    """The lines for these points: one for each time and each set of dimensions."""
    lines: defaultdict[tuple[float, str | None, bool], dict[str, float]] = defaultdict(dict)
    for point in points:
        lines[point.at, point.source, point.everywhere][point.metric] = point.value
    for (at, source, everywhere), values in lines.items():
        named = EVERY_PIPELINE if everywhere else pipeline
        yield emf.line(values, app=app, pipeline=named, at=at, source=source)


@dataclass(frozen=True, slots=True)
class LaneState:
    """The letters of one lane, and the earliest time that one of them is due (None: none is).

    `is_at_least` if there are more than were counted.
    """

    messages: int
    first_due: float | None = None
    is_at_least: bool = False


@dataclass(frozen=True, slots=True)
class FirstDue:
    """When the first letter of the lane of delays is due; None if none waits there."""

    at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitsState:
    """The circuits that need care.

    level          the pipeline's own circuit, as a value of CIRCUIT_LEVELS
    named          the worst circuit of a named dependency, as such a value
    open_keys      circuits of single keys and of named dependencies that are not closed
    held           when people began to hold circuits without an end, by the circuit's key; None
                   if it is not on record
    of_all         the circuits that all messages may need: the pipeline's own, those of named
                   dependencies, and theirs for configuration; one that is missing is closed
    """

    level: int = 0
    named: int = 0
    open_keys: int = 0
    held: Mapping[str, float | None] = field(default_factory=dict)
    of_all: tuple[Circuit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesState:
    """The ids of rules that do nothing: invalid ones, and those that have used up max_matches.

    `everywhere` counts those of the partition for all pipelines; the others are the pipeline's.
    """

    refused: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()
    everywhere: int = 0


@dataclass(frozen=True, slots=True)
class OldestMessage:
    """When the oldest message of the main queue was sent; None if CloudWatch does not know."""

    sent: float | None


@dataclass(slots=True, kw_only=True)
class Observation:
    """One minute's look at everything; each step of it fills in what it has read.

    queues    by source id, and MAIN
    memories  what the runs of each source have left, None if the lease items could not be read
    circuits  None if the circuits could not be read
    causes    how many causes of failure are held, None if they could not be read
    rules     None if the router did not answer
    shared      what all pipelines share; None if unknown
    consumer    the consumer's mapping, if another than we has disabled it; None if unknown
    replays   None if the replay runs could not be read
    main      the oldest message of the main queue, None if CloudWatch was not asked
    due       the lane of delays, None if it could not be read
    lanes     the lanes that were counted in this minute, by name
    counted   whether they are all lanes that there are
    failed    why a step of the look failed, by the step's name
    """

    queues: dict[str, QueueState] = field(default_factory=dict)
    memories: Mapping[str, SourceMemory] | None = None
    circuits: CircuitsState | None = None
    causes: int | None = None
    rules: RulesState | None = None
    shared: SharedLook | None = None
    consumer: str | None = None
    replays: Care | None = None
    main: OldestMessage | None = None
    due: FirstDue | None = None
    lanes: dict[str, LaneState] = field(default_factory=dict)
    counted: bool = False
    failed: dict[str, str] = field(default_factory=dict)


def circuits_state(pipeline: str, troubled: Iterable[Circuit]) -> CircuitsState:
    """The state of a pipeline's circuits; those that are not among `troubled` are closed."""
    circuits = {circuit.key: circuit for circuit in troubled}
    own = circuits.get(pipeline)
    not_closed = {key for key, circuit in circuits.items() if not circuit.is_closed} - {pipeline}
    of_all = {key for key in circuits if _is_of_all(key, pipeline)}
    named = [
        circuit
        for circuit in circuits.values()
        if circuit.key.startswith(DEPENDENCY_PREFIX) and not is_config_key(circuit.key)
    ]
    return CircuitsState(
        level=0 if own is None else CIRCUIT_LEVELS[own.state],
        named=max((CIRCUIT_LEVELS[circuit.state] for circuit in named), default=0),
        open_keys=sum(not (key in of_all and is_config_key(key)) for key in not_closed),
        held={
            circuit.key: circuit.forced.begun
            for circuit in circuits.values()
            if circuit.forced is not None and not circuit.forced.has_end
        },
        of_all=tuple(circuit for key, circuit in sorted(circuits.items()) if key in of_all),
    )


def _is_of_all(key: str, pipeline: str) -> bool:
    """True for a circuit that all messages may need, not those of one key alone."""
    return key.startswith(DEPENDENCY_PREFIX) or key in (pipeline, config_key(pipeline))


def rules_state(answer: RouterAnswer) -> RulesState:
    """The rules that do nothing, as the router says."""
    # One that a person has disabled is meant to match nothing.
    refused = [rule for rule in answer.refused_rules if not rule.disabled]
    refused_everywhere = sum(rule.everywhere for rule in refused)
    return RulesState(
        refused=tuple(rule.rule_id for rule in refused if not rule.everywhere),
        limited=tuple(id_ for id_ in answer.limited_rules if id_ not in answer.limited_everywhere),
        everywhere=refused_everywhere + len(answer.limited_everywhere),
    )
