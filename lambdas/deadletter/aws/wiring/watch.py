"""Puts the function `watch` together: it looks at everything once a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.clients import (
    Clients,
    WatchClients,
    brief_cloudwatch,
    brief_events,
    brief_stepfunctions,
    watch_clients,
)
from deadletter.aws.events import EventBus
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.queue_states import queue_state
from deadletter.aws.replay_executions import StepFunctionsReplays
from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.aws.rescue_start import start_rescue
from deadletter.aws.router import LambdaRouter
from deadletter.aws.shared_look import AppLook
from deadletter.aws.waiting_room import DynamoDBLanes
from deadletter.aws.watch_oldest_message import oldest_message
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.aws.wiring.parts.breaker import breaker_for
from deadletter.aws.wiring.parts.consumer_pause import consumer_pause_for
from deadletter.aws.wiring.parts.news import newsroom_for
from deadletter.aws.wiring.parts.run_announcer import run_announcer_for
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import MAIN, MAIN_DLQ, MINUTE, parking_source, rule_checker
from deadletter.outage.executions import OutageExecutions
from deadletter.outage.reconciler import Reconciler
from deadletter.replay.care import RunsKeeper
from deadletter.replay.machine import ReplayExecutions
from deadletter.routing.router import Router
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count
from deadletter.watch.observation import OldestMessage, QueueState
from deadletter.watch.point import metric_lines
from deadletter.watch.watch import InParallel, Watch, WatchSetup
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
    urls = {
        MAIN: resources.main_url,
        MAIN_DLQ: resources.dlq_url,
        **resources.dedicated,
        **{parking_source(id_): url for id_, url in resources.parking.items()},
    }

    def state(id_: str) -> QueueState:
        return queue_state(clients.sqs, urls[id_])

    def oldest() -> OldestMessage:
        queue = resources.main_url.rpartition("/")[2]
        return oldest_message(cloudwatch(), queue, world.clock())

    def count_metric(name: str, number: int) -> None:
        counts[name] += number

    breaker = breaker_for(pipeline, resources, clients, world)
    if outages is None:
        outages = StepFunctionsExecutions(
            brief_stepfunctions, resources.circuit_machine, pipeline.name
        )
    reconciler = Reconciler(
        pipeline=pipeline.name,
        breaker=breaker,
        outages=outages,
        consumer_pause=consumer_pause_for(resources, clients, breaker, world, count_metric),
        clock=world.clock,
        count_metric=count_metric,
    )
    replays = None
    if executions is None and resources.replay_machine:
        executions = StepFunctionsReplays(brief_stepfunctions(), resources.replay_machine)
    if executions is not None:
        runs = DynamoDBReplayRuns(
            clients.dynamodb, resources.letters_table, pipeline.name, world.clock
        )
        replays = RunsKeeper(
            pipeline=pipeline.name,
            runs=runs,
            executions=executions,
            clock=world.clock,
            count_metric=count_metric,
            announcer=run_announcer_for(pipeline, runs, bus, count_metric),
        ).care
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
    newsroom = None
    if bus is not None:
        newsroom = newsroom_for(
            pipeline,
            resources,
            clients,
            bus,
            settings=settings,
            in_parallel=in_parallel,
            count_metric=count_metric,
            cloudwatch=cloudwatch,
        )
    setup = WatchSetup(
        settings=settings,
        store=DynamoDBWatchStore(clients.dynamodb, resources.letters_table, pipeline.name),
        queues=state,
        sweep=reconciler.reconcile,
        router=router or LambdaRouter(clients.functions, resources.router_function),
        lanes=DynamoDBLanes(
            clients.dynamodb,
            resources.letters_table,
            pipeline.name,
            note_foreign=lambda key: count_metric(Count.FOREIGN_ROW, 1),
        ),
        rescue=partial(start_rescue, clients.functions, resources.redrive_function),
        clock=world.clock,
        in_parallel=in_parallel,
        circuits=breaker.read,
        oldest=oldest,
        causes=DynamoDBCauses(
            clients.dynamodb, resources.circuits_table, pipeline.name, world.new_id
        )
        if pipeline.consumer_library
        else None,
        replays=replays,
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
        news=None if newsroom is None else newsroom.tell,
        counts=counts,
    )
    return Watch(setup)


def _beside(resources: Resources) -> str:
    """What the URLs of our own queues begin with: a parking queue is always ours."""
    return next(iter(resources.parking.values()), resources.dlq_url).rpartition("/")[0]
