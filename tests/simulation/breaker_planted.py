"""Bugs of well-known breakers, planted on purpose: the simulator must catch each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deadletter.aws import breaker
from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import Conflict
from deadletter.aws.table import present
from deadletter.circuit import transitions
from deadletter.circuit.state import Permit, State
from deadletter.circuit.transitions import Refusal
from deadletter.outage.executions import Repairs
from tests.simulation import breaker_simulator
from tests.simulation.planting import Bugs, replaced

BUGS = Bugs()
bug = BUGS.plant


@bug("half open admits whoever comes")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def taken(circuit: Any, event: Any, policy: Any, now: float) -> Any:
            return original(replace(circuit, permit=None), event, policy, now)

        return taken

    with replaced(transitions, "_permit_taken", make):
        yield


@bug("a permit has no lease")
def _() -> Iterator[None]:
    with patch.object(transitions, "_lease_is_over", lambda permit, now: False):
        yield


@bug("a result is not held against its generation and owner")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def answered(circuit: Any, event: Any, policy: Any, now: float, random: Any) -> Any:
            if circuit.state is not State.HALF_OPEN:
                return Refusal.STALE
            owner = Permit(event.owner, now)
            fits = replace(event, generation=circuit.generation)
            return original(replace(circuit, permit=owner), fits, policy, now, random)

        return answered

    with replaced(transitions, "_answered", make):
        yield


@bug("a result is not held against its owner")
def _() -> Iterator[None]:
    """And the generation does not grow when a permit is taken."""

    def make(original: Any) -> Any:
        def taken(circuit: Any, event: Any, policy: Any, now: float) -> Any:
            found = original(circuit, event, policy, now)
            return found if isinstance(found, Refusal) else replace(found, generation=1)

        return taken

    with replaced(transitions, "_permit_taken", make):
        yield


@bug("its own write that the SDK tried again is taken for another's")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def change(*change: Any, **options: Any) -> Any:
            try:
                return original(*change, **options)
            except Conflict as conflict:
                # The item that stopped the write, with a token that no write has.
                raise Conflict(conflict.item and {**conflict.item, "token": "another's"}) from None

        return change

    with replaced(DynamoDBTable, "change", make):
        yield


@bug("a write looks at nothing")
def _() -> Iterator[None]:
    with patch.object(breaker, "_is_still", lambda before, after: present("circuit_key")):
        yield


@bug("one success closes")
def _() -> Iterator[None]:
    with patch.object(
        transitions, "_succeeded", lambda circuit, policy, now: _closed(circuit, now)
    ):
        yield


@bug("a restart begins the cooldown anew")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def lost(circuit: Any, event: Any, now: float) -> Any:
            found = original(circuit, event, now)
            if isinstance(found, Refusal):
                return found
            return replace(found, state=State.OPEN, permit=None, open_until=now + found.cooldown)

        return lost

    with replaced(transitions, "_execution_lost", make):
        yield


@bug("a restart closes the circuit")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def lost(circuit: Any, event: Any, now: float) -> Any:
            found = original(circuit, event, now)
            return found if isinstance(found, Refusal) else _closed(found, now)

        return lost

    with replaced(transitions, "_execution_lost", make):
        yield


@bug("nobody waits for the cooldown")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def taken(circuit: Any, event: Any, policy: Any, now: float) -> Any:
            return original(replace(circuit, open_until=0.0), event, policy, now)

        return taken

    with replaced(transitions, "_permit_taken", make):
        yield


@bug("a neutral outcome keeps the permit for ever")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def answered(circuit: Any, event: Any, *rest: Any) -> Any:
            found = original(circuit, event, *rest)
            if isinstance(found, Refusal) or event.verdict is not transitions.CanaryVerdict.NEUTRAL:
                return found
            return replace(found, permit=Permit(event.owner, 1e12))

        return answered

    with replaced(transitions, "_answered", make):
        yield


@bug("the clock is each machine's own")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def init(self: Any, seed: int, **options: Any) -> None:
            original(self, seed, **options, monotonic=True)

        return init

    with replaced(breaker_simulator.BreakerSimulation, "__init__", make):
        yield


@bug("a lost execution is not missed")
def _() -> Iterator[None]:
    with patch.object(breaker_simulator, "repairs_for", lambda *_: Repairs()):
        yield


@bug("a restart keeps the name of the execution")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def lost(circuit: Any, event: Any, now: float) -> Any:
            found = original(circuit, event, now)
            return found if isinstance(found, Refusal) else replace(found, restart=circuit.restart)

        return lost

    with replaced(transitions, "_execution_lost", make):
        yield


@bug("a person's word is left to an execution that sleeps")
def _() -> Iterator[None]:
    with patch.object(transitions, "_taken_over", transitions._readable):
        yield


@bug("a mapping that an execution left paused is put back by nobody")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda *arguments: replace(original(*arguments), put_back=())

    with replaced(breaker_simulator, "repairs_for", make):
        yield


_closed = transitions._closed
