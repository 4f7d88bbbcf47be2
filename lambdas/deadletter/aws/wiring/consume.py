"""Puts the consumer library together, for a team's function or one of ours.

What only failures, parked messages and outages need is loaded when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.consumer_clients import (
    ConsumerClients,
    brief_stepfunctions,
    consumer_clients,
)
from deadletter.aws.lazily import lazily
from deadletter.aws.wiring.world import World
from deadletter.contract import NOTHING
from deadletter.processing.batch import Consumer, Handle, unhandled
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count

if TYPE_CHECKING:
    from deadletter.aws.breaker import DynamoDBBreaker
    from deadletter.aws.executions import StepFunctionsExecutions
    from deadletter.aws.ledger import DynamoDBLedger
    from deadletter.aws.outcomes import DynamoDBOutcomes
    from deadletter.aws.queue import SqsQueue
    from deadletter.processing.collisions import Collisions
    from deadletter.processing.crew import Crew
    from deadletter.processing.last_receive import LastReceive, MortalQueue
    from deadletter.processing.sudden_causes import SuddenCauses

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
    name = pipeline.name
    rarely = _Rarely(pipeline, resources, clients, world)
    main_queue = lazily(rarely.main_queue)
    can_collide = pipeline.idempotency_key is not None and pipeline.idempotency_payload != NOTHING
    return Consumer(
        pipeline=pipeline,
        handle=handle,
        log=lazily(rarely.ledger),
        claims=DynamoDBClaims(
            clients.dynamodb,
            resources.letters_table,
            name,
            world.clock,
            pipeline.idempotency_keep,
            partial(rarely.bad_claim, count_metric),
        ),
        circuits=DynamoDBCircuits(clients.dynamodb, resources.circuits_table, name),
        outcomes=lazily(lambda: rarely.outcomes(count_metric)),
        queue=main_queue,
        parking={lot: lazily(partial(rarely.lot, lot)) for lot in resources.parking},
        trusted_senders=frozenset(resources.trusted_senders),
        clock=world.clock,
        random=world.random,
        new_id=world.new_id,
        count_now=count_now or count_metric,
        causes=lazily(lambda: rarely.causes(count_metric)),
        crew=crew,
        collisions=lazily(lambda: rarely.collisions(count_metric)) if can_collide else None,
        last_receive=lazily(partial(rarely.last_receive, main_queue)),
        pause=world.wait,
    )


class _Rarely:
    """Makes what a process needs at the end of a batch, or once a message fails or is parked."""

    def __init__(
        self, pipeline: Pipeline, resources: Resources, clients: ConsumerClients, world: World
    ) -> None:
        self._pipeline = pipeline
        self._resources = resources
        self._clients = clients
        self._world = world

    def bad_claim(self, count_metric: Callable[[str, int], None], name: str) -> None:
        """A claim could not be read: count it, and leave its name where `dlq status` looks."""
        from deadletter.aws.collisions import DynamoDBCollisions

        count_metric(Count.BAD_ROW, 1)
        table = self._resources.circuits_table
        store = DynamoDBCollisions(self._clients.dynamodb, table, self._pipeline.name)
        store.note_bad_claim(name, self._world.clock())

    def ledger(self) -> DynamoDBLedger:
        from deadletter.aws.wiring.parts.ledger import ledger_for

        return ledger_for(self._pipeline, self._resources, self._clients, self._world)

    def outcomes(self, count_metric: Callable[[str, int], None]) -> DynamoDBOutcomes:
        from deadletter.aws.outcomes import DynamoDBOutcomes

        resources, pipeline = self._resources, self._pipeline
        return DynamoDBOutcomes(
            client=self._clients.dynamodb,
            table=resources.circuits_table,
            pipeline=pipeline.name,
            policy=pipeline.circuit,
            breaker=lazily(self.breaker),
            # Without the state machine, the watch starts the outage.
            outages=lazily(self.executions) if resources.circuit_machine else None,
            clock=self._world.clock,
            count_metric=count_metric,
        )

    def breaker(self) -> DynamoDBBreaker:
        from deadletter.aws.wiring.parts.breaker import breaker_for

        return breaker_for(self._pipeline, self._resources, self._clients, self._world)

    def executions(self) -> StepFunctionsExecutions:
        from deadletter.aws.executions import StepFunctionsExecutions

        machine = self._resources.circuit_machine
        return StepFunctionsExecutions(brief_stepfunctions(), machine, self._pipeline.name)

    def main_queue(self) -> SqsQueue:
        from deadletter.aws.queue import SqsQueue

        return SqsQueue(self._clients.sqs, self._resources.main_url, self._world.clock)

    def last_receive(self, queue: MortalQueue) -> LastReceive:
        from deadletter.processing.last_receive import LastReceive

        return LastReceive(queue, self._world.clock)

    def lot(self, name: str) -> SqsQueue:
        from deadletter.aws.queue import SqsQueue

        url, clients = self._resources.parking[name], self._clients
        return SqsQueue(clients.sqs, url, self._world.clock, sending=clients.sending)

    def causes(self, count_metric: Callable[[str, int], None]) -> SuddenCauses:
        from deadletter.aws.causes import DynamoDBCauses
        from deadletter.processing.sudden_causes import SuddenCauses

        table, name = self._resources.circuits_table, self._pipeline.name
        store = DynamoDBCauses(self._clients.dynamodb, table, name, self._world.new_id)
        return SuddenCauses(store, self._world.clock, count_metric)

    def collisions(self, count_metric: Callable[[str, int], None]) -> Collisions:
        from deadletter.aws.collisions import DynamoDBCollisions
        from deadletter.processing.collisions import Collisions

        table, name = self._resources.circuits_table, self._pipeline.name
        store = DynamoDBCollisions(self._clients.dynamodb, table, name)
        return Collisions(store, self._world.clock, count_metric)
