"""The redriver's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from deadletter.aws.clients import Clients, clients, stepfunctions
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.aws.queue import SqsQueue
from deadletter.aws.router import LambdaRouter
from deadletter.contract import MAIN_DLQ, ROWS_KEPT
from deadletter.message.queue import SendResult
from deadletter.outage.executions import OutageExecutions
from deadletter.outage.reconciler import Reconciler
from deadletter.redrive.mover import MAIN, Mover, Together
from deadletter.redrive.redriver import Redriver, SideBySide
from deadletter.redrive.report import Tally
from deadletter.routing.router import Router
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    pass
from deadletter.aws.wiring.parts.breaker import breaker_for
from deadletter.aws.wiring.parts.consumer_pause import consumer_pause_for
from deadletter.aws.wiring.parts.ledger import ledger_for
from deadletter.aws.wiring.parts.waiting_room import waiting_room_for
from deadletter.aws.wiring.world import World, in_threads

__all__ = ["clients", "redriver_for"]


def abreast_in_threads(workers: Sequence[Callable[[], None]]) -> None:
    """Run workers side by side, each to its end."""
    in_threads(workers)


def redriver_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    *,
    source_id: str = MAIN_DLQ,
    router: Router | None = None,
    together: Together[SendResult] = in_threads,
    abreast: SideBySide = abreast_in_threads,
    outages: OutageExecutions | None = None,
) -> Redriver:
    """One run of a pipeline's redriver on the DLQ, or on the dedicated DLQ `source_id`.

    Raises BadSettings for a source that the pipeline does not have.
    """

    def queue(url: str, home: str = MAIN_DLQ) -> SqsQueue:
        return SqsQueue(clients.sqs, url, world.clock, home)

    sources = {MAIN_DLQ: resources.dlq_url, **resources.dedicated}
    if source_id not in sources:
        known = ", ".join(sorted(sources))
        raise BadSettings(f"pipeline {pipeline.name} has no source {source_id!r}; it has {known}")
    main = queue(resources.main_url)
    room = waiting_room_for(pipeline, resources, clients, world)
    tally = Tally()
    mover = Mover(
        fifo=pipeline.fifo,
        targets={
            MAIN: main,
            **{f"parking:{name}": queue(url) for name, url in resources.parking.items()},
            **{f"dedicated:{name}": queue(url) for name, url in resources.dedicated.items()},
        },
        parking_for=pipeline.parking_for,
        room=room,
        records=ledger_for(pipeline, resources, clients, world),
        clock=world.clock,
        together=together,
        tally=tally,
    )
    letters = resources.letters_table
    breaker = breaker_for(pipeline, resources, clients, world)
    if outages is None and resources.circuit_machine:
        outages = StepFunctionsExecutions(stepfunctions(), resources.circuit_machine, pipeline.name)
    reconcile, outcomes = None, None
    if outages is not None and source_id == MAIN_DLQ:
        reconcile = Reconciler(
            pipeline=pipeline.name,
            breaker=breaker,
            outages=outages,
            consumer_pause=consumer_pause_for(resources, clients, breaker, tally.count),
            clock=world.clock,
            count_metric=tally.count,
        ).reconcile
        outcomes = DynamoDBOutcomes(
            client=clients.dynamodb,
            table=resources.circuits_table,
            pipeline=pipeline.name,
            policy=pipeline.circuit,
            breaker=breaker,
            outages=outages,
            clock=world.clock,
            count_metric=tally.count,
        )
    return Redriver(
        pipeline=pipeline,
        source_id=source_id,
        source=queue(sources[source_id], source_id),
        main=main,
        main_arn=resources.main_arn,
        mover=mover,
        router=router or LambdaRouter(clients.functions, resources.router_function),
        journal=DynamoDBJournal(clients.dynamodb, letters, pipeline.name, ROWS_KEPT),
        room=room,
        circuits=breaker,
        lease=DynamoDBLease(
            clients.dynamodb, letters, pipeline.name, source_id, pipeline.rate, pipeline.burst
        ),
        tally=tally,
        owner=world.new_id(),
        clock=world.clock,
        wait=world.wait,
        abreast=abreast,
        reconcile=reconcile,
        outcomes=outcomes,
    )
