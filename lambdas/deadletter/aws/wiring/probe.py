"""Puts the function `probe` together: it sends one canary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from deadletter.aws.clients import (
    Clients,
    OutageClients,
    clients,
    consumer_call,
    outage_clients,
    renew_connections,
)
from deadletter.aws.consumer_function import LambdaConsumer
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.queue import SqsQueue
from deadletter.aws.router import LambdaRouter
from deadletter.aws.wiring.parts.breaker import breaker_for
from deadletter.aws.wiring.parts.circuit_announcer import circuit_announcer_for
from deadletter.aws.wiring.parts.health import health_for
from deadletter.aws.wiring.parts.ledger import ledger_for
from deadletter.aws.wiring.parts.waiting_room import waiting_room_for
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import CONFIG_SUFFIX, DEPENDENCY_PREFIX, ROWS_KEPT, Mode
from deadletter.message.queue import Queue
from deadletter.outage.canary_sources import (
    ASIDE_COOLDOWNS,
    CanaryChoice,
    CanarySource,
    DlqCanaries,
    LaneCanaries,
    WaitingLetters,
)
from deadletter.outage.candidates import BlamelessLetters
from deadletter.outage.lane_moves import InAnyOrder, LaneMover, RefilledLane
from deadletter.outage.live_canaries import MainQueueCanaries
from deadletter.outage.prober import Prober
from deadletter.outage.queue_canary import MainQueueSender, SendableLetters
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import MAIN
from deadletter.redrive.report import Tally
from deadletter.routing.router import Router
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

__all__ = ["clients", "outage_clients", "prober_for", "renew"]

ANSWER_MARGIN = 5
"""Seconds to wait for the consumer's answer beyond its own timeout."""

FINDING_SECONDS = 10
"""Seconds to find a letter while the permit is held: empty polls, and a read of each shard."""


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
    count_metric: Callable[[str, int], None],
    *,
    router: Router | None = None,
    consumer: LambdaClient | None = None,
) -> Prober:
    """Sends a pipeline's canaries: to the consumer's function, or through the main queue.

    Raises BadSettings if the lease of a permit is shorter than a canary may take: then no
    canary would ever be sent, and no circuit would close.
    """
    breaker = breaker_for(pipeline, resources, clients, world)
    seconds = _answer_seconds(resources)
    if pipeline.circuit.lease < seconds + FINDING_SECONDS:
        raise BadSettings(
            f"circuit.lease is {pipeline.circuit.lease:g} seconds; allowed: at least"
            f" {seconds + FINDING_SECONDS}, the consumer's timeout and the time to find a message"
        )
    call = consumer or consumer_call(seconds)
    router = router or LambdaRouter(clients.functions, resources.router_function)
    sources: list[CanarySource] = []
    hides: Callable[[str], bool] = _hides_nothing
    if resources.consumer_function:
        mover = _lane_mover(pipeline, resources, clients, world, count_metric)
        main = _live_canaries(pipeline, resources, clients, world, mover, router)
        sources = _canary_sources(pipeline, resources, clients, world, mover, router, main)
        hides = main.hides
    return Prober(
        pipeline=pipeline.name,
        breaker=breaker,
        circuits=breaker,
        sources=sources,
        hides_messages=hides,
        # A consumer that is no Lambda function cannot be invoked with a letter. With the
        # library, the ledger has the result of a letter sent through the main queue.
        sender=_main_queue_sender(pipeline, resources, clients, world, count_metric, router)
        if resources.main_url
        and not resources.consumer_function
        and _has_library_and_enforces(pipeline)
        else None,
        consumer=LambdaConsumer(call, resources.consumer_function),
        answer_seconds=seconds,
        health=health_for(resources, world),
        announcer=circuit_announcer_for(pipeline, resources, outage_clients, world, count_metric),
        clock=world.clock,
        new_id=world.new_id,
        count_metric=count_metric,
    )


def _hides_nothing(_key: str) -> bool:
    return False


def _lane_mover(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    count_metric: Callable[[str, int], None],
) -> LaneMover:
    return LaneMover(
        mover_for=_mover_for(pipeline, resources, clients, world, {}),
        journal=_journal(pipeline, resources, clients),
        owner=world.new_id,
        message_ttl=pipeline.message_ttl,
        clock=world.clock,
        count_metric=count_metric,
    )


def _live_canaries(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    mover: LaneMover,
    router: Router,
) -> MainQueueCanaries:
    return MainQueueCanaries(
        queue=SqsQueue(clients.sqs, resources.main_url, world.clock),
        arn=resources.main_arn,
        fifo=pipeline.fifo,
        keys=partial(_is_of_any_message, pipeline.name),
        # This mode may not move letters.
        mover=None if pipeline.mode is Mode.OBSERVE else mover,
        router=router,
    )


def _canary_sources(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    mover: LaneMover,
    router: Router,
    main: MainQueueCanaries,
) -> list[CanarySource]:
    """The sources of canaries in order: dead letters first, untried messages last."""
    if pipeline.mode is Mode.OBSERVE:
        return [main]
    if not pipeline.consumer_library:
        waiting = WaitingLetters(router)
        dlq, lane = _dead_letter_sources(pipeline, resources, clients, world, waiting, waiting)
        return [dlq, InAnyOrder([lane, main], world.random)]
    ledger = ledger_for(pipeline, resources, clients, world)
    blameless = BlamelessLetters(pipeline=pipeline.name, router=router, ledger=ledger)
    recorded = BlamelessLetters(pipeline=pipeline.name, router=router, ledger=ledger, recorded=True)
    dlq, lane = _dead_letter_sources(pipeline, resources, clients, world, recorded, blameless)
    queue = SqsQueue(clients.sqs, resources.dlq_url, world.clock)
    return [RefilledLane(lane=lane, dlq=dlq, queue=queue, choice=recorded, mover=mover), main]


def _is_of_any_message(pipeline: str, key: str) -> bool:
    """Whether any message may test this circuit: it is not that of a value in the message."""
    return key.removesuffix(CONFIG_SUFFIX) == pipeline or key.startswith(DEPENDENCY_PREFIX)


def _journal(pipeline: Pipeline, resources: Resources, clients: Clients) -> DynamoDBJournal:
    return DynamoDBJournal(clients.journal, resources.letters_table, pipeline.name, ROWS_KEPT)


def _mover_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    targets: Mapping[str, Queue],
) -> Callable[[Tally], Mover]:
    """Makes movers that send to these queues, and into the waiting room."""
    ledger = ledger_for(pipeline, resources, clients, world)

    def mover_for(tally: Tally) -> Mover:
        return Mover(
            fifo=pipeline.fifo,
            targets=targets,
            parking_queues={},
            room=waiting_room_for(pipeline, resources, clients, world),
            records=ledger,
            clock=world.clock,
            wait=world.wait,
            random=world.random,
            in_parallel=in_threads,
            tally=tally,
        )

    return mover_for


def _main_queue_sender(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    count_metric: Callable[[str, int], None],
    router: Router,
) -> MainQueueSender:
    """Sends dead letters as canaries through the main queue.

    The consumer receives the messages already in that queue by itself.
    """
    main = SqsQueue(clients.sqs, resources.main_url, world.clock, sending=clients.sending)
    ledger = ledger_for(pipeline, resources, clients, world)
    choice = SendableLetters(
        pipeline=pipeline.name,
        router=router,
        ledger=ledger,
        main=main,
        aside_seconds=_retry_seconds(pipeline),
        clock=world.clock,
    )

    return MainQueueSender(
        pipeline=pipeline.name,
        sources=_dead_letter_sources(pipeline, resources, clients, world, choice, choice),
        choice=choice,
        mover_for=_mover_for(pipeline, resources, clients, world, {MAIN: main}),
        ledger=ledger,
        count_metric=count_metric,
    )


def _has_library_and_enforces(pipeline: Pipeline) -> bool:
    """True if the consumer records results in the ledger, and the mode lets us move letters."""
    return pipeline.consumer_library and pipeline.mode is not Mode.OBSERVE


def _retry_seconds(pipeline: Pipeline) -> float:
    """Seconds before a dead letter that failed as a canary is tried again."""
    return ASIDE_COOLDOWNS * pipeline.circuit.cooldown_cap


def _dead_letter_sources(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    in_dlq: CanaryChoice,
    in_lane: CanaryChoice,
) -> tuple[DlqCanaries, LaneCanaries]:
    """The places where dead letters wait for a circuit: the DLQ and the circuit's lane."""
    journal = _journal(pipeline, resources, clients)
    room = waiting_room_for(pipeline, resources, clients, world)
    return (
        DlqCanaries(
            queue=SqsQueue(clients.sqs, resources.dlq_url, world.clock),
            arn=resources.dlq_arn,
            main_arn=resources.main_arn,
            fifo=pipeline.fifo,
            choice=in_dlq,
            journal=journal,
            room=room,
            owner=world.new_id,
            aside_seconds=_retry_seconds(pipeline),
            clock=world.clock,
        ),
        LaneCanaries(
            arn=resources.dlq_arn,
            fifo=pipeline.fifo,
            room=room,
            choice=in_lane,
            journal=journal,
            owner=world.new_id,
            clock=world.clock,
            random=world.random,
        ),
    )
