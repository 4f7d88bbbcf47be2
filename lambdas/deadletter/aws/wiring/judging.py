"""Puts together what judges: the functions `route`, `check_rules`, `circuit`, `watch`, and
`first_heartbeat`, a custom resource of each pipeline's stack.

Each loads what it needs when it is put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from deadletter.aws.clients import brief_cloudwatch, brief_events, brief_stepfunctions
from deadletter.aws.clients import check_clients as check_clients
from deadletter.aws.clients import outage_clients as outage_clients
from deadletter.aws.clients import router_clients as router_clients
from deadletter.aws.clients import watch_clients as watch_clients
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import ENDPOINTS, MAIN, MAIN_DLQ, MINUTE, rule_checker

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

    from deadletter.aws.clients import (
        CheckClients,
        Clients,
        OutageClients,
        RouterClients,
        WatchClients,
    )
    from deadletter.aws.events import EventBus
    from deadletter.aws.stack_request import Put, StackRequest
    from deadletter.aws.wiring.stores import CountMetric, Stores
    from deadletter.message.queue import QueueState
    from deadletter.outage.executions import OutageExecutions
    from deadletter.outage.steps import ConsumerSteps
    from deadletter.redrive.concurrency import InParallel
    from deadletter.replay.machine import ReplayExecutions
    from deadletter.routing.direct_router import DirectRouter
    from deadletter.routing.router import Router
    from deadletter.rules.checker import CheckedBatch
    from deadletter.settings.pipeline import Pipeline
    from deadletter.settings.resources import Resources
    from deadletter.watch.first_heartbeat import Beat, Heartbeats
    from deadletter.watch.news import Newsroom
    from deadletter.watch.observation import OldestMessage
    from deadletter.watch.watch import Watch
    from deadletter.watch.watch_settings import WatchSettings

NOTHING_TO_DO = "nothing to do"
FAILED = "failed"


def router_for(
    pipeline: Pipeline, resources: Resources, clients: Clients | RouterClients, world: World
) -> DirectRouter:
    """The router of a pipeline, on the tables of `resources`."""
    from deadletter.aws.replay_tickets import DynamoDBLiveRuns
    from deadletter.aws.rows import MOST_BROKEN, MetRows
    from deadletter.aws.rules import DynamoDBRules
    from deadletter.aws.wiring.stores import Stores
    from deadletter.routing.direct_router import DirectRouter

    schema = None
    if resources.replay_schema:
        from deadletter.rules.json_schema import unpacked

        schema = unpacked(resources.replay_schema)
    bad_rows = MetRows[str](most=MOST_BROKEN)
    stores = Stores(pipeline, resources, clients, world, note_bad_row=bad_rows.add)
    return DirectRouter(
        pipeline=pipeline,
        rules=DynamoDBRules(
            clients.dynamodb, resources.rules_table, resources.messages_table, world.clock
        ),
        ledger=stores.ledger,
        circuits=stores.circuits,
        trusted_senders=frozenset(resources.trusted_senders),
        clock=world.clock,
        random=world.random,
        causes=stores.causes,
        live_runs=DynamoDBLiveRuns(*stores.messages_table, bad_rows.add),
        # A FIFO group moves as a whole, in its order; and the library alone writes lines.
        lines=stores.lines if pipeline.consumer_library and not pipeline.fifo else None,
        schema=schema,
        bad_rows=bad_rows.take,
    )


def edits_handler_for(
    resources: Resources, clients: CheckClients, world: World
) -> Callable[[Sequence[Mapping[str, Any]]], CheckedBatch]:
    """What is done with an event of a stream: rules are checked, and endpoints' edits kept."""
    from deadletter.aws.edits import (
        DynamoDBBookVersions,
        DynamoDBCheckedRules,
        DynamoDBEndpointHistory,
        DynamoDBHistory,
        SsmPipelines,
        edits,
    )
    from deadletter.aws.events import EventBridgeRuleEvents, EventBus
    from deadletter.rules.checker import RuleChecker

    tables, clock = clients.dynamodb, world.clock
    rules = DynamoDBCheckedRules(tables, resources.rules_table)
    versions = DynamoDBBookVersions(tables, resources.messages_table)
    history = tables, resources.audit_table, clock, resources.audit_days * 86_400.0
    checker = RuleChecker(
        terms=SsmPipelines(clients.ssm, resources.registrations, clock),
        verdicts=rules,
        history=DynamoDBHistory(*history),
        announcer=EventBridgeRuleEvents(EventBus(clients.events, resources.app, clock)),
        versions=versions,
        counts=versions,
        namesakes=rules,
        clock=clock,
    )
    endpoints = DynamoDBEndpointHistory(*history, secrets=f"{resources.app}/webhooks/")

    def handle(records: Sequence[Mapping[str, Any]]) -> CheckedBatch:
        if is_of_endpoints(records):
            return endpoints.keep(records)
        return checker.check(edits(records))

    return handle


def is_of_endpoints(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an event is of the endpoints table, and not of the rules table."""
    return any(ENDPOINTS.partition in record["dynamodb"]["Keys"] for record in records)


def consumer_steps_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: OutageClients,
    world: World,
    count_metric: CountMetric,
) -> ConsumerSteps:
    """The steps of a pipeline's outages, except for the canary."""
    from deadletter.aws.wiring.stores import Stores
    from deadletter.outage.steps import ConsumerSteps

    stores = Stores(pipeline, resources, clients, world, count_metric=count_metric)
    return ConsumerSteps(
        pipeline=pipeline.name,
        policy=pipeline.circuit,
        circuits=stores.breaker,
        consumer_pause=stores.consumer_pause,
        announcer=stores.circuit_announcer(clients.events),
        clock=world.clock,
        admits_a_rate=pipeline.consumer_library,
    )


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
    import botocore

    from deadletter.aws.events import EventBus
    from deadletter.aws.functions import start_rescue
    from deadletter.aws.metrics import oldest_message
    from deadletter.aws.queue import queue_state
    from deadletter.aws.shared_look import AppLook
    from deadletter.aws.waiting_room import DynamoDBLanes
    from deadletter.aws.wiring.stores import Stores
    from deadletter.outage.reconciler import Reconciler
    from deadletter.replay.care import RunsKeeper
    from deadletter.watch.watch import Watch, WatchSetup
    from deadletter.watch.watch_settings import WatchSettings, alarms_from_json

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
        executions = stores.replays(brief_stepfunctions)
    settings = WatchSettings(
        pipeline=pipeline.name,
        mode=pipeline.mode,
        fifo=pipeline.fifo,
        every=float(resources.redrive_every or MINUTE),
        message_ttl=pipeline.message_ttl,
        dedicated=tuple(resources.dedicated),
        parking=tuple(resources.parking),
        alarms=alarms_from_json(resources.watch),
        botocore=botocore.__version__,
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
            lanes=DynamoDBLanes(*stores.messages_table, note_foreign=stores.count_foreign),
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
                resources.messages_table,
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
    from deadletter.aws.cause_entries import DynamoDBCauseEntries
    from deadletter.aws.metrics import recovered_letters
    from deadletter.watch.news import Newsroom

    app, pipeline = stores.resources.app, stores.pipeline
    index = DynamoDBCauseEntries(*stores.messages_table, note_foreign=stores.count_foreign)
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


@dataclass(frozen=True, slots=True)
class FirstHeartbeats:
    """Answers CloudFormation's requests for first heartbeats, whatever happens to them.

    A heartbeat that could not be written is a false page; a request without an answer is a
    stack that does not deploy.
    """

    heartbeats: Heartbeats
    put: Put
    world: World

    def handle(self, event: Mapping[str, Any], deadline: float) -> Beat:
        """Do what the event asks for and answer it before `deadline`; raises AnswerNotTaken."""
        from deadletter.aws.stack_request import ANSWERING, give_answer, stack_request

        request = stack_request(event)
        beat = self._beat(request, deadline - ANSWERING)
        reason = f"first heartbeat: {beat.outcome} {beat.why}".strip()
        answer = request.success(_physical_id(request), reason)
        give_answer(request.answer_to, answer, put=self.put, wait=self.world.wait)
        return beat

    def _beat(self, request: StackRequest, deadline: float) -> Beat:
        from deadletter.watch.first_heartbeat import Beat, first_heartbeat

        if request.deletes:
            return Beat(NOTHING_TO_DO)
        try:
            return first_heartbeat(
                str(request.properties["Pipeline"]),
                self.heartbeats,
                deadline=deadline,
                clock=self.world.clock,
                wait=self.world.wait,
            )
        except Exception as error:  # a defect of ours must not stop a deployment
            return Beat(FAILED, type(error).__name__)


def first_heartbeats_for(app: str, world: World) -> FirstHeartbeats:
    """The custom resource of one app."""
    from deadletter.aws.clients import ca_bundle, heartbeat_client
    from deadletter.aws.metrics import CloudWatchHeartbeats
    from deadletter.aws.stack_request import put_over_https

    return FirstHeartbeats(
        CloudWatchHeartbeats(heartbeat_client(), app), put_over_https(ca_bundle()), world
    )


def _physical_id(request: StackRequest) -> str:
    """One id for each pipeline, so that an update replaces nothing."""
    return f"first-heartbeat-{request.properties.get('Pipeline', 'unknown')}"
