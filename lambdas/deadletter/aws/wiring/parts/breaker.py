"""Puts the circuit breaker of a pipeline together."""

from __future__ import annotations

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.clients import Clients, ConsumerClients, OutageClients, WatchClients
from deadletter.aws.wiring.world import World
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources


def breaker_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients | OutageClients | ConsumerClients | WatchClients,
    world: World,
) -> DynamoDBBreaker:
    """The circuits of a pipeline, to read and change."""
    return DynamoDBBreaker(
        client=clients.dynamodb,
        table=resources.circuits_table,
        pipeline=pipeline.name,
        policy=pipeline.circuit,
        clock=world.clock,
        random=world.random,
        new_id=world.new_id,
    )
