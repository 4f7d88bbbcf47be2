"""Sees every write to one circuit that took effect, and every canary, by the true time.

The promises: at most one canary is under way; none is sent before the cooldown is over (but
for what clocks differ by); a result of an older generation or another owner changes nothing;
nobody is refused by his own write; it takes as many successes as the policy says to close; a
lost execution changes nothing but its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from deadletter.aws.circuits import circuit_from_item
from deadletter.aws.dynamodb import plain
from deadletter.circuit.state import Circuit, CircuitPolicy, State
from deadletter.circuit.transitions import (
    CanaryAnswered,
    Event,
    ExecutionLost,
    OverrideBegun,
    PermitTaken,
    TransitionResult,
)
from deadletter.testing.fakes import MemoryDynamoDB
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.witness import Broken
from tests.tables import CIRCUITS

MOST_SKEW = 5.0


@dataclass(slots=True)
class Canary:
    """One letter on its way to the dependency and back; `until` is when it gives up."""

    owner: str
    until: float
    well: bool | None = None


class BreakerWitness:
    """Keeps book of one circuit beside the system that is being tested."""

    def __init__(
        self, scheduler: Scheduler, dynamodb: MemoryDynamoDB, policy: CircuitPolicy, key: str
    ) -> None:
        self._scheduler = scheduler
        self._dynamodb = dynamodb
        self._policy = policy
        self._key = key
        self.circuit = Circuit(key)
        self.canaries: dict[str, Canary] = {}
        self.granted: set[str] = set()
        self.fenced = 0
        self.trips = 0
        self._good_answers = 0
        self._events: dict[Process, Event] = {}
        scheduler.after_call = self._after

    def _now(self) -> float:
        return self._scheduler.now

    # What a process wants, and what it was told.

    @contextmanager
    def asked(self, process: Process, event: Event) -> Iterator[None]:
        self._events[process] = event
        try:
            yield
        finally:
            del self._events[process]

    def told(self, process: Process, event: Event, moved: TransitionResult) -> None:
        if not isinstance(event, PermitTaken):
            self.fenced += moved.refused is not None
            return
        permit = self.circuit.permit
        if moved.refused is not None and permit is not None and permit.owner == event.owner:
            raise Broken(f"{process.name} is refused by its own permit: {moved.refused}")

    def sent(self, process: Process, owner: str, seconds: float) -> Canary:
        """A canary leaves for the dependency, which answers within so many seconds."""
        now = self._now()
        under_way = [secret for secret in self.canaries.values() if now < secret.until]
        if under_way:
            raise Broken(f"{process.name} sends a canary beside {under_way[0].owner}'s")
        if owner in self.canaries:
            raise Broken(f"{process.name} sends a second canary on one permit")
        if owner not in self.granted:
            raise Broken(f"{process.name} sends a canary without a permit")
        canary = self.canaries[owner] = Canary(owner, now + seconds)
        return canary

    # What took effect.

    def _after(
        self,
        process: Process,
        service: str,
        name: str,
        options: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        if service != "dynamodb" or name != "update_item":
            return
        [item] = self._dynamodb.items(CIRCUITS)
        before, after = self.circuit, circuit_from_item(plain(item))
        self.circuit = after
        if after.unreadable:
            raise Broken(f"{process.name} wrote what nobody can read")
        event = self._events.get(process)
        if "When" not in options:
            if _facts(before) != _facts(after):
                raise Broken(f"{process.name} changes more than outcomes")
            return
        self._changed(process, event, before, after)

    def _changed(
        self, process: Process, event: Event | None, before: Circuit, after: Circuit
    ) -> None:
        if after.generation < before.generation:
            raise Broken(f"{process.name} turns the generation back")
        if isinstance(event, ExecutionLost):
            if _facts(before) != _facts(after):
                raise Broken(f"{process.name} restarts an execution and changes the circuit")
            return
        if isinstance(event, CanaryAnswered):
            permit = before.permit
            known = (before.generation, permit.owner if permit else None)
            if known != (event.generation, event.owner):
                raise Broken(f"{process.name} applies a result of {event.generation} to {known[0]}")
        if before.state is not after.state and after.generation == before.generation:
            raise Broken(f"{process.name} changes the state within one generation")
        if after.permit is not None and after.permit != before.permit:
            self._grant(process, before, after.permit.owner)
        if after.state is State.OPEN and before.state is not State.OPEN:
            self._good_answers = 0
            self.trips += before.state is State.CLOSED
        if after.state is State.CLOSED and before.state is not State.CLOSED:
            self._closes(process, event)

    def _grant(self, process: Process, before: Circuit, owner: str) -> None:
        early = before.open_until - self._now()
        if before.state is State.OPEN and early > MOST_SKEW:
            raise Broken(f"{process.name} is admitted {early:.1f} s before the cooldown is over")
        if before.state is State.CLOSED:
            raise Broken(f"{process.name} probes a closed circuit")
        if before.permit is not None:
            raise Broken(f"{process.name} takes the permit of {before.permit.owner}")
        self.granted.add(owner)

    def answered(self, canary: Canary, well: bool | None) -> None:
        """A canary came back; `well` is None if it says nothing of the dependency."""
        canary.until, canary.well = self._now(), well
        if well is not None:
            self._good_answers = self._good_answers + 1 if well else 0

    def _closes(self, process: Process, event: Event | None) -> None:
        if isinstance(event, OverrideBegun):
            return
        if self._good_answers < self._policy.successes:
            raise Broken(f"{process.name} closes after {self._good_answers} good answers")


def _facts(circuit: Circuit) -> tuple[Any, ...]:
    """What neither outcomes nor a restart may change."""
    return (
        circuit.state,
        circuit.generation,
        circuit.outage,
        circuit.open_until,
        circuit.cooldown,
        circuit.opened_at,
        circuit.closed_at,
        circuit.trips,
        circuit.permit,
        circuit.successes,
        circuit.forced,
        circuit.paused,
    )
