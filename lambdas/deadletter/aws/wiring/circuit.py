"""Puts the function `circuit` together: the steps of an outage, except for the canary."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.aws.clients import OutageClients, outage_clients
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World
from deadletter.outage.consumer_steps import ConsumerSteps
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

__all__ = ["consumer_steps_for", "outage_clients"]


def consumer_steps_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: OutageClients,
    world: World,
    count_metric: Callable[[str, int], None],
) -> ConsumerSteps:
    """The steps of a pipeline's outages, except for the canary."""
    stores = Stores(pipeline, resources, clients, world, count_metric=count_metric)
    return ConsumerSteps(
        pipeline=pipeline.name,
        policy=pipeline.circuit,
        circuits=stores.breaker,
        consumer_pause=stores.consumer_pause,
        announcer=stores.circuit_announcer(clients.events),
        clock=world.clock,
        admits_a_rate=pipeline.consumer_library,
    )
