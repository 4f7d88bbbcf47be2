"""What one batch knows of its circuits: which letters they refuse, and what it reports to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from deadletter.circuit.state import (
    Circuit,
    Circuits,
    CircuitsUnavailable,
    OutcomeCounts,
    Outcomes,
)
from deadletter.failure.fate import Evidence
from deadletter.processing import visibility
from deadletter.processing.delivery import Delivery, receive_of
from deadletter.processing.result import Trouble, Troubles
from deadletter.settings.pipeline import Pipeline


@dataclass(slots=True, kw_only=True)
class CircuitGate:
    """The circuits of one batch. With `canary` it neither refuses nor reports: the probe judges.

    A circuit that could not be read refuses nothing: the handler finds out.
    """

    pipeline: Pipeline
    circuits: Circuits
    outcomes: Outcomes
    troubles: Troubles
    clock: Callable[[], float]
    random: Random
    canary: bool
    _keys: set[str] = field(default_factory=set)
    # None before the first read; empty if they could not be read.
    _known: Mapping[str, Circuit] | None = None
    _counts: dict[str, OutcomeCounts] = field(default_factory=dict)

    def expect(self, deliveries: Iterable[Delivery]) -> None:
        """Name the letters of the batch, so that their circuits are read in one request."""
        for delivery in deliveries:
            self._keys.update(self.keys(delivery))

    def keys(self, delivery: Delivery) -> list[str]:
        """The keys of the circuits that a letter depends on, its own circuit last."""
        own = delivery.document.circuit_key
        name = self.pipeline.name
        return [name] if own in (None, name) else [name, str(own)]

    def wait(self, delivery: Delivery) -> float | None:
        """Seconds that a refused letter waits for its circuits; None if it may be processed."""
        if self.canary or not self.pipeline.refuse_when_open:
            return None
        now, canary = self.clock(), delivery.stamp.canary
        refusing = [
            circuit
            for circuit in self._circuits_of(delivery)
            if not circuit.is_closed and not circuit.admits_canary(canary, now)
        ]
        if not refusing:
            return None
        otherwise = self.pipeline.retry.delay(receive_of(delivery.record), self.random)
        if any(circuit.held_since is not None for circuit in refusing):
            # The person may end the override at any time, and no queue tells a hidden message.
            return self.pipeline.circuit.cooldown_cap
        open_until = max(circuit.open_until for circuit in refusing)
        return visibility.until(open_until, now, otherwise)

    def is_down(self, delivery: Delivery) -> bool:
        """Whether a circuit was not closed, or unknown: then the letter is not blamed."""
        circuits = self._circuits_of(delivery)
        return not circuits or not all(circuit.is_closed for circuit in circuits)

    def count(self, delivery: Delivery, evidence: Evidence) -> None:
        """Count what a letter's fate shows about the dependency of its own circuit."""
        if self.canary or evidence is Evidence.NEUTRAL:
            return
        key = self.keys(delivery)[-1]
        is_good = evidence is Evidence.SUCCESS
        counted = OutcomeCounts(good=int(is_good), bad=int(not is_good))
        self._counts[key] = self._counts.get(key, OutcomeCounts()) + counted

    def report(self) -> None:
        """Report what was counted since the last report."""
        counts, self._counts = self._counts, {}
        for key, outcomes in counts.items():
            with self.troubles.noticing(CircuitsUnavailable, Trouble.CIRCUITS):
                self.outcomes.report(key, outcomes)

    def _circuits_of(self, delivery: Delivery) -> list[Circuit]:
        if self._known is None:
            self._known = {}
            self._keys.update(self.keys(delivery))
            message_id = delivery.letter.message_id
            with self.troubles.noticing(CircuitsUnavailable, Trouble.CIRCUITS, message_id):
                self._known = self.circuits.read(sorted(self._keys))
        return [self._known[key] for key in self.keys(delivery) if key in self._known]
