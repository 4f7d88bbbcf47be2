"""Puts the function `redrive` together: one run of the redriver."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.aws.clients import Clients, stepfunctions
from deadletter.aws.clients import clients as clients_of_process
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.aws.queue import SqsQueue
from deadletter.aws.router import LambdaRouter
from deadletter.aws.wiring.parts.breaker import breaker_for
from deadletter.aws.wiring.parts.ledger import ledger_for
from deadletter.aws.wiring.parts.waiting_room import waiting_room_for
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import MAIN_DLQ, ROWS_KEPT, parking_source
from deadletter.outage.executions import OutageExecutions
from deadletter.redrive.in_parallel import InParallel
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import MAIN
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.report import Tally, nothing
from deadletter.routing.router import Router
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

__all__ = ["clients", "redriver_for", "redriver_setup_for"]


def clients() -> Clients:
    """The clients of one run, whose sends begin on new connections.

    SQS closes a connection that is idle between two runs, and a function that sleeps may not
    notice: a send on it, which has one try, would be a send without an answer.
    """
    made = clients_of_process()
    made.sending.close()
    return made


def redriver_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    *,
    home: str = MAIN_DLQ,
    router: Router | None = None,
    in_parallel: InParallel = in_threads,
    outages: OutageExecutions | None = None,
    count_metric: Callable[[str, int], None] = nothing,
) -> Redriver:
    """One run of a pipeline's redriver on the queue `home`.

    `home` is the DLQ, the id of a dedicated DLQ, or "parking:<id>", which can only be
    rescued. `count_metric` publishes a metric at once, which must not be lost with the run.
    Raises BadSettings if the pipeline has no such queue.
    """
    setup = redriver_setup_for(
        pipeline,
        resources,
        clients,
        world,
        home=home,
        router=router,
        in_parallel=in_parallel,
        outages=outages,
        count_metric=count_metric,
    )
    return Redriver(setup)


def redriver_setup_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    *,
    home: str = MAIN_DLQ,
    router: Router | None = None,
    in_parallel: InParallel = in_threads,
    outages: OutageExecutions | None = None,
    count_metric: Callable[[str, int], None] = nothing,
) -> RedriverSetup:
    """What one run on the queue `home` is made of; the arguments are those of `redriver_for`."""
    tally = Tally(count_metric)

    def queue(url: str, home: str = MAIN_DLQ) -> SqsQueue:
        return SqsQueue(
            clients.sqs, url, world.clock, home, tally.note_trouble, sending=clients.sending
        )

    parking = {parking_source(id_): url for id_, url in resources.parking.items()}
    sources = {MAIN_DLQ: resources.dlq_url, **resources.dedicated, **parking}
    if home not in sources:
        known = ", ".join(sorted(sources))
        raise BadSettings(f"pipeline {pipeline.name} has no source {home!r}; it has {known}")
    main = queue(resources.main_url)
    room = waiting_room_for(pipeline, resources, clients, world, tally.note_trouble)
    letters = resources.letters_table
    breaker = breaker_for(pipeline, resources, clients, world)
    if outages is None and resources.circuit_machine:
        outages = StepFunctionsExecutions(stepfunctions(), resources.circuit_machine, pipeline.name)
    outcomes = None
    if outages is not None and home == MAIN_DLQ:
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
    return RedriverSetup(
        pipeline=pipeline,
        home=home,
        dlq=queue(sources[home], home),
        main=main,
        main_arn=resources.main_arn,
        mover=Mover(
            fifo=pipeline.fifo,
            targets={
                MAIN: main,
                **{target: queue(url) for target, url in parking.items()},
                **{f"dedicated:{name}": queue(url) for name, url in resources.dedicated.items()},
            },
            parking_for=pipeline.parking_for,
            room=room,
            records=ledger_for(pipeline, resources, clients, world),
            clock=world.clock,
            wait=world.wait,
            random=world.random,
            in_parallel=in_parallel,
            tally=tally,
        ),
        router=router or LambdaRouter(clients.functions, resources.router_function),
        journal=DynamoDBJournal(clients.journal, letters, pipeline.name, ROWS_KEPT),
        room=room,
        circuits=breaker,
        lease=DynamoDBLease(
            clients.dynamodb, letters, pipeline.name, home, pipeline.rate, pipeline.burst
        ),
        tally=tally,
        owner=world.new_id(),
        clock=world.clock,
        wait=world.wait,
        in_parallel=in_parallel,
        trusted_senders=frozenset(resources.trusted_senders),
        outcomes=outcomes,
    )
