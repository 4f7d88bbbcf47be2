"""Executions of the state machine `circuit_breaker`: each runs one outage of a dependency."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from deadletter.circuit.state import Circuit

START_SECONDS = 60.0
"""How long a new execution may be missing from the list: its start may be under way, and
Step Functions lists running executions with a delay."""


class ExecutionsUnavailable(Exception):
    """Executions could not be started or listed. The next sweep tries again."""


class OutageExecutions(Protocol):
    """Starts and lists the executions of a pipeline; raises ExecutionsUnavailable."""

    def start(self, key: str, generation: int, restart: int) -> None:
        """Start the execution of this outage, unless it was started before.

        `generation` is the circuit's `outage`: the generation that began with the trip.
        """

    def running(self) -> Container[str]:
        """The names of the running executions."""


def execution_name(pipeline: str, key: str, generation: int, restart: int) -> str:
    """The name of an outage's execution; every process that sees the trip computes the same.

    Step Functions reserves a name for 90 days, also after a failure, and allows 80
    characters of few kinds.
    """
    digest = sha256(json.dumps([pipeline, key]).encode()).hexdigest()[:40]
    return f"{digest}-{generation}-{restart}"


def is_run_by(circuit: Circuit, generation: int, restart: int) -> bool:
    """Whether the execution of that outage is the circuit's current one."""
    return (circuit.outage, circuit.restart) == (generation, restart)


@dataclass(frozen=True, slots=True)
class Repairs:
    """What has to be repaired after outages: executions to restart, mappings to put back."""

    start: tuple[Circuit, ...] = ()
    put_back: tuple[Circuit, ...] = ()


def repairs_for(
    pipeline: str, circuits: Iterable[Circuit], running: Container[str], now: float
) -> Repairs:
    """What a sweep has to repair, by the troubled circuits of its pipeline.

    To restart an execution, apply `ExecutionLost` to the circuit; only if that is not refused,
    start the execution with the new restart number. To put a mapping back, enable it first,
    then apply `MappingPutBack` to the circuit.
    """
    lost = [circuit for circuit in circuits if not _is_run(pipeline, circuit, running, now)]
    start = tuple(each for each in lost if not each.is_closed and not each.unreadable)
    put_back = tuple(each for each in lost if each.is_closed and each.paused is not None)
    return Repairs(start, put_back)


def _is_run(pipeline: str, circuit: Circuit, running: Container[str], now: float) -> bool:
    name = execution_name(pipeline, circuit.key, circuit.outage, circuit.restart)
    return name in running or now - circuit.started < START_SECONDS
