"""Puts the function `probe` together: it sends one canary."""

from __future__ import annotations

from collections.abc import Callable
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
from deadletter.aws.wiring.stores import CountMetric, Stores
from deadletter.aws.wiring.world import World
from deadletter.contract import CONFIG_SUFFIX, DEPENDENCY_PREFIX, MAIN, Mode
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
from deadletter.routing.router import Router
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_lambda import LambdaClient

    from deadletter.message.queue import Queue
    from deadletter.redrive.mover import Mover
    from deadletter.redrive.report import Tally

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
    count_metric: CountMetric,
    *,
    router: Router | None = None,
    consumer: LambdaClient | None = None,
) -> Prober:
    """Sends a pipeline's canaries: to the consumer's function, or through the main queue.

    Raises BadSettings if the lease of a permit is shorter than a canary may take: then no
    canary would ever be sent, and no circuit would close.
    """
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
        mover = _lane_mover(stores)
        main = _live_canaries(stores, mover)
        sources, hides = _canary_sources(stores, mover, main), main.hides
    # A consumer that is no Lambda function cannot be invoked with a letter. With the library,
    # the ledger has the result of a letter sent through the main queue.
    elif resources.main_url and _has_library_and_enforces(pipeline):
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


def _lane_mover(stores: Stores) -> LaneMover:
    return LaneMover(
        mover_for=partial(_mover_for, stores, {}),
        journal=stores.journal,
        owner=stores.world.new_id,
        message_ttl=stores.pipeline.message_ttl,
        clock=stores.world.clock,
        count_metric=stores.count_metric,
    )


def _mover_for(stores: Stores, targets: Mapping[str, Queue], tally: Tally) -> Mover:
    """What moves letters of a canary to these queues, and into the waiting room."""
    stores = stores.telling(tally)
    return stores.mover(tally, stores.room, targets)


def _live_canaries(stores: Stores, mover: LaneMover) -> MainQueueCanaries:
    pipeline, resources = stores.pipeline, stores.resources
    return MainQueueCanaries(
        queue=stores.queue(resources.main_url),
        arn=resources.main_arn,
        fifo=pipeline.fifo,
        keys=partial(_is_of_any_message, pipeline.name),
        # This mode may not move letters.
        mover=None if pipeline.mode is Mode.OBSERVE else mover,
        router=stores.router,
    )


def _canary_sources(
    stores: Stores, mover: LaneMover, main: MainQueueCanaries
) -> list[CanarySource]:
    """The sources of canaries in order: dead letters first, untried messages last."""
    pipeline, router, ledger = stores.pipeline, stores.router, stores.ledger
    if pipeline.mode is Mode.OBSERVE:
        return [main]
    if not pipeline.consumer_library:
        waiting = WaitingLetters(router)
        dlq, lane = _dead_letter_sources(stores, waiting, waiting)
        return [dlq, InAnyOrder([lane, main], stores.world.random)]
    blameless = BlamelessLetters(pipeline=pipeline.name, router=router, ledger=ledger)
    recorded = BlamelessLetters(pipeline=pipeline.name, router=router, ledger=ledger, recorded=True)
    dlq, lane = _dead_letter_sources(stores, recorded, blameless)
    queue = stores.queue(stores.resources.dlq_url)
    return [RefilledLane(lane=lane, dlq=dlq, queue=queue, choice=recorded, mover=mover), main]


def _is_of_any_message(pipeline: str, key: str) -> bool:
    """Whether any message may test this circuit: it is not that of a value in the message."""
    return key.removesuffix(CONFIG_SUFFIX) == pipeline or key.startswith(DEPENDENCY_PREFIX)


def _main_queue_sender(stores: Stores) -> MainQueueSender:
    """Sends dead letters as canaries through the main queue.

    The consumer receives the messages already in that queue by itself.
    """
    pipeline, main = stores.pipeline, stores.queue(stores.resources.main_url)
    choice = SendableLetters(
        pipeline=pipeline.name,
        router=stores.router,
        ledger=stores.ledger,
        main=main,
        aside_seconds=_retry_seconds(pipeline),
        clock=stores.world.clock,
    )
    return MainQueueSender(
        pipeline=pipeline.name,
        sources=_dead_letter_sources(stores, choice, choice),
        choice=choice,
        mover_for=partial(_mover_for, stores, {MAIN: main}),
        ledger=stores.ledger,
        count_metric=stores.count_metric,
    )


def _has_library_and_enforces(pipeline: Pipeline) -> bool:
    """True if the consumer records results in the ledger, and the mode lets us move letters."""
    return pipeline.consumer_library and pipeline.mode is not Mode.OBSERVE


def _retry_seconds(pipeline: Pipeline) -> float:
    """Seconds before a dead letter that failed as a canary is tried again."""
    return ASIDE_COOLDOWNS * pipeline.circuit.cooldown_cap


def _dead_letter_sources(
    stores: Stores, in_dlq: CanaryChoice, in_lane: CanaryChoice
) -> tuple[DlqCanaries, LaneCanaries]:
    """The places where dead letters wait for a circuit: the DLQ and the circuit's lane."""
    pipeline, resources, world = stores.pipeline, stores.resources, stores.world
    return (
        DlqCanaries(
            queue=stores.queue(resources.dlq_url),
            arn=resources.dlq_arn,
            main_arn=resources.main_arn,
            fifo=pipeline.fifo,
            choice=in_dlq,
            journal=stores.journal,
            room=stores.room,
            owner=world.new_id,
            aside_seconds=_retry_seconds(pipeline),
            clock=world.clock,
        ),
        LaneCanaries(
            arn=resources.dlq_arn,
            fifo=pipeline.fifo,
            room=stores.room,
            choice=in_lane,
            journal=stores.journal,
            owner=world.new_id,
            clock=world.clock,
            random=world.random,
        ),
    )
