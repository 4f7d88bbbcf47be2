"""Puts the consumer library together, for a team's function or one of ours."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.aws.admission import DynamoDBAdmission
from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.clients import ConsumerClients, brief_stepfunctions, consumer_clients
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.aws.queue import SqsQueue
from deadletter.aws.wiring.parts.breaker import breaker_for
from deadletter.aws.wiring.parts.ledger import ledger_for
from deadletter.aws.wiring.world import World
from deadletter.processing.batch import Consumer, Handle, unhandled
from deadletter.processing.sudden_causes import SuddenCauses
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

__all__ = ["consumer_clients", "consumer_for"]


def consumer_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: ConsumerClients,
    world: World,
    *,
    handle: Handle = unhandled,
    count_metric: Callable[[str, int], None],
    count_now: Callable[[str, int], None] | None = None,
) -> Consumer:
    """The consumer of a pipeline. `count_metric` counts the metrics of its outcomes, by name.

    `count_now` publishes a metric at once; without it `count_metric` does.
    """
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
        admission=DynamoDBAdmission(
            clients.dynamodb, resources.circuits_table, name, pipeline.circuit, world.clock
        ),
        outcomes=DynamoDBOutcomes(
            client=clients.dynamodb,
            table=resources.circuits_table,
            pipeline=name,
            policy=pipeline.circuit,
            breaker=breaker,
            # Without the state machine, the watch starts the outage.
            outages=StepFunctionsExecutions(brief_stepfunctions(), resources.circuit_machine, name)
            if resources.circuit_machine
            else None,
            clock=world.clock,
            count_metric=count_metric,
        ),
        queue=SqsQueue(clients.sqs, resources.main_url, world.clock),
        parking={
            name: SqsQueue(clients.sqs, url, world.clock, sending=clients.sending)
            for name, url in resources.parking.items()
        },
        trusted_senders=frozenset(resources.trusted_senders),
        clock=world.clock,
        random=world.random,
        new_id=world.new_id,
        count_now=count_now or count_metric,
        causes=SuddenCauses(
            DynamoDBCauses(clients.dynamodb, resources.circuits_table, name, world.new_id),
            world.clock,
            count_metric,
        ),
    )
