"""The steps of an outage, and the state that its execution carries from one to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from deadletter.circuit.state import RAMP_STEPS, Circuit, CircuitPolicy, Circuits, State
from deadletter.circuit.transitions import CLOCK_SKEW
from deadletter.contract import CIRCUIT_LEVELS
from deadletter.outage.executions import is_run_by
from deadletter.signals.figures import Figure

if TYPE_CHECKING:
    # The probe has steps too, and changes no mapping.
    from deadletter.outage.mapping import ConsumerPause

MOST_PROBES = 500
"""Probes after which an execution hands over: its history holds at most 25,000 events."""

LONGEST_WAIT_SECONDS = 86_400.0
"""Longest wait before a probe, even while an override holds the circuit open: the override
may have been changed in the table."""

SECONDS_TO_FIRST_CHECK = 20.0
"""Wait before the first check of a canary that went through the main queue. Each later wait
is as long as the canary has been under way."""

SECONDS_BETWEEN_CANARIES = 2.0
"""Wait between two canaries: a dependency that flaps then fails the second one."""


class Next(StrEnum):
    """Where the execution goes next; the values stand in the state machine's choices."""

    PAUSE = "pause"
    PROBE = "probe"
    RESUME = "resume"
    CLOSED = "closed"
    HAND_OVER = "hand over"


class BadExecution(ValueError):
    """The event is not one of our executions'; the message names the field."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One running execution; `generation` and `restart` name the outage it was started for.

    probes        how often it has probed
    empty         how many probes in a row found no letter
    said          the circuit's state that was announced last, empty before the first
    pause_failed  the consumer could not be paused, and this is not counted yet
    """

    key: str
    generation: int
    restart: int
    probes: int = 0
    empty: int = 0
    said: str = ""
    pause_failed: bool = False

    def runs(self, circuit: Circuit) -> bool:
        """Whether this execution still runs the circuit's outage."""
        return is_run_by(circuit, self.generation, self.restart)

    def step_to(self, to: Next, circuit: Circuit, wait_seconds: float = 0.0) -> ExecutionStep:
        """The step to `to`, after `wait_seconds`, rounded up to a whole second from 1."""
        if to is Next.PROBE and self.probes >= MOST_PROBES:
            to = Next.HAND_OVER
        seconds = max(1, math.ceil(min(wait_seconds, LONGEST_WAIT_SECONDS)))
        return ExecutionStep(to, str(circuit.state), seconds, self.probes, self.empty, self.said)


@dataclass(frozen=True, slots=True)
class ExecutionStep:
    """What the state machine continues with: numbers and words, nothing from a letter."""

    next: Next
    state: str
    wait_seconds: int
    probes: int
    empty: int
    said: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "next": str(self.next)}


def execution_from_json(data: Mapping[str, Any]) -> Execution:
    """The execution in a state's input: its start parameters, and its last step in `circuit`.

    Raises BadExecution.
    """
    step = data.get("circuit", {})
    if not isinstance(step, Mapping):
        raise BadExecution("circuit must be an object")
    return Execution(
        key=_text(data, "key"),
        generation=_count(data, "generation"),
        restart=_count(data, "restart"),
        probes=_count(step, "probes", 0),
        empty=_count(step, "empty", 0),
        said=_text(step, "said", ""),
        pause_failed="pause_failed" in step,
    )


def seconds_to_probe(circuit: Circuit, now: float) -> float:
    """Seconds until the next probe, by the circuit alone."""
    if circuit.state is State.OPEN:
        return circuit.open_until - now
    permit = circuit.permit
    if permit is not None:
        until_lost = permit.until + CLOCK_SKEW + 1 - now
        if permit.sent_at is None:
            return until_lost
        return min(until_lost, max(SECONDS_TO_FIRST_CHECK, now - permit.sent_at))
    return SECONDS_BETWEEN_CANARIES


class CircuitEvents(Protocol):
    """Publishes changes of circuits. It never raises: an outage goes on unannounced."""

    def announce(self, circuit: Circuit, before: str) -> None:
        """Publish the circuit's state, with the state published `before` (empty: none)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitAnnouncer:
    """Announces each change of the pipeline's own circuit, at least once.

    Circuits of single keys are not announced: the redriver counts them.
    `count_metric` counts a metric, or sets it, by its name.
    """

    pipeline: str
    announcer: CircuitEvents
    count_metric: Callable[[str, int], None]

    def announce(self, execution: Execution, circuit: Circuit) -> Execution:
        """Announce the circuit's state if it has changed. Returns the execution with it."""
        if circuit.key != self.pipeline or execution.said == circuit.state:
            return execution
        self.count_metric(Figure.CIRCUIT_STATE, CIRCUIT_LEVELS[circuit.state])
        is_new_outage = circuit.state is State.OPEN and not execution.said and not execution.restart
        if is_new_outage:
            self.count_metric(Figure.CIRCUIT_OPENED, 1)
        self.announcer.announce(circuit, execution.said)
        return replace(execution, said=str(circuit.state))


def _text(data: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = data.get(name, default)
    if not isinstance(value, str):
        raise BadExecution(f"{name} must be text")
    return value


def _count(data: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = data.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadExecution(f"{name} must be a whole number, at least 0")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSteps:
    """What the circuit function does in the execution of an outage.

    Each step reads the circuit and may be repeated: nothing depends on what an earlier step
    has read. Without a `consumer_pause` no consumer is paused. `clock` gives epoch seconds.
    With `admits_a_rate` the consumers themselves admit the rate of before the trip, step by
    step: then the mapping comes back in one change, if that rate is known.
    Every step raises CircuitsUnavailable, MappingUnavailable and MappingBusy, which the state
    machine retries; no step receives a letter.
    """

    pipeline: str
    policy: CircuitPolicy
    circuits: Circuits
    consumer_pause: ConsumerPause | None
    announcer: CircuitAnnouncer
    clock: Callable[[], float]
    admits_a_rate: bool = False

    def take(self, step: str, execution: Execution) -> ExecutionStep:
        """Take the step of that name; raises BadExecution for an unknown name."""
        steps = {"announce": self.announce, "pause": self.pause, "resume": self.resume}
        if step not in steps:
            raise BadExecution(f"unknown step {step!r}; known are {', '.join(steps)}")
        return steps[step](execution)

    def announce(self, execution: Execution) -> ExecutionStep:
        """Announce the outage if this execution still runs it."""
        circuit = self._read(execution)
        if not execution.runs(circuit):
            return execution.step_to(Next.HAND_OVER, circuit)
        execution = self.announcer.announce(execution, circuit)
        if circuit.is_closed:
            return execution.step_to(Next.RESUME, circuit)
        # A person has let it go: a canary comes first, and its failure is an outage to pause in.
        is_let_go = circuit.by_hand and not circuit.is_forced(self.clock())
        pauses = not is_let_go and self._pause_for(circuit) is not None
        return self._to_probe(execution, circuit, Next.PAUSE if pauses else Next.PROBE)

    def pause(self, execution: Execution) -> ExecutionStep:
        """Pause the consumer. Any change of the circuit since is left to the probe."""
        circuit = self._read(execution)
        consumer_pause = self._pause_for(circuit)
        if execution.runs(circuit) and not circuit.is_closed and consumer_pause is not None:
            circuit = consumer_pause.pause(circuit)
        return self._to_probe(execution, circuit, Next.PROBE)

    def resume(self, execution: Execution) -> ExecutionStep:
        """Resume the consumer by one step of the ramp."""
        circuit = self._read(execution)
        if not execution.runs(circuit) or not circuit.is_closed:
            # Another outage has begun, or an override has opened the circuit.
            return execution.step_to(Next.HAND_OVER, circuit)
        execution = self.announcer.announce(execution, circuit)
        consumer_pause = self._consumer_pause_for(circuit)
        if consumer_pause is None or circuit.paused is None:
            return execution.step_to(Next.CLOSED, circuit)
        now = self.clock()
        at_once = self.admits_a_rate and circuit.rate > 0
        step = RAMP_STEPS if at_once else circuit.ramp_step(self.policy, now)
        circuit = consumer_pause.resume(circuit, step)
        if step == RAMP_STEPS:
            return execution.step_to(Next.CLOSED, circuit)
        ends = circuit.closed_at + self.policy.ramp * step / RAMP_STEPS
        return execution.step_to(Next.RESUME, circuit, ends - now)

    def _to_probe(self, execution: Execution, circuit: Circuit, to: Next) -> ExecutionStep:
        return execution.step_to(to, circuit, seconds_to_probe(circuit, self.clock()))

    def _read(self, execution: Execution) -> Circuit:
        return self.circuits.read([execution.key])[execution.key]

    def _pause_for(self, circuit: Circuit) -> ConsumerPause | None:
        """The pause, if the settings ask for one; what is paused is resumed in any case."""
        return self._consumer_pause_for(circuit) if self.policy.pause_consumer else None

    def _consumer_pause_for(self, circuit: Circuit) -> ConsumerPause | None:
        """The pause for the pipeline's own circuit; None for a single key's.

        The consumer serves all keys, so a dead endpoint must not pause it.
        """
        return self.consumer_pause if circuit.key == self.pipeline else None
