"""Puts the function `dispatch` together: the webhook dispatcher in a consumer."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.aws.clients import Clients, ConsumerClients, consumer_clients, secretsmanager
from deadletter.aws.endpoints import DynamoDBEndpoints
from deadletter.aws.secrets import SecretsManagerSecrets
from deadletter.aws.wiring.consume import consumer_for
from deadletter.aws.wiring.world import World
from deadletter.processing.batch import Consumer
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.settings.webhook import Webhook
from deadletter.webhook.connections import KeptConnections
from deadletter.webhook.dispatcher import Dispatcher
from deadletter.webhook.http import HttpsClient

__all__ = ["consumer_clients", "dispatcher_for", "webhook_consumer_for"]


def webhook_consumer_for(
    pipeline: Pipeline,
    resources: Resources,
    webhook: Webhook,
    clients: ConsumerClients,
    world: World,
    count_metric: Callable[[str, int], None],
) -> Consumer:
    """The consumer whose handler is the webhook dispatcher."""
    dispatcher = dispatcher_for(pipeline, resources, webhook, clients, world)
    return consumer_for(
        pipeline, resources, clients, world, handle=dispatcher.deliver, count_metric=count_metric
    )


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
