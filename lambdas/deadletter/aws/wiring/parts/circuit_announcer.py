"""Puts the announcer of a pipeline's circuits together."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.aws.circuit_events import EventBridgeCircuitEvents
from deadletter.aws.clients import OutageClients
from deadletter.aws.events import EventBus
from deadletter.aws.wiring.world import World
from deadletter.outage.execution_step import CircuitAnnouncer
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources


def circuit_announcer_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: OutageClients,
    world: World,
    count_metric: Callable[[str, int], None],
) -> CircuitAnnouncer:
    """Announces changed circuits on EventBridge and by metrics."""
    bus = EventBus(clients.events, resources.app, world.clock)
    announcer = EventBridgeCircuitEvents(bus, pipeline.name, count_metric)
    return CircuitAnnouncer(pipeline=pipeline.name, announcer=announcer, count_metric=count_metric)
