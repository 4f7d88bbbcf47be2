"""Circuits that change their state, as events on EventBridge."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.aws.events import EventBus
from deadletter.circuit.state import Circuit
from deadletter.contract import EventType
from deadletter.outage.execution_step import CircuitEvents
from deadletter.signals.figures import Count


class EventBridgeCircuitEvents(CircuitEvents):
    """Announces the states of a pipeline's circuits on EventBridge; never raises.

    `count_metric` counts a metric by its name: an event that was not accepted is counted.
    """

    def __init__(
        self, bus: EventBus, pipeline: str, count_metric: Callable[[str, int], None]
    ) -> None:
        self._bus = bus
        self._pipeline = pipeline
        self._count_metric = count_metric

    def announce(self, circuit: Circuit, before: str) -> None:
        detail = {
            "key": circuit.key,
            "state": str(circuit.state),
            **({"before": before} if before else {}),
            "generation": circuit.generation,
            "restart": circuit.restart,
            "trips": circuit.trips,
            "opened_at": circuit.opened_at,
            "open_until": circuit.open_until,
            **({"forced_by": circuit.forced.by} if circuit.forced else {}),
        }
        refused = self._bus.put(EventType.CIRCUIT_STATE_CHANGED, self._pipeline, detail)
        if refused is not None:
            self._count_metric(Count.CIRCUIT_UNANNOUNCED, 1)
