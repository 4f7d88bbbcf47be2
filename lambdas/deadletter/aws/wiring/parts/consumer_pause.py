"""Puts the pause of a pipeline's consumer together."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.clients import Clients, OutageClients, WatchClients
from deadletter.aws.event_source import LambdaMappings
from deadletter.aws.wiring.world import World
from deadletter.outage.event_source import ConsumerPause
from deadletter.settings.resources import Resources


def consumer_pause_for(
    resources: Resources,
    clients: Clients | OutageClients | WatchClients,
    breaker: DynamoDBBreaker,
    world: World,
    count_metric: Callable[[str, int], None],
) -> ConsumerPause | None:
    """Pauses the consumer by its event source mapping. None if we may change no mapping."""
    if not resources.consumer_mapping and not resources.consumer_function:
        return None
    mappings = LambdaMappings(
        clients.functions,
        function=resources.consumer_function,
        queue_arn=resources.main_arn,
        mapping_id=resources.consumer_mapping,
    )
    return ConsumerPause(
        breaker=breaker,
        circuits=breaker,
        mappings=mappings,
        clock=world.clock,
        count_metric=count_metric,
    )
