"""Puts the consumer library together, for a team's function or one of ours.

What only failures, parked messages and outages need is loaded here: a function whose settings
switch the library off does without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.consumer_clients import (
    ConsumerClients,
    brief_stepfunctions,
    consumer_clients,
)
from deadletter.aws.wiring.world import World
from deadletter.contract import NOTHING
from deadletter.processing.batch import Consumer, Handle, unhandled
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count

if TYPE_CHECKING:
    from deadletter.aws.executions import StepFunctionsExecutions
    from deadletter.processing.crew import Crew

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
    crew: Crew | None = None,
) -> Consumer:
    """The consumer of a pipeline. `count_metric` counts the metrics of its outcomes, by name.

    `count_now` publishes a metric at once; without it `count_metric` does. Without a `crew` one
    message follows the other.
    """
    # What only failures, parked messages and outages need.
    from deadletter.aws.causes import DynamoDBCauses
    from deadletter.aws.collisions import DynamoDBCollisions
    from deadletter.aws.outcomes import DynamoDBOutcomes
    from deadletter.aws.queue import SqsQueue
    from deadletter.aws.wiring.parts.breaker import breaker_for
    from deadletter.aws.wiring.parts.ledger import ledger_for
    from deadletter.processing.collisions import Collisions
    from deadletter.processing.last_receive import LastReceive
    from deadletter.processing.sudden_causes import SuddenCauses

    name, clock, dynamodb = pipeline.name, world.clock, clients.dynamodb
    main_queue = SqsQueue(clients.sqs, resources.main_url, clock)
    causes = DynamoDBCauses(dynamodb, resources.circuits_table, name, world.new_id)
    collisions = DynamoDBCollisions(dynamodb, resources.circuits_table, name)

    def bad_claim(key: str) -> None:
        """A claim could not be read: count it, and leave its name where `dlq status` looks."""
        count_metric(Count.BAD_ROW, 1)
        collisions.note_bad_claim(key, clock())

    can_collide = pipeline.idempotency_key is not None and pipeline.idempotency_payload != NOTHING
    return Consumer(
        pipeline=pipeline,
        handle=handle,
        log=ledger_for(pipeline, resources, clients, world),
        claims=DynamoDBClaims(
            dynamodb, resources.letters_table, name, clock, pipeline.idempotency_keep, bad_claim
        ),
        circuits=DynamoDBCircuits(dynamodb, resources.circuits_table, name),
        outcomes=DynamoDBOutcomes(
            client=dynamodb,
            table=resources.circuits_table,
            pipeline=name,
            policy=pipeline.circuit,
            breaker=breaker_for(pipeline, resources, clients, world),
            # Without the state machine, the watch starts the outage.
            outages=_executions(resources.circuit_machine, name),
            clock=clock,
            count_metric=count_metric,
        ),
        queue=main_queue,
        parking={
            lot: SqsQueue(clients.sqs, url, clock, sending=clients.sending)
            for lot, url in resources.parking.items()
        },
        trusted_senders=frozenset(resources.trusted_senders),
        clock=clock,
        random=world.random,
        new_id=world.new_id,
        count_now=count_now or count_metric,
        causes=SuddenCauses(causes, clock, count_metric),
        crew=crew,
        collisions=Collisions(collisions, clock, count_metric) if can_collide else None,
        last_receive=LastReceive(main_queue, clock),
        pause=world.wait,
    )


def _executions(machine: str, pipeline: str) -> StepFunctionsExecutions | None:
    if not machine:
        return None
    from deadletter.aws.executions import StepFunctionsExecutions

    return StepFunctionsExecutions(brief_stepfunctions, machine, pipeline)
