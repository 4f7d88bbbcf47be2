"""What the watch saw in one minute. What could not be read is missing, and never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from deadletter.circuit.state import Circuit
from deadletter.contract import CIRCUIT_LEVELS, DEPENDENCY_PREFIX, config_key, is_config_key
from deadletter.message.queue import Depth
from deadletter.redrive.source_memory import SourceMemory
from deadletter.routing.router import RouterAnswer

MAIN = "main"
"""The main queue among the queues that are looked at; the others are sources of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A queue as SQS describes it: its messages, its age (epoch seconds), its retention (s)."""

    depth: Depth
    created: float
    retention: float


@dataclass(frozen=True, slots=True)
class LaneState:
    """The letters of one lane, and the earliest time that one of them is due (None: none is)."""

    letters: int
    first_due: float | None = None


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
    misconfigured  circuits for configuration that are not closed, of the pipeline itself and of
                   named dependencies
    held           when people began to hold circuits without an end, by the circuit's key; None
                   if it is not on record
    """

    level: int = 0
    named: int = 0
    open_keys: int = 0
    misconfigured: int = 0
    held: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesState:
    """Rules that do nothing: of this pipeline, and of the partition for all pipelines."""

    refused: int = 0
    refused_everywhere: int = 0
    limited: int = 0
    limited_everywhere: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One minute's look at everything.

    queues    by source id, and MAIN
    memories  what the runs of each source have left, None if the lease items could not be read
    circuits  None if the circuits could not be read
    causes    how many causes of failure are held, None if they could not be read
    rules     None if the router did not answer
    due       the lane of delays, None if it could not be read
    lanes     the lanes that were counted in this minute, by name
    counted   whether they are all lanes that there are
    failed    why a step of the look failed, by the step's name
    """

    queues: Mapping[str, QueueState] = field(default_factory=dict)
    memories: Mapping[str, SourceMemory] | None = None
    circuits: CircuitsState | None = None
    causes: int | None = None
    rules: RulesState | None = None
    due: FirstDue | None = None
    lanes: Mapping[str, LaneState] = field(default_factory=dict)
    counted: bool = False
    failed: Mapping[str, str] = field(default_factory=dict)


def circuits_state(pipeline: str, troubled: Iterable[Circuit]) -> CircuitsState:
    """The state of a pipeline's circuits; those that are not `troubled` are closed."""
    circuits = {circuit.key: circuit for circuit in troubled}
    own = circuits.get(pipeline)
    not_closed = {key for key, circuit in circuits.items() if not circuit.is_closed} - {pipeline}
    misconfigured = {key for key in not_closed if _is_of_all(key, pipeline)}
    named = [
        circuit
        for circuit in circuits.values()
        if circuit.key.startswith(DEPENDENCY_PREFIX) and not is_config_key(circuit.key)
    ]
    return CircuitsState(
        level=0 if own is None else CIRCUIT_LEVELS[own.state],
        named=max((CIRCUIT_LEVELS[circuit.state] for circuit in named), default=0),
        open_keys=len(not_closed - misconfigured),
        misconfigured=len(misconfigured),
        held={
            circuit.key: circuit.forced.begun
            for circuit in circuits.values()
            if circuit.forced is not None and not circuit.forced.has_end
        },
    )


def _is_of_all(key: str, pipeline: str) -> bool:
    """True for a configuration circuit that all messages may need, not those of one key alone."""
    is_named = key.startswith(DEPENDENCY_PREFIX)
    return is_config_key(key) and (is_named or key == config_key(pipeline))


def rules_state(answer: RouterAnswer) -> RulesState:
    """How many rules do nothing, as the router says."""
    refused_everywhere = sum(rule.everywhere for rule in answer.refused_rules)
    limited_everywhere = len(answer.limited_everywhere)
    return RulesState(
        refused=len(answer.refused_rules) - refused_everywhere,
        refused_everywhere=refused_everywhere,
        limited=max(0, len(answer.limited_rules) - limited_everywhere),
        limited_everywhere=limited_everywhere,
    )
