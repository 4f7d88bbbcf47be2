"""The steps of an outage beside the canary: announced, paused, and back again."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.circuit.state import RAMP_STEPS, Circuit, CircuitPolicy, Circuits
from deadletter.outage.event_source import ConsumerPause
from deadletter.outage.execution_step import (
    BadExecution,
    CircuitAnnouncer,
    Execution,
    ExecutionStep,
    Next,
    seconds_to_probe,
)


class ConsumerSteps:
    """What the circuit function does in the execution of an outage.

    Each step reads the circuit as it stands and may be repeated: nothing depends on what
    an earlier step believed. Without a `valve` no consumer is paused. `clock` gives epoch
    seconds. Every step raises CircuitsUnavailable, MappingUnavailable and MappingBusy,
    which the state machine retries; no letter is in anybody's hands here.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        policy: CircuitPolicy,
        circuits: Circuits,
        valve: ConsumerPause | None,
        herald: CircuitAnnouncer,
        clock: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._policy = policy
        self._circuits = circuits
        self._valve = valve
        self._herald = herald
        self._clock = clock

    def take(self, step: str, course: Execution) -> ExecutionStep:
        """The step of that name; raises BadCourse for another."""
        steps = {"announce": self.announce, "pause": self.pause, "resume": self.resume}
        if step not in steps:
            raise BadExecution(f"unknown step {step!r}; known are {', '.join(steps)}")
        return steps[step](course)

    def announce(self, course: Execution) -> ExecutionStep:
        """The world hears of the outage, if it is still this execution's."""
        circuit = self._read(course)
        if not course.runs(circuit):
            return course.goes(Next.HAND_OVER, circuit)
        course = self._herald.say(course, circuit)
        if circuit.lets_through:
            return course.goes(Next.RESUME, circuit)
        pauses = self._policy.pause_consumer and self._valve_for(circuit) is not None
        return self._to_probe(course, circuit, Next.PAUSE if pauses else Next.PROBE)

    def pause(self, course: Execution) -> ExecutionStep:
        """The consumer gets nothing more; whatever else has come meanwhile, the probe sees."""
        circuit = self._read(course)
        valve = self._valve_for(circuit)
        if course.runs(circuit) and not circuit.lets_through and valve is not None:
            circuit = valve.shut(circuit)
        return self._to_probe(course, circuit, Next.PROBE)

    def resume(self, course: Execution) -> ExecutionStep:
        """The consumer comes back by one step of the ramp."""
        circuit = self._read(course)
        if not course.runs(circuit) or not circuit.lets_through:
            # Another outage has begun, or a person has opened the circuit.
            return course.goes(Next.HAND_OVER, circuit)
        course = self._herald.say(course, circuit)
        valve = self._valve_for(circuit)
        if valve is None or circuit.paused is None:
            return course.goes(Next.CLOSED, circuit)
        now = self._clock()
        step = circuit.ramp_step(self._policy, now)
        circuit = valve.open(circuit, step)
        if step == RAMP_STEPS:
            return course.goes(Next.CLOSED, circuit)
        ends = circuit.closed_at + self._policy.ramp * step / RAMP_STEPS
        return course.goes(Next.RESUME, circuit, ends - now)

    def _to_probe(self, course: Execution, circuit: Circuit, to: Next) -> ExecutionStep:
        return course.goes(to, circuit, seconds_to_probe(circuit, self._clock()))

    def _read(self, course: Execution) -> Circuit:
        return self._circuits.read([course.key])[course.key]

    def _valve_for(self, circuit: Circuit) -> ConsumerPause | None:
        """A dead endpoint stops only itself: the consumer serves all keys."""
        return self._valve if circuit.key == self._pipeline else None
