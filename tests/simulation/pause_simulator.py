"""One outage of a consumer whose mapping we pause, interrupted at any call.

The steps of the execution and the sweep are the production code on a strict Lambda. Each call to
Lambda or to the circuits may be the last of its process, before or after its effect. The row of
the circuit may be deleted, and a person may disable or enable the mapping.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from deadletter.aws.event_source import LambdaMappings
from deadletter.circuit.state import RAMP_STEPS, Circuit, CircuitPolicy
from deadletter.circuit.transitions import CanaryAnswered, CanaryVerdict, PermitTaken, Tripped
from deadletter.outage.executions import execution_name
from deadletter.outage.mapping import (
    PAUSE_TAG,
    SETTLING_SECONDS,
    ConsumerPause,
    MappingBusy,
    MappingUnavailable,
)
from deadletter.outage.reconciler import Reconciler
from deadletter.testing.fakes import MemoryMappings
from tests.outage.breakers import KEY, Circuits
from tests.simulation.effects import Broken

OWN = {"MaximumConcurrency": 50}
MINUTE = 60.0
OUTAGE = 40 * MINUTE
CHANGING = 25.0
"""Seconds that Lambda takes to change a mapping."""


class Died(Exception):
    """The process of a step has ended."""


class Faulty:
    """Passes calls on; any of them may be the last of its process."""

    def __init__(self, inner: Any, strike: Callable[[str], None]) -> None:
        self._inner = inner
        self._strike = strike

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)

        def struck(*arguments: Any, **options: Any) -> Any:
            self._strike(f"before {name}")
            answer = call(*arguments, **options)
            self._strike(f"after {name}")
            return answer

        return struck


class PauseSimulation:
    """One seed is one story; `run` raises Broken."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.circuits = Circuits(CircuitPolicy(successes=1, ramp=5 * MINUTE))
        self.lambda_ = MemoryMappings(self._clock, change_seconds=CHANGING)
        made = self.lambda_.create_event_source_mapping(
            FunctionName="consumer", EventSourceArn="arn:main", ScalingConfig=OWN
        )
        self._id, self._arn = made["UUID"], made["EventSourceMappingArn"]
        self._fault_rate = self._random.choice((0.0, 0.1, 0.2))
        self._faults = 0
        self._deletes_row = self._random.random() < 0.4
        self._acts = self._random.random() < 0.4
        self._persons: str = ""
        self._executions = True
        self._executing = ""
        circuits: Any = Faulty(self.circuits, self._strike)
        client: Any = Faulty(self.lambda_, self._strike)
        self._pause = ConsumerPause(
            breaker=circuits,
            circuits=circuits,
            mappings=LambdaMappings(client, function="consumer", queue_arn="arn:main"),
            clock=self._clock,
            count_metric=lambda *_: None,
        )
        # What lists circuits and executions is not interrupted: the sweep that dies there does
        # nothing at all.
        self._sweeps = Reconciler(
            pipeline=KEY,
            breaker=self.circuits,
            outages=self,
            consumer_pause=self._pause,
            clock=self._clock,
            count_metric=lambda *_: None,
        )

    def _clock(self) -> float:
        return self.circuits.now

    def _strike(self, _call: str) -> None:
        self._check_always()
        if self._random.random() < self._fault_rate and self._faults < 12:
            self._faults += 1
            raise Died

    # Executions, as the reconciler sees them: one runs until the circuit has closed.

    def start(self, key: str, generation: int, restart: int) -> None:
        self._executing = execution_name(KEY, key, generation, restart)

    def running(self) -> set[str]:
        return {self._executing}

    def run(self) -> None:
        opened = self.circuits.apply(KEY, Tripped()).circuit
        self.start(KEY, opened.outage, opened.restart)
        ends = self._clock() + OUTAGE
        self._until_done(lambda: self._pause.pause(self._circuit()))
        while self._clock() < ends:
            self._pass_a_minute()
            self._check_open()
        self._close()
        while self._clock() < ends + 6 * MINUTE:
            self._resume()
            self._pass_a_minute()
        self._executing = ""
        self._fault_rate = 0.0
        self._acts = self._deletes_row = False
        for _ in range(20):
            self._pass_a_minute()
        self._check_end()

    def _circuit(self) -> Circuit:
        return self.circuits.held.get(KEY, Circuit(KEY))

    def _close(self) -> None:
        if self._circuit().is_closed:
            return
        self.circuits.now = max(self.circuits.now, self._circuit().open_until)
        half_open = self.circuits.apply(KEY, PermitTaken("me")).circuit
        answer = CanaryAnswered(half_open.generation, "me", CanaryVerdict.SUCCESS)
        self.circuits.apply(KEY, answer)

    def _resume(self) -> None:
        circuit = self._circuit()
        if circuit.is_closed and circuit.paused is not None:
            step = circuit.ramp_step(self.circuits.policy, self._clock()) or RAMP_STEPS
            self._once(lambda: self._pause.resume(self._circuit(), step))

    def _once(self, step: Callable[[], object]) -> bool:
        try:
            step()
        except (Died, MappingBusy, MappingUnavailable):
            return False
        return True

    def _until_done(self, step: Callable[[], object]) -> None:
        """As the state machine repeats it, and as long; then the outage goes on unpaused."""
        for _ in range(6):
            if self._once(step):
                return
            self.circuits.now += 20

    def _pass_a_minute(self) -> None:
        self.circuits.now += MINUTE
        if self._acts and self._random.random() < 0.1:
            self._act()
        if self._deletes_row and self._random.random() < 0.1:
            self.circuits.held.pop(KEY, None)
            self._deletes_row = False
        self._once(self._sweeps.reconcile)

    def _act(self) -> None:
        """A person enables or disables the mapping, if its last change is not a recent one.

        Within ten minutes of our own change, a person's cannot be told from it.
        """
        quiet = self._clock() - self._described["LastModified"].timestamp()
        if self._is_busy or quiet <= SETTLING_SECONDS + MINUTE:
            return
        on = self._state == "Disabled"
        self._persons = "on" if on else "off"
        self.lambda_.update_event_source_mapping(UUID=self._id, Enabled=on)

    @property
    def _described(self) -> dict[str, Any]:
        return self.lambda_.get_event_source_mapping(UUID=self._id)

    @property
    def _state(self) -> str:
        return str(self._described["State"])

    @property
    def _is_busy(self) -> bool:
        return self._state not in ("Enabled", "Disabled")

    @property
    def _is_tagged(self) -> bool:
        return PAUSE_TAG in self.lambda_.list_tags(Resource=self._arn)["Tags"]

    def _check_always(self) -> None:
        ours = self._state in ("Disabling", "Disabled") and not self._persons
        if ours and not self._is_tagged:
            raise Broken("we disabled the mapping, and no tag says so")

    def _check_open(self) -> None:
        circuit = self._circuit()
        paused = circuit.paused is not None and not circuit.is_closed
        if paused and not self._persons and self._state in ("Enabled", "Enabling"):
            self._until_done(lambda: self._pause.pause(self._circuit()))
            if self._is_tagged and self._state in ("Enabled", "Enabling") and not self._faults:
                raise Broken("the mapping is enabled while its circuit is open")

    def _check_end(self) -> None:
        state, limits = self._state, self._described["ScalingConfig"]
        if self._persons == "off":
            if state != "Disabled":
                raise Broken("a person has disabled the mapping, and it is enabled")
            return
        if state != "Enabled":
            raise Broken("the consumer is off for ever")
        if limits != OWN:
            raise Broken(f"the mapping is left with {limits}")
        if self._circuit().paused is not None:
            raise Broken("the row still says that the mapping is paused")
        if self._is_tagged:
            self._check_tag_does_no_harm()

    def _check_tag_does_no_harm(self) -> None:
        """A tag may outlive the row if a person enabled the mapping; it enables nothing later."""
        if self._persons != "on":
            raise Broken("the tag still says that the mapping is paused")
        self.lambda_.update_event_source_mapping(UUID=self._id, Enabled=False)
        for _ in range(3):
            self._pass_a_minute()
        if self._state != "Disabled":
            raise Broken("a person has disabled the mapping, and an old tag enabled it")
