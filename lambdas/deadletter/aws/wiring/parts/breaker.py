"""The circuit breaker of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.circuits import DynamoDBBreaker
from deadletter.aws.clients import (
    Clients,
    ConsumerClients,
    OutageClients,
)
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    pass
from deadletter.aws.wiring.world import World


def breaker_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients | OutageClients | ConsumerClients,
    world: World,
) -> DynamoDBBreaker:
    return DynamoDBBreaker(
        client=clients.dynamodb,
        table=resources.circuits_table,
        pipeline=pipeline.name,
        policy=pipeline.circuit,
        clock=world.clock,
        random=world.random,
        new_id=world.new_id,
    )
