"""Circuits in a dictionary, changed by the real transitions, for the steps of an outage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from deadletter.circuit.state import Circuit, CircuitPolicy, CircuitsUnavailable
from deadletter.circuit.transitions import Event, Refusal, TransitionResult, transition

NOW = 1_800_000_000.0
KEY = "orders"


@dataclass
class Circuits:
    """One pipeline's circuits; the next `down` calls get no answer."""

    policy: CircuitPolicy = field(default_factory=lambda: CircuitPolicy(pause_consumer=True))
    now: float = NOW
    down: int = 0
    held: dict[str, Circuit] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    metrics: Counter[str] = field(default_factory=Counter)

    def clock(self) -> float:
        return self.now

    def count_metric(self, name: str, number: int) -> None:
        self.metrics[name] += number

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        self._answers()
        return {key: self.held.get(key, Circuit(key)) for key in keys}

    def apply(self, key: str, event: Event) -> TransitionResult:
        self._answers()
        self.events.append(event)
        circuit = self.held.get(key, Circuit(key))
        outcome = transition(circuit, event, self.policy, self.now, Random(1))
        if isinstance(outcome, Refusal):
            return TransitionResult(circuit, outcome)
        self.held[key] = outcome
        return TransitionResult(outcome)

    def troubled(self) -> Sequence[Circuit]:
        self._answers()
        return [
            circuit
            for circuit in self.held.values()
            if not circuit.is_closed or circuit.forced is not None or circuit.paused is not None
        ]

    def _answers(self) -> None:
        if self.down:
            self.down -= 1
            raise CircuitsUnavailable("down")


@dataclass
class Announcements:
    """The circuit events that were published: the state before, and the state."""

    published: list[tuple[str, str]] = field(default_factory=list)

    def announce(self, circuit: Circuit, before: str) -> None:
        self.published.append((before, str(circuit.state)))
