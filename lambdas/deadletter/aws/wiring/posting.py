"""Puts the webhook dispatcher together: the consumer library whose handler posts messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from deadletter.aws.clients import secretsmanager
from deadletter.aws.endpoints import DynamoDBEndpoints, SecretsManagerSecrets
from deadletter.aws.wiring.consuming import consumer_clients as consumer_clients
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.processing.crew import Threads
from deadletter.webhook.connections import KeptConnections
from deadletter.webhook.dispatcher import POSTS_AT_ONCE, Dispatcher, lane_of
from deadletter.webhook.http import HttpsClient

if TYPE_CHECKING:
    from deadletter.aws.consumer_clients import ConsumerClients
    from deadletter.aws.wiring.world import World
    from deadletter.processing.result import BatchResult
    from deadletter.settings.pipeline import Pipeline
    from deadletter.settings.resources import Resources
    from deadletter.settings.webhook import Webhook


def webhook_batch_for(
    pipeline: Pipeline,
    resources: Resources,
    webhook: Webhook,
    clients: ConsumerClients,
    world: World,
    count_metric: Callable[[str, int], None],
) -> partial[BatchResult]:
    """`Consumer.process` with the webhook dispatcher, several endpoints at the same time."""
    clock = world.clock
    dispatcher = Dispatcher(
        webhook=webhook,
        registry=DynamoDBEndpoints(clients.dynamodb, resources.endpoints_table, clock),
        secrets=SecretsManagerSecrets(secretsmanager, webhook.secret_prefix, clock),
        post=HttpsClient(webhook.timeout, clock, kept=KeptConnections(clock)),
        body=pipeline.body,
        clock=clock,
    )
    consumer = consumer_for(
        pipeline,
        resources,
        clients,
        world,
        handle=dispatcher.deliver,
        count_metric=count_metric,
        crew=Threads(clock),
    )
    return partial(consumer.process, concurrency=POSTS_AT_ONCE, lane=lane_of)
