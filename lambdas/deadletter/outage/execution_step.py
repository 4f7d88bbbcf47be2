"""Where an outage stands, as its execution carries it from state to state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from deadletter.circuit.state import Circuit, State
from deadletter.circuit.transitions import CLOCK_SKEW
from deadletter.contract import CIRCUIT_LEVELS, Metric
from deadletter.outage.executions import is_run_by

MOST_PROBES = 500
"""Probes after which an execution hands over: it can hold 25,000 events."""

LONGEST_WAIT = 86_400.0
"""Seconds after which even an outage that a person forced is looked at again: he may have
typed something else into the table."""

FIRST_LOOK = 20.0
"""Seconds after which a canary that went through the main queue is asked after first; each
time that it has said nothing, as long again as it has been under way."""

BREATH = 5.0
"""Seconds between two canaries, so that a dependency that flaps has the time to."""

OPENED = Metric.CIRCUIT_OPENED


class Next(StrEnum):
    """Where the execution goes next; the words stand in the state machine's choices."""

    PAUSE = "pause"
    PROBE = "probe"
    RESUME = "resume"
    CLOSED = "closed"
    HAND_OVER = "hand over"


class BadExecution(ValueError):
    """An event that no execution of ours sends; the message names the field."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution on its way; `generation` and `restart` say which outage it was started for.

    probes        how often it has come to probe
    empty         how many probes in a row found nothing to probe with
    said          the state of the circuit that was announced last
    pause_failed  the consumer could not be paused, and nobody has counted it yet
    """

    key: str
    generation: int
    restart: int
    probes: int = 0
    empty: int = 0
    said: str = ""
    pause_failed: bool = False

    def runs(self, circuit: Circuit) -> bool:
        """Whether this execution still is the one that runs the circuit's outage."""
        return is_run_by(circuit, self.generation, self.restart)

    def step_to(self, to: Next, circuit: Circuit, wait_seconds: float = 0.0) -> ExecutionStep:
        """The step to `to`, after so many seconds, rounded up to a whole one."""
        if to is Next.PROBE and self.probes >= MOST_PROBES:
            to = Next.HAND_OVER
        seconds = max(1, math.ceil(min(wait_seconds, LONGEST_WAIT)))
        return ExecutionStep(to, str(circuit.state), seconds, self.probes, self.empty, self.said)


@dataclass(frozen=True, slots=True)
class ExecutionStep:
    """What the state machine goes on with: numbers and words, nothing of any letter."""

    next: Next
    state: str
    wait_seconds: int
    probes: int
    empty: int
    said: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "next": str(self.next)}


def execution_from_json(data: Mapping[str, Any]) -> Execution:
    """The execution in the state's input: what the execution was started with, and where it stands.

    Raises BadExecution.
    """
    standing = data.get("circuit", {})
    if not isinstance(standing, Mapping):
        raise BadExecution("circuit must be an object")
    return Execution(
        key=_text(data, "key"),
        generation=_count(data, "generation"),
        restart=_count(data, "restart"),
        probes=_count(standing, "probes", 0),
        empty=_count(standing, "empty", 0),
        said=_text(standing, "said", ""),
        pause_failed="pause_failed" in standing,
    )


def seconds_to_probe(circuit: Circuit, now: float) -> float:
    """How long until a canary may be sent, as far as the circuit itself knows."""
    if circuit.state is State.OPEN:
        return circuit.open_until - now
    permit = circuit.permit
    if permit is not None:
        lost = permit.until + CLOCK_SKEW + 1 - now
        return lost if permit.sent_at is None else min(lost, max(FIRST_LOOK, now - permit.sent_at))
    return BREATH


class CircuitEvents(Protocol):
    """Whoever tells the world of circuits. It never raises: an outage goes on unannounced."""

    def announce(self, circuit: Circuit, before: str) -> None:
        """Say what state the circuit is in, and in which it was said to be before ("": none)."""


class CircuitAnnouncer:
    """Says each change of the pipeline's own circuit, at least once.

    Circuits of single keys are counted by the redriver and not announced one by one.
    `count_metric` counts a metric, or sets it, by its name.
    """

    def __init__(
        self, *, pipeline: str, announcer: CircuitEvents, count_metric: Callable[[str, int], None]
    ) -> None:
        self._pipeline = pipeline
        self._announcer = announcer
        self._count_metric = count_metric

    def announce(self, execution: Execution, circuit: Circuit) -> Execution:
        """The execution with the circuit's state announced, if it is news."""
        if circuit.key != self._pipeline or execution.said == circuit.state:
            return execution
        self._count_metric(Metric.CIRCUIT_STATE, CIRCUIT_LEVELS[circuit.state])
        begins = circuit.state is State.OPEN and not execution.said and not execution.restart
        if begins:
            self._count_metric(OPENED, 1)
        self._announcer.announce(circuit, execution.said)
        return replace(execution, said=str(circuit.state))


def _text(data: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = data.get(name, default)
    if not isinstance(value, str):
        raise BadExecution(f"{name} must be a text")
    return value


def _count(data: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = data.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadExecution(f"{name} must be a whole number from 0 up")
    return value
