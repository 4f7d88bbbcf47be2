"""One outage of a dependency, run by one execution of the state machine `circuit_breaker`."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from deadletter.circuit.state import Circuit

START_SECONDS = 60.0
"""Seconds that a new execution has until it must be seen: its start may be on its way, and
Step Functions lists what runs with a delay."""


class ExecutionsUnavailable(Exception):
    """Executions could not be started or listed. The sweep of the next run tries again."""


class OutageExecutions(Protocol):
    """Who runs the outages of a pipeline; raises OutagesUnavailable."""

    def start(self, key: str, generation: int, restart: int) -> None:
        """Start the execution of this outage; one that has been started already is fine.

        `generation` is the circuit's `outage`, the generation that the trip began.
        """

    def running(self) -> Container[str]:
        """The names of the executions that run now."""


def execution_name(pipeline: str, key: str, generation: int, restart: int) -> str:
    """The name of an outage's execution: the same for everybody who saw the same trip.

    Step Functions keeps a name taken for 90 days, also after a failure, and takes 80
    characters of few kinds.
    """
    whose = sha256(json.dumps([pipeline, key]).encode()).hexdigest()[:40]
    return f"{whose}-{generation}-{restart}"


def is_run_by(circuit: Circuit, generation: int, restart: int) -> bool:
    """Whether the execution of that outage is the one that runs this circuit now."""
    return (circuit.outage, circuit.restart) == (generation, restart)


@dataclass(frozen=True, slots=True)
class Repairs:
    """What outages left lying about: executions to start again, mappings to put back."""

    start: tuple[Circuit, ...] = ()
    put_back: tuple[Circuit, ...] = ()


def repairs_for(
    pipeline: str, circuits: Iterable[Circuit], running: Container[str], now: float
) -> Repairs:
    """What a redrive run has to see to, given the troubled circuits of its pipeline.

    A circuit to start again gets `ExecutionLost` first, and only if that is not refused
    the execution that its new restart number names. A mapping is put back first, and
    then the circuit gets `MappingPutBack`.
    """
    alone = [one for one in circuits if not _is_run(pipeline, one, running, now)]
    return Repairs(
        start=tuple(one for one in alone if not one.is_closed and not one.unreadable),
        put_back=tuple(one for one in alone if one.is_closed and one.paused is not None),
    )


def _is_run(pipeline: str, circuit: Circuit, running: Container[str], now: float) -> bool:
    name = execution_name(pipeline, circuit.key, circuit.outage, circuit.restart)
    return name in running or now - circuit.started < START_SECONDS
