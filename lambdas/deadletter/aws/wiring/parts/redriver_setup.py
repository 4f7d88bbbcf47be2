"""Puts together what a redriver is given, and its mover, which replay runs use too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.clients import Clients
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.queue import SqsQueue
from deadletter.aws.router import LambdaRouter
from deadletter.aws.wiring.parts.ledger import ledger_for
from deadletter.aws.wiring.parts.waiting_room import waiting_room_for
from deadletter.aws.wiring.world import World
from deadletter.contract import MAIN_DLQ, ROWS_KEPT, Mode, parking_source
from deadletter.redrive.in_parallel import InParallel
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import MAIN
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import WaitingRoom
from deadletter.routing.router import Router
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    from deadletter.aws.observed import DynamoDBObserved


def redriver_setup_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    *,
    home: str,
    router: Router | None,
    in_parallel: InParallel,
    tally: Tally,
) -> RedriverSetup:
    """Everything that a redriver of the queue `home` is given, but for outcomes.

    Raises BadSettings if the pipeline has no such queue.
    """
    sources = {MAIN_DLQ: resources.dlq_url, **resources.dedicated, **_parking(resources)}
    if home not in sources:
        known = ", ".join(sorted(sources))
        raise BadSettings(f"pipeline {pipeline.name} has no source {home!r}; it has {known}")
    room = waiting_room_for(
        pipeline,
        resources,
        clients,
        world,
        note_refusal=tally.note_trouble,
        note_bad_row=tally.note_bad_row,
        count_metric=tally.count,
    )
    letters = resources.letters_table
    dlq = SqsQueue(
        clients.sqs, sources[home], world.clock, home, tally.note_trouble, sending=clients.sending
    )
    return RedriverSetup(
        pipeline=pipeline,
        home=home,
        dlq=dlq,
        main=queue_for(resources.main_url, clients, world, tally),
        main_arn=resources.main_arn,
        mover=mover_for(pipeline, resources, clients, world, in_parallel, tally, room),
        router=router or LambdaRouter(clients.functions, resources.router_function),
        journal=DynamoDBJournal(
            clients.journal, letters, pipeline.name, ROWS_KEPT, tally.note_bad_row
        ),
        room=room,
        circuits=DynamoDBCircuits(
            clients.dynamodb, resources.circuits_table, pipeline.name, tally.note_bad_row
        ),
        lease=DynamoDBLease(
            clients.dynamodb,
            letters,
            pipeline.name,
            home,
            pipeline.first_rate,
            tally.note_bad_row,
        ),
        tally=tally,
        owner=world.new_id(),
        clock=world.clock,
        wait=world.wait,
        in_parallel=in_parallel,
        trusted_senders=frozenset(resources.trusted_senders),
        observed=_observed(pipeline, resources, clients, world, tally),
    )


def _observed(
    pipeline: Pipeline, resources: Resources, clients: Clients, world: World, tally: Tally
) -> DynamoDBObserved | None:
    if pipeline.mode is not Mode.OBSERVE:
        return None
    from deadletter.aws.observed import DynamoDBObserved

    return DynamoDBObserved(
        clients.dynamodb, resources.letters_table, pipeline.name, world.clock, tally.note_bad_row
    )


def queue_for(url: str, clients: Clients, world: World, tally: Tally) -> SqsQueue:
    """A queue that letters are sent to."""
    return SqsQueue(
        clients.sqs, url, world.clock, MAIN_DLQ, tally.note_trouble, sending=clients.sending
    )


def mover_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    in_parallel: InParallel,
    tally: Tally,
    room: WaitingRoom,
) -> Mover:
    """Moves letters to every place that a decision may name."""
    urls = {
        MAIN: resources.main_url,
        **_parking(resources),
        **{f"dedicated:{name}": url for name, url in resources.dedicated.items()},
    }
    return Mover(
        fifo=pipeline.fifo,
        targets={target: queue_for(url, clients, world, tally) for target, url in urls.items()},
        parking_queues=pipeline.parking,
        room=room,
        records=ledger_for(pipeline, resources, clients, world),
        clock=world.clock,
        wait=world.wait,
        random=world.random,
        in_parallel=in_parallel,
        tally=tally,
    )


def _parking(resources: Resources) -> dict[str, str]:
    return {parking_source(id_): url for id_, url in resources.parking.items()}
