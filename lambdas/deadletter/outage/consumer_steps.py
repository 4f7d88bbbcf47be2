"""The steps of an outage beside the canary: announce it, pause the consumer, resume it."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.circuit.state import RAMP_STEPS, Circuit, CircuitPolicy, Circuits
from deadletter.outage.execution_step import (
    BadExecution,
    CircuitAnnouncer,
    Execution,
    ExecutionStep,
    Next,
    seconds_to_probe,
)
from deadletter.outage.mapping import ConsumerPause


class ConsumerSteps:
    """What the circuit function does in the execution of an outage.

    Each step reads the circuit and may be repeated: nothing depends on what an earlier step
    has read. Without a `consumer_pause` no consumer is paused. `clock` gives epoch seconds.
    With `admits_a_rate` the consumers themselves admit the rate of before the trip, step by
    step: then the mapping comes back in one change, if that rate is known.
    Every step raises CircuitsUnavailable, MappingUnavailable and MappingBusy, which the state
    machine retries; no step receives a letter.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        policy: CircuitPolicy,
        circuits: Circuits,
        consumer_pause: ConsumerPause | None,
        announcer: CircuitAnnouncer,
        clock: Callable[[], float],
        admits_a_rate: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._policy = policy
        self._circuits = circuits
        self._consumer_pause = consumer_pause
        self._announcer = announcer
        self._clock = clock
        self._admits_a_rate = admits_a_rate

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
        execution = self._announcer.announce(execution, circuit)
        if circuit.is_closed:
            return execution.step_to(Next.RESUME, circuit)
        # A person has let it go: a canary comes first, and its failure is an outage to pause in.
        is_let_go = circuit.by_hand and not circuit.is_forced(self._clock())
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
        execution = self._announcer.announce(execution, circuit)
        consumer_pause = self._consumer_pause_for(circuit)
        if consumer_pause is None or circuit.paused is None:
            return execution.step_to(Next.CLOSED, circuit)
        now = self._clock()
        at_once = self._admits_a_rate and circuit.rate > 0
        step = RAMP_STEPS if at_once else circuit.ramp_step(self._policy, now)
        circuit = consumer_pause.resume(circuit, step)
        if step == RAMP_STEPS:
            return execution.step_to(Next.CLOSED, circuit)
        ends = circuit.closed_at + self._policy.ramp * step / RAMP_STEPS
        return execution.step_to(Next.RESUME, circuit, ends - now)

    def _to_probe(self, execution: Execution, circuit: Circuit, to: Next) -> ExecutionStep:
        return execution.step_to(to, circuit, seconds_to_probe(circuit, self._clock()))

    def _read(self, execution: Execution) -> Circuit:
        return self._circuits.read([execution.key])[execution.key]

    def _pause_for(self, circuit: Circuit) -> ConsumerPause | None:
        """The pause, if the settings ask for one; what is paused is resumed in any case."""
        return self._consumer_pause_for(circuit) if self._policy.pause_consumer else None

    def _consumer_pause_for(self, circuit: Circuit) -> ConsumerPause | None:
        """The pause for the pipeline's own circuit; None for a single key's.

        The consumer serves all keys, so a dead endpoint must not pause it.
        """
        return self._consumer_pause if circuit.key == self._pipeline else None
