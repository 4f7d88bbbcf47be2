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
    from deadletter.aws.clients import Clients, ConsumerClients
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
    dispatcher = dispatcher_for(pipeline, resources, webhook, clients, world)
    consumer = consumer_for(
        pipeline,
        resources,
        clients,
        world,
        handle=dispatcher.deliver,
        count_metric=count_metric,
        crew=Threads(world.clock),
    )
    return partial(consumer.process, concurrency=POSTS_AT_ONCE, lane=lane_of)


def dispatcher_for(
    pipeline: Pipeline,
    resources: Resources,
    webhook: Webhook,
    clients: Clients | ConsumerClients,
    world: World,
) -> Dispatcher:
    """The webhook dispatcher: sends a pipeline's messages to the registered endpoints."""
    return Dispatcher(
        webhook=webhook,
        registry=DynamoDBEndpoints(clients.dynamodb, resources.endpoints_table, world.clock),
        secrets=SecretsManagerSecrets(secretsmanager, webhook.secret_prefix, world.clock),
        post=HttpsClient(webhook.timeout, world.clock, kept=KeptConnections(world.clock)),
        body=pipeline.body,
        clock=world.clock,
    )
