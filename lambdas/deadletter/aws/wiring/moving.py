"""Puts together what moves letters: the functions `redrive` and `probe`.

Each loads what it needs when it is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

from deadletter.aws.clients import (
    Clients,
    OutageClients,
    consumer_call,
    renew_connections,
    start_client,
    stepfunctions,
)
from deadletter.aws.clients import clients as clients
from deadletter.aws.clients import outage_clients as outage_clients
from deadletter.aws.wiring.stores import CountMetric, Stores, count_nothing
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import (
    DAY,
    MAIN,
    MAIN_DLQ,
    MINUTE,
    Mode,
)
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from deadletter.aws.observed import DynamoDBObserved
    from deadletter.message.queue import Queue
    from deadletter.outage.canaries import CanarySetup, CanarySource, MainQueueCanaries
    from deadletter.outage.executions import OutageExecutions
    from deadletter.outage.prober import Prober
    from deadletter.outage.queue_canary import MainQueueSender
    from deadletter.redrive.concurrency import InParallel
    from deadletter.redrive.mover import Mover
    from deadletter.redrive.redriver import Redriver
    from deadletter.redrive.redriver_setup import RedriverSetup, RunStarter
    from deadletter.redrive.report import Tally
    from deadletter.routing.router import Router

RECALL, EDIT, REFUSED = "recall", "edit", "refused"
"""The fields of an event that asks for a recall or for edits, and of the answer that refuses it."""

ANSWER_MARGIN = 5
"""Seconds to wait for the consumer's answer beyond its own timeout."""

FINDING_SECONDS = 10
"""Seconds to find a letter while the permit is held: empty polls, and a read of each shard."""

ORPHANS_MARGIN = 10.0
"""Seconds before the end of a run in which no orphan is looked for."""


def run_clients(by_boto3: str = "") -> Clients:
    """The clients of one run, whose calls with one try begin on new connections."""
    made = clients(by_boto3)
    renew_connections(made)
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
    starter: RunStarter | None = None,
    count_metric: CountMetric = count_nothing,
) -> Redriver:
    """One run of a pipeline's redriver on the queue `home`.

    `home` is the DLQ, the id of a dedicated DLQ, or "parking:<id>", which can only be
    rescued. `starter` starts runs beside this one.
    `count_metric` publishes a metric at once, which must not be lost with the run.
    Raises BadSettings if the pipeline has no such queue.
    """
    from deadletter.aws.functions import LambdaRunStarter
    from deadletter.redrive.redriver import Redriver
    from deadletter.redrive.report import Tally

    tally = Tally(count_metric)
    stores = Stores(pipeline, resources, clients, world, in_parallel=in_parallel, asks=router)
    stores = stores.telling(tally)
    setup = redriver_setup_for(stores, home, tally)
    if starter is None and resources.redrive_function:
        starter = LambdaRunStarter(start_client, resources.redrive_function)
    setup = replace(setup, starter=starter)
    if home != MAIN_DLQ or not (outages or resources.circuit_machine):
        return Redriver(setup)
    outcomes = stores.outcomes(outages or stores.outages(stepfunctions))
    return Redriver(replace(setup, outcomes=outcomes))


def redriver_setup_for(stores: Stores, home: str, tally: Tally) -> RedriverSetup:
    """Everything that a redriver of the queue `home` is given, but for outcomes.

    Raises BadSettings if the pipeline has no such queue.
    """
    from deadletter.aws.lease import DynamoDBLease
    from deadletter.redrive.redriver_setup import RedriverSetup

    pipeline, resources, world = stores.pipeline, stores.resources, stores.world
    sources = {MAIN_DLQ: resources.dlq_url, **resources.dedicated, **stores.parking}
    if home not in sources:
        known = ", ".join(sorted(sources))
        raise BadSettings(f"pipeline {pipeline.name} has no source {home!r}; it has {known}")
    targets = stores.targets
    return RedriverSetup(
        pipeline=pipeline,
        home=home,
        dlq=stores.queue(sources[home], home),
        main=targets[MAIN],
        main_arn=resources.main_arn,
        mover=stores.mover(tally, stores.room, targets),
        router=stores.router,
        journal=stores.journal,
        room=stores.room,
        circuits=stores.circuits,
        lease=DynamoDBLease(*stores.messages_table, home, pipeline.first_rate, stores.note_bad_row),
        tally=tally,
        owner=world.new_id(),
        clock=world.clock,
        wait=world.wait,
        in_parallel=stores.in_parallel,
        trusted_senders=frozenset(resources.trusted_senders),
        observed=_observed(stores),
    )


def _observed(stores: Stores) -> DynamoDBObserved | None:
    if stores.pipeline.mode is not Mode.OBSERVE:
        return None
    from deadletter.aws.observed import DynamoDBObserved

    return DynamoDBObserved(*stores.messages_table, stores.world.clock, stores.note_bad_row)


def sweep_orphans(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    event: Mapping[str, Any],
    deadline: float,
) -> int | None:
    """Delete bodies in the bucket that no letter has any more, once a day after a run of the DLQ.

    Returns how many; None if it is not the time. What can't be read or deleted today is there
    tomorrow. In a FIFO pipeline the key of an item is not in the name of its body: they stay.
    """
    of_schedule = event.get("source", MAIN_DLQ) == MAIN_DLQ and not event.get("dry_run")
    moves = pipeline.mode is not Mode.OBSERVE
    if not of_schedule or not moves or pipeline.fifo or not resources.messages_bucket:
        return None
    # One minute of the day, which follows from the name: not the same for all pipelines.
    if (world.clock() - crc32(pipeline.name.encode()) % DAY) % DAY >= MINUTE:
        return None
    from deadletter.aws.objects import S3StoredBodies
    from deadletter.redrive.orphans import OrphansUnavailable, delete_orphans

    stores = Stores(pipeline, resources, clients, world)
    bodies = S3StoredBodies(*stores.messages_table, clients.s3, resources.messages_bucket)
    try:
        return delete_orphans(bodies, world.clock, deadline - ORPHANS_MARGIN)
    except OrphansUnavailable:
        return 0


def answer_request(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    event: Mapping[str, Any],
) -> dict[str, Any] | None:
    """The answer to an event that asks for something else than a run; None for a run.

    No answer holds a word of a letter: who may ask need not be allowed to read one.
    """
    asks: Mapping[str, Callable[[Stores, Any], dict[str, Any]]] = {RECALL: _recall, EDIT: _edit}
    for name, handle in asks.items():
        if name in event:
            return handle(Stores(pipeline, resources, clients, world), event[name])
    return None


def _recall(stores: Stores, asked: Any) -> dict[str, Any]:
    from deadletter.redrive.recall import RecallRefused, recall

    name, clock = stores.pipeline.name, stores.world.clock
    try:
        return dict(recall(asked, name, stores.room, clock=clock, in_parallel=in_threads))
    except RecallRefused as error:
        return {REFUSED: str(error)}


def _edit(stores: Stores, asked: Any) -> dict[str, Any]:
    # Most functions are never asked for an edit, and load none of it.
    from deadletter.aws.replay_edits import DynamoDBReplayEdits
    from deadletter.replay.edit_request import names_in
    from deadletter.replay.edits import EditRefused

    edits = DynamoDBReplayEdits(
        *stores.messages_table,
        s3=stores.clients.s3,
        bucket=stores.resources.messages_bucket,
        runs=stores.runs,
        room=stores.room,
        objects=stores.objects,
        clock=stores.world.clock,
    )
    try:
        return edits.apply(*names_in(asked))
    except EditRefused as error:
        return {REFUSED: str(error)}


def renew(clients: Clients, resources: Resources) -> None:
    """Let the calls of one probe begin on new connections, the canary too."""
    renew_connections(clients, consumer_call(_answer_seconds(resources)))


def _answer_seconds(resources: Resources) -> int:
    return resources.consumer_timeout + ANSWER_MARGIN


def prober_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    outage_clients: OutageClients,
    world: World,
    count_metric: CountMetric,
    *,
    router: Router | None = None,
    consumer: LambdaClient | None = None,
) -> Prober:
    """Sends a pipeline's canaries: to the consumer's function, or through the main queue.

    Raises BadSettings if the lease of a permit is shorter than a canary may take: then no
    canary would ever be sent, and no circuit would close.
    """
    from deadletter.aws.consumer_function import LambdaConsumer
    from deadletter.outage.canaries import MainQueueCanaries
    from deadletter.outage.prober import Prober

    stores = Stores(pipeline, resources, clients, world, count_metric=count_metric, asks=router)
    seconds = _answer_seconds(resources)
    if pipeline.circuit.lease < seconds + FINDING_SECONDS:
        raise BadSettings(
            f"circuit.lease is {pipeline.circuit.lease:g} seconds; allowed: at least"
            f" {seconds + FINDING_SECONDS}, the consumer's timeout and the time to find a message"
        )
    call = consumer or consumer_call(seconds)
    sources: list[CanarySource] = []
    hides: Callable[[str], bool] = _hides_nothing
    sender = None
    if resources.consumer_function:
        main = MainQueueCanaries(_canary_setup(stores, {}), stores.queue(resources.main_url))
        sources, hides = _canary_sources(stores, main), main.hides
    # A consumer that is no Lambda function cannot be invoked with a letter. With the library,
    # the ledger has the result of a letter sent through the main queue.
    elif resources.main_url and pipeline.consumer_library and pipeline.mode is not Mode.OBSERVE:
        sender = _main_queue_sender(stores)
    return Prober(
        pipeline=pipeline.name,
        breaker=stores.breaker,
        circuits=stores.breaker,
        sources=sources,
        hides_messages=hides,
        sender=sender,
        consumer=LambdaConsumer(call, resources.consumer_function),
        answer_seconds=seconds,
        health=stores.health,
        announcer=stores.circuit_announcer(outage_clients.events),
        clock=world.clock,
        new_id=world.new_id,
        count_metric=count_metric,
    )


def _hides_nothing(_key: str) -> bool:
    return False


def _canary_setup(stores: Stores, targets: Mapping[str, Queue]) -> CanarySetup:
    """What canaries are given; the mover takes them to these queues, and into the waiting room."""
    from deadletter.outage.canaries import CanarySetup
    from deadletter.redrive.known_intents import KnownIntents

    resources, world = stores.resources, stores.world

    def mover_for(tally: Tally) -> Mover:
        telling = stores.telling(tally)
        return telling.mover(tally, telling.room, targets)

    return CanarySetup(
        pipeline=stores.pipeline,
        dlq_arn=resources.dlq_arn,
        main_arn=resources.main_arn,
        router=stores.router,
        room=stores.room,
        journal=stores.journal,
        known=KnownIntents(stores.journal, world.clock),
        mover_for=mover_for,
        owner=world.new_id,
        clock=world.clock,
        random=world.random,
        count_metric=stores.count_metric,
    )


def _canary_sources(stores: Stores, main: MainQueueCanaries) -> list[CanarySource]:
    """The sources of canaries in order: dead letters first, untried messages last."""
    from deadletter.outage.canaries import (
        BlamelessLetters,
        DlqCanaries,
        InAnyOrder,
        LaneCanaries,
        RefilledLane,
        waiting_for,
    )

    pipeline, setup = stores.pipeline, main.setup
    if pipeline.mode is Mode.OBSERVE:
        return [main]
    dlq = stores.queue(stores.resources.dlq_url)
    if not pipeline.consumer_library:
        waiting = partial(waiting_for, stores.router)
        lane = LaneCanaries(setup, waiting)
        return [DlqCanaries(setup, dlq, waiting), InAnyOrder([lane, main], setup.random)]
    blameless = BlamelessLetters(pipeline.name, stores.router, stores.ledger)
    recorded = replace(blameless, recorded=True)
    lane = LaneCanaries(setup, blameless)
    return [RefilledLane(lane, DlqCanaries(setup, dlq, recorded)), main]


def _main_queue_sender(stores: Stores) -> MainQueueSender:
    """Sends dead letters as canaries through the main queue.

    The consumer receives the messages already in that queue by itself.
    """
    from deadletter.outage.canaries import ASIDE_COOLDOWNS, DlqCanaries, LaneCanaries
    from deadletter.outage.queue_canary import MainQueueSender, SendableLetters

    pipeline, resources = stores.pipeline, stores.resources
    main, dlq = stores.queue(resources.main_url), stores.queue(resources.dlq_url)
    setup = _canary_setup(stores, {MAIN: main})
    choice = SendableLetters(
        pipeline=pipeline.name,
        router=stores.router,
        ledger=stores.ledger,
        main=main,
        aside_seconds=ASIDE_COOLDOWNS * pipeline.circuit.cooldown_cap,
        clock=stores.world.clock,
    )
    return MainQueueSender(
        pipeline=pipeline.name,
        sources=[DlqCanaries(setup, dlq, choice), LaneCanaries(setup, choice)],
        ledger=stores.ledger,
        count_metric=stores.count_metric,
    )
