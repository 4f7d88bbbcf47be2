"""The consumer library, in a function of a team or of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.clients import ConsumerClients, brief_stepfunctions, consumer_clients
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.aws.queue import SqsQueue
from deadletter.processing.batch import Consumer, Handle, unhandled
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    pass
from deadletter.aws.wiring.parts.breaker import breaker_for
from deadletter.aws.wiring.parts.ledger import ledger_for
from deadletter.aws.wiring.world import World

__all__ = ["consumer_clients", "consumer_for"]


def consumer_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: ConsumerClients,
    world: World,
    *,
    handle: Handle = unhandled,
    count_metric: Callable[[str, int], None],
) -> Consumer:
    """The consumer of a pipeline; `count_metric` counts what becomes of its outcomes, by figure."""
    name = pipeline.name
    breaker = breaker_for(pipeline, resources, clients, world)
    return Consumer(
        pipeline=pipeline,
        handle=handle,
        log=ledger_for(pipeline, resources, clients, world),
        claims=DynamoDBClaims(
            clients.dynamodb, resources.letters_table, name, world.clock, pipeline.idempotency_keep
        ),
        circuits=breaker,
        outcomes=DynamoDBOutcomes(
            client=clients.dynamodb,
            table=resources.circuits_table,
            pipeline=name,
            policy=pipeline.circuit,
            breaker=breaker,
            # Where it may not start outages, the sweep of the next redrive run does.
            outages=StepFunctionsExecutions(brief_stepfunctions(), resources.circuit_machine, name)
            if resources.circuit_machine
            else None,
            clock=world.clock,
            count_metric=count_metric,
        ),
        queue=SqsQueue(clients.sqs, resources.main_url, world.clock),
        parking={
            one: SqsQueue(clients.sqs, url, world.clock) for one, url in resources.parking.items()
        },
        trusted_senders=frozenset(resources.trusted_senders),
        clock=world.clock,
        random=world.random,
        new_id=world.new_id,
    )
