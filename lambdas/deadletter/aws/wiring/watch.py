"""Puts the function `watch` together: it looks at everything once a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from deadletter.aws.cause_entries import DynamoDBCauseEntries
from deadletter.aws.clients import (
    Clients,
    WatchClients,
    brief_cloudwatch,
    brief_events,
    brief_stepfunctions,
    watch_clients,
)
from deadletter.aws.events import EventBus
from deadletter.aws.queue_states import queue_state
from deadletter.aws.recovered_letters import recovered_letters
from deadletter.aws.rescue_start import start_rescue
from deadletter.aws.shared_look import AppLook
from deadletter.aws.waiting_room import DynamoDBLanes
from deadletter.aws.watch_oldest_message import oldest_message
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import MAIN, MAIN_DLQ, MINUTE, rule_checker
from deadletter.outage.executions import OutageExecutions
from deadletter.outage.reconciler import Reconciler
from deadletter.redrive.in_parallel import InParallel
from deadletter.replay.care import RunsKeeper
from deadletter.replay.machine import ReplayExecutions
from deadletter.routing.router import Router
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.watch.newsroom import Newsroom
from deadletter.watch.observation import OldestMessage, QueueState
from deadletter.watch.point import metric_lines
from deadletter.watch.watch import Watch, WatchSetup
from deadletter.watch.watch_settings import WatchSettings, alarms_from_json

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

__all__ = ["metric_lines", "watch_clients", "watch_for"]


def watch_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients | WatchClients,
    world: World,
    *,
    router: Router | None = None,
    in_parallel: InParallel = in_threads,
    outages: OutageExecutions | None = None,
    executions: ReplayExecutions | None = None,
    bus: EventBus | None = None,
    cloudwatch: Callable[[], CloudWatchClient] = brief_cloudwatch,
) -> Watch:
    """The watch of a pipeline, for all its minutes."""
    if bus is None and resources.app:
        bus = EventBus(brief_events(), resources.app, world.clock)
    counts: Counter[str] = Counter()

    def count_metric(name: str, number: int) -> None:
        counts[name] += number

    stores = Stores(
        pipeline,
        resources,
        clients,
        world,
        count_metric=count_metric,
        in_parallel=in_parallel,
        asks=router,
    )
    urls = {
        MAIN: resources.main_url,
        MAIN_DLQ: resources.dlq_url,
        **resources.dedicated,
        **stores.parking,
    }

    def state(id_: str) -> QueueState:
        return queue_state(clients.sqs, urls[id_])

    def oldest() -> OldestMessage:
        queue = resources.main_url.rpartition("/")[2]
        return oldest_message(cloudwatch(), queue, world.clock())

    if executions is None and resources.replay_machine:
        executions = stores.replays(brief_stepfunctions())
    settings = WatchSettings(
        pipeline=pipeline.name,
        mode=pipeline.mode,
        fifo=pipeline.fifo,
        every=float(resources.redrive_every or MINUTE),
        message_ttl=pipeline.message_ttl,
        dedicated=tuple(resources.dedicated),
        parking=tuple(resources.parking),
        alarms=alarms_from_json(resources.watch),
    )
    return Watch(
        WatchSetup(
            settings=settings,
            store=stores.watch,
            queues=state,
            sweep=Reconciler(
                pipeline=pipeline.name,
                breaker=stores.breaker,
                outages=outages or stores.outages(brief_stepfunctions),
                consumer_pause=stores.consumer_pause,
                clock=world.clock,
                count_metric=count_metric,
            ).reconcile,
            router=stores.router,
            lanes=DynamoDBLanes(*stores.letters_table, note_foreign=stores.count_foreign),
            rescue=partial(start_rescue, clients.functions, resources.redrive_function),
            clock=world.clock,
            in_parallel=in_parallel,
            circuits=stores.breaker.read,
            oldest=oldest,
            causes=stores.causes if pipeline.consumer_library else None,
            replays=None
            if executions is None
            else RunsKeeper(
                pipeline=pipeline.name,
                runs=stores.runs,
                executions=executions,
                clock=world.clock,
                count_metric=count_metric,
                announcer=stores.run_announcer(bus),
            ).care,
            shared=AppLook(
                clients.dynamodb,
                resources.letters_table,
                clients.functions,
                clients.sqs,
                app=resources.app,
                failures=f"{_beside(resources)}/{rule_checker(resources.app)}-failures",
                clock=world.clock,
            )
            if resources.app
            else None,
            news=None if bus is None else _newsroom(stores, bus, settings, cloudwatch).tell,
            counts=counts,
        )
    )


def _newsroom(
    stores: Stores,
    bus: EventBus,
    settings: WatchSettings,
    cloudwatch: Callable[[], CloudWatchClient],
) -> Newsroom:
    """Announces what the watch sees."""
    app, pipeline = stores.resources.app, stores.pipeline
    index = DynamoDBCauseEntries(*stores.letters_table, note_foreign=stores.count_foreign)
    return Newsroom(
        settings=settings,
        bus=bus,
        recovered=lambda since, until: recovered_letters(
            cloudwatch(), app, pipeline.name, since, until
        ),
        in_parallel=stores.in_parallel,
        count_metric=stores.count_metric,
        causes=index if pipeline.consumer_library else None,
    )


def _beside(resources: Resources) -> str:
    """What the URLs of our own queues begin with: a parking queue is always ours."""
    return next(iter(resources.parking.values()), resources.dlq_url).rpartition("/")[0]
