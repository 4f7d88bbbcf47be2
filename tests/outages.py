"""A pipeline whose circuit trips: the base of every harness that plays an outage."""

from __future__ import annotations

from abc import ABC, abstractmethod

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.clients import Clients
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import Circuit
from deadletter.circuit.transitions import Event, TransitionResult, Tripped
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources


class OutageHarness(ABC):
    """The circuits of one pipeline; `key` is the circuit that a test is about.

    `wiring` returns what every function of the pipeline is wired from.
    """

    key: str = "orders"

    @abstractmethod
    def wiring(self) -> tuple[Pipeline, Resources, Clients, World]: ...

    @property
    def breaker(self) -> DynamoDBBreaker:
        return Stores(*self.wiring()).breaker

    def apply(self, event: Event, key: str | None = None) -> TransitionResult:
        """Have an event happen to a circuit."""
        return self.breaker.apply(key or self.key, event)

    def circuit(self, key: str | None = None) -> Circuit:
        """The circuit as it is stored."""
        key = key or self.key
        return self.breaker.read([key])[key]

    def trip(self, key: str | None = None) -> Circuit:
        """Open a circuit, as too many failures do."""
        return self.apply(Tripped(), key).circuit
