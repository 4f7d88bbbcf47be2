"""The pause of a pipeline's consumer, where its event source mapping is ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deadletter.aws.clients import (
    Clients,
    OutageClients,
)
from deadletter.aws.event_source import LambdaMappings
from deadletter.circuit.transitions import Breaker
from deadletter.outage.event_source import ConsumerPause
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    pass


def consumer_pause_for(
    resources: Resources,
    clients: Clients | OutageClients,
    breaker: Breaker,
    count_metric: Callable[[str, int], None],
) -> ConsumerPause | None:
    """The consumer's mapping in our hand, where the pipeline has one that we may touch."""
    if not resources.consumer_mapping and not resources.consumer_function:
        return None
    mappings = LambdaMappings(
        clients.functions,
        function=resources.consumer_function,
        queue_arn=resources.main_arn,
        mapping_id=resources.consumer_mapping,
    )
    return ConsumerPause(breaker=breaker, mappings=mappings, count_metric=count_metric)
