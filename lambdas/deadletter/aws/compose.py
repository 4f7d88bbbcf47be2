"""Puts the parts of a pipeline together: ports on one side, AWS on the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeVar

from deadletter.aws.circuits import DynamoDBBreaker, DynamoDBCircuits
from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.clients import (
    CheckClients,
    Clients,
    ConsumerClients,
    OutageClients,
    brief_stepfunctions,
    consumer_call,
    secretsmanager,
    stepfunctions,
)
from deadletter.aws.consumer_function import LambdaConsumer
from deadletter.aws.endpoints import DynamoDBEndpoints
from deadletter.aws.event_source import LambdaMappings
from deadletter.aws.events import EventBridgeCircuitEvents, EventBridgeRuleEvents
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.aws.queue import SqsQueue
from deadletter.aws.registrations import SsmPipelines
from deadletter.aws.router import LambdaRouter
from deadletter.aws.rule_edits import DynamoDBHistory, DynamoDBVerdicts
from deadletter.aws.rules import DynamoDBRules
from deadletter.aws.secrets import SecretsManagerSecrets
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.circuit.transitions import Breaker
from deadletter.failure.ledger import LIVES
from deadletter.message.queue import MAIN_DLQ, SendResult
from deadletter.outage.canary_sources import (
    ASIDE_COOLDOWNS,
    CanaryChoice,
    CanarySource,
    DlqCanaries,
    LaneCanaries,
    MainQueueCanaries,
    Waiting,
)
from deadletter.outage.consumer_steps import ConsumerSteps
from deadletter.outage.event_source import ConsumerPause
from deadletter.outage.execution_step import CircuitAnnouncer
from deadletter.outage.executions import OutageExecutions
from deadletter.outage.health import HttpHealth
from deadletter.outage.prober import Prober
from deadletter.outage.queue_canary import MainQueueSender, SendableLetters
from deadletter.outage.reconciler import Reconciler
from deadletter.processing.batch import Consumer, Handle, unhandled
from deadletter.redrive.mover import MAIN, Mover, Together
from deadletter.redrive.redriver import Redriver, SideBySide
from deadletter.redrive.report import Tally
from deadletter.routing.router import DirectRouter, Router
from deadletter.rules.checker import RuleChecker
from deadletter.settings.pipeline import BadSettings, Mode, Pipeline, Resources, Webhook
from deadletter.webhook.dispatcher import Dispatcher
from deadletter.webhook.http import HttpsClient

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

KEEP_SECONDS = 45 * 86_400.0
"""How long rows of letters and abandoned intents stay: longer than main queue, DLQ and
parking lot can keep a message one after the other (14 days each)."""

ANSWER_MARGIN = 5
"""Seconds past the consumer's own timeout in which its answer may still come."""

FINDING_SECONDS = 10
"""What it may take to find a letter, the permit being taken: empty polls, a look at each shard."""

HEALTH_SECONDS = 5.0
"""How long a dependency may take to say that it is well."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is not the same each time it is asked.

    `clock` gives epoch seconds, `wait` lets seconds pass, `new_id` gives a text that
    nobody else has.
    """

    clock: Callable[[], float]
    wait: Callable[[float], None]
    new_id: Callable[[], str]
    random: Random


def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run calls at the same time; what one of them raises is raised when all have ended."""
    if len(calls) == 1:
        return [calls[0]()]
    with ThreadPoolExecutor(max_workers=max(1, min(len(calls), 16))) as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]


def abreast_in_threads(workers: Sequence[Callable[[], None]]) -> None:
    """Run workers side by side, each to its end."""
    in_threads(workers)


def router_for(
    pipeline: Pipeline, wiring: Resources, clients: Clients, world: World
) -> DirectRouter:
    """The router of a pipeline, reading the real tables."""
    return DirectRouter(
        pipeline=pipeline,
        rules=DynamoDBRules(clients.dynamodb, wiring.rules_table, world.clock),
        ledger=_ledger(pipeline, wiring, clients, world),
        circuits=DynamoDBCircuits(clients.dynamodb, wiring.circuits_table, pipeline.name),
        trusted_senders=frozenset(wiring.trusted_senders),
        clock=world.clock,
        random=world.random,
    )


def rule_checker_for(wiring: Resources, clients: CheckClients, world: World) -> RuleChecker:
    """The app's rule checker."""
    keep_seconds = wiring.audit_days * 86_400.0
    return RuleChecker(
        terms=SsmPipelines(clients.ssm, wiring.registrations, world.clock),
        verdicts=DynamoDBVerdicts(clients.dynamodb, wiring.rules_table),
        history=DynamoDBHistory(clients.dynamodb, wiring.audit_table, world.clock, keep_seconds),
        announcer=EventBridgeRuleEvents(clients.events),
        clock=world.clock,
    )


def consumer_for(
    pipeline: Pipeline,
    wiring: Resources,
    clients: ConsumerClients,
    world: World,
    *,
    handle: Handle = unhandled,
    tell: Callable[[str, int], None],
) -> Consumer:
    """The consumer of a pipeline; `tell` counts what becomes of its outcomes, by figure."""
    name = pipeline.name
    breaker = _breaker(pipeline, wiring, clients, world)
    return Consumer(
        pipeline=pipeline,
        handle=handle,
        log=_ledger(pipeline, wiring, clients, world),
        claims=DynamoDBClaims(
            clients.dynamodb, wiring.letters_table, name, world.clock, pipeline.idempotency_keep
        ),
        circuits=breaker,
        outcomes=DynamoDBOutcomes(
            client=clients.dynamodb,
            table=wiring.circuits_table,
            pipeline=name,
            policy=pipeline.circuit,
            breaker=breaker,
            # Where it may not start outages, the sweep of the next redrive run does.
            outages=StepFunctionsExecutions(brief_stepfunctions(), wiring.circuit_machine, name)
            if wiring.circuit_machine
            else None,
            clock=world.clock,
            tell=tell,
        ),
        queue=SqsQueue(clients.sqs, wiring.main_url, world.clock),
        parking={
            one: SqsQueue(clients.sqs, url, world.clock) for one, url in wiring.parking.items()
        },
        trusted_senders=frozenset(wiring.trusted_senders),
        clock=world.clock,
        random=world.random,
        new_id=world.new_id,
    )


def webhook_consumer_for(
    pipeline: Pipeline,
    wiring: Resources,
    webhook: Webhook,
    clients: ConsumerClients,
    world: World,
    *,
    tell: Callable[[str, int], None],
) -> Consumer:
    """The consumer whose handler is the webhook dispatcher."""
    dispatcher = dispatcher_for(pipeline, wiring, webhook, clients, world)
    return consumer_for(pipeline, wiring, clients, world, handle=dispatcher.deliver, tell=tell)


def dispatcher_for(
    pipeline: Pipeline,
    wiring: Resources,
    webhook: Webhook,
    clients: Clients | ConsumerClients,
    world: World,
) -> Dispatcher:
    """The webhook dispatcher: where the messages of a pipeline go, and how."""
    return Dispatcher(
        webhook=webhook,
        registry=DynamoDBEndpoints(clients.dynamodb, wiring.endpoints_table, world.clock),
        secrets=SecretsManagerSecrets(secretsmanager, webhook.secret_prefix, world.clock),
        post=HttpsClient(webhook.timeout, world.clock),
        body=pipeline.body,
        clock=world.clock,
    )


def redriver_for(
    pipeline: Pipeline,
    wiring: Resources,
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

    sources = {MAIN_DLQ: wiring.dlq_url, **wiring.dedicated}
    if source_id not in sources:
        known = ", ".join(sorted(sources))
        raise BadSettings(f"pipeline {pipeline.name} has no source {source_id!r}; it has {known}")
    main = queue(wiring.main_url)
    room = _room(pipeline, wiring, clients, world)
    tally = Tally()
    mover = Mover(
        fifo=pipeline.fifo,
        targets={
            MAIN: main,
            **{f"parking:{name}": queue(url) for name, url in wiring.parking.items()},
            **{f"dedicated:{name}": queue(url) for name, url in wiring.dedicated.items()},
        },
        parking_for=pipeline.parking_for,
        room=room,
        records=_ledger(pipeline, wiring, clients, world),
        clock=world.clock,
        together=together,
        tally=tally,
    )
    letters = wiring.letters_table
    breaker = _breaker(pipeline, wiring, clients, world)
    if outages is None and wiring.circuit_machine:
        outages = StepFunctionsExecutions(stepfunctions(), wiring.circuit_machine, pipeline.name)
    sweeper, outcomes = None, None
    if outages is not None and source_id == MAIN_DLQ:
        sweeper = Reconciler(
            pipeline=pipeline.name,
            breaker=breaker,
            outages=outages,
            valve=_valve(wiring, clients, breaker, tally.tell),
            clock=world.clock,
            tell=tally.tell,
        )
        outcomes = DynamoDBOutcomes(
            client=clients.dynamodb,
            table=wiring.circuits_table,
            pipeline=pipeline.name,
            policy=pipeline.circuit,
            breaker=breaker,
            outages=outages,
            clock=world.clock,
            tell=tally.tell,
        )
    return Redriver(
        pipeline=pipeline,
        source_id=source_id,
        source=queue(sources[source_id], source_id),
        main=main,
        main_arn=wiring.main_arn,
        mover=mover,
        router=router or LambdaRouter(clients.functions, wiring.router_function),
        journal=DynamoDBJournal(clients.dynamodb, letters, pipeline.name, KEEP_SECONDS),
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
        sweeper=sweeper,
        outcomes=outcomes,
    )


def recovery_for(
    pipeline: Pipeline,
    wiring: Resources,
    clients: OutageClients,
    world: World,
    tell: Callable[[str, int], None],
) -> ConsumerSteps:
    """The steps of a pipeline's outages, the canary aside."""
    breaker = _breaker(pipeline, wiring, clients, world)
    return ConsumerSteps(
        pipeline=pipeline.name,
        policy=pipeline.circuit,
        circuits=breaker,
        valve=_valve(wiring, clients, breaker, tell),
        herald=_herald(pipeline, clients, tell),
        clock=world.clock,
    )


def prober_for(
    pipeline: Pipeline,
    wiring: Resources,
    clients: Clients,
    outage_clients: OutageClients,
    world: World,
    tell: Callable[[str, int], None],
    *,
    router: Router | None = None,
    consumer: LambdaClient | None = None,
) -> Prober:
    """Whoever sends a pipeline's canaries: to the consumer's function, or by the main queue.

    Raises BadSettings for a lease in which no canary could be answered: none would ever
    be sent, and the circuit never close.
    """
    breaker = _breaker(pipeline, wiring, clients, world)
    seconds = wiring.consumer_timeout + ANSWER_MARGIN
    if pipeline.circuit.lease < seconds + FINDING_SECONDS:
        raise BadSettings(
            f"circuit.lease is {pipeline.circuit.lease:g} seconds; allowed: at least"
            f" {seconds + FINDING_SECONDS}, the consumer's timeout and what a probe needs besides"
        )
    call = consumer or consumer_call(seconds)
    return Prober(
        breaker=breaker,
        circuits=breaker,
        sources=_canaries(pipeline, wiring, clients, world, router)
        if wiring.consumer_function
        else [],
        # A consumer that is no function can't be given a letter; with the library, the
        # ledger tells what became of one.
        post=_post(pipeline, wiring, clients, world, tell, router)
        if wiring.main_url and not wiring.consumer_function and _writes_and_moves(pipeline)
        else None,
        consumer=LambdaConsumer(call, wiring.consumer_function),
        answer_seconds=seconds,
        health=HttpHealth(wiring.health_url, HttpsClient(HEALTH_SECONDS, world.clock).exchange)
        if wiring.health_url
        else None,
        herald=_herald(pipeline, outage_clients, tell),
        clock=world.clock,
        new_id=world.new_id,
        tell=tell,
    )


def _canaries(
    pipeline: Pipeline, wiring: Resources, clients: Clients, world: World, router: Router | None
) -> list[CanarySource]:
    """Where canaries come from: first what is dead already, last what has not been tried."""
    main = MainQueueCanaries(
        queue=SqsQueue(clients.sqs, wiring.main_url, world.clock),
        arn=wiring.main_arn,
        key=pipeline.name,
    )
    if pipeline.mode is Mode.OBSERVE:
        # Dead letters are looked at there, and nothing else.
        return [main]
    router = router or LambdaRouter(clients.functions, wiring.router_function)
    return [*_dead(pipeline, wiring, clients, world, Waiting(router)), main]


def _post(
    pipeline: Pipeline,
    wiring: Resources,
    clients: Clients,
    world: World,
    tell: Callable[[str, int], None],
    router: Router | None,
) -> MainQueueSender:
    """Sends canaries through the main queue; dead letters alone, for what lies in it already
    the consumer takes by itself.
    """
    main = SqsQueue(clients.sqs, wiring.main_url, world.clock)
    ledger = _ledger(pipeline, wiring, clients, world)
    choice = SendableLetters(
        router=router or LambdaRouter(clients.functions, wiring.router_function),
        ledger=ledger,
        main=main,
        aside_seconds=_aside_seconds(pipeline),
        clock=world.clock,
    )

    def mover_for(tally: Tally) -> Mover:
        return Mover(
            fifo=pipeline.fifo,
            targets={MAIN: main},
            parking_for={},
            room=_room(pipeline, wiring, clients, world),
            records=ledger,
            clock=world.clock,
            together=in_threads,
            tally=tally,
        )

    return MainQueueSender(
        sources=_dead(pipeline, wiring, clients, world, choice),
        choice=choice,
        mover_for=mover_for,
        ledger=ledger,
        tell=tell,
    )


def _writes_and_moves(pipeline: Pipeline) -> bool:
    """Whether its consumer says in the ledger what became of a letter that we may move."""
    return pipeline.consumer_library and pipeline.mode is not Mode.OBSERVE


def _aside_seconds(pipeline: Pipeline) -> float:
    return ASIDE_COOLDOWNS * pipeline.circuit.cooldown_cap


def _dead(
    pipeline: Pipeline, wiring: Resources, clients: Clients, world: World, choice: CanaryChoice
) -> list[DlqCanaries | LaneCanaries]:
    """Where letters wait for a circuit, outside the main queue."""
    journal = DynamoDBJournal(clients.dynamodb, wiring.letters_table, pipeline.name, KEEP_SECONDS)
    room = _room(pipeline, wiring, clients, world)
    return [
        DlqCanaries(
            queue=SqsQueue(clients.sqs, wiring.dlq_url, world.clock),
            arn=wiring.dlq_arn,
            main_arn=wiring.main_arn,
            fifo=pipeline.fifo,
            choice=choice,
            journal=journal,
            room=room,
            aside_seconds=_aside_seconds(pipeline),
            clock=world.clock,
        ),
        LaneCanaries(
            arn=wiring.dlq_arn,
            fifo=pipeline.fifo,
            room=room,
            choice=choice,
            journal=journal,
            owner=world.new_id,
            clock=world.clock,
            random=world.random,
        ),
    ]


def _breaker(
    pipeline: Pipeline,
    wiring: Resources,
    clients: Clients | OutageClients | ConsumerClients,
    world: World,
) -> DynamoDBBreaker:
    return DynamoDBBreaker(
        client=clients.dynamodb,
        table=wiring.circuits_table,
        pipeline=pipeline.name,
        policy=pipeline.circuit,
        clock=world.clock,
        random=world.random,
        new_id=world.new_id,
    )


def _valve(
    wiring: Resources,
    clients: Clients | OutageClients,
    breaker: Breaker,
    tell: Callable[[str, int], None],
) -> ConsumerPause | None:
    """The consumer's mapping in our hand, where the pipeline has one that we may touch."""
    if not wiring.consumer_mapping and not wiring.consumer_function:
        return None
    mappings = LambdaMappings(
        clients.functions,
        function=wiring.consumer_function,
        queue_arn=wiring.main_arn,
        mapping_id=wiring.consumer_mapping,
    )
    return ConsumerPause(breaker=breaker, mappings=mappings, tell=tell)


def _herald(
    pipeline: Pipeline, clients: OutageClients, tell: Callable[[str, int], None]
) -> CircuitAnnouncer:
    announcer = EventBridgeCircuitEvents(clients.events, pipeline.name, tell)
    return CircuitAnnouncer(pipeline=pipeline.name, announcer=announcer, tell=tell)


def _room(
    pipeline: Pipeline, wiring: Resources, clients: Clients, world: World
) -> DynamoDBWaitingRoom:
    return DynamoDBWaitingRoom(
        dynamodb=clients.dynamodb,
        table=wiring.letters_table,
        s3=clients.s3,
        bucket=wiring.letters_bucket,
        pipeline=pipeline.name,
        fifo=pipeline.fifo,
        clock=world.clock,
    )


def _ledger(
    pipeline: Pipeline, wiring: Resources, clients: Clients | ConsumerClients, world: World
) -> DynamoDBLedger:
    return DynamoDBLedger(
        clients.dynamodb,
        wiring.letters_table,
        pipeline.name,
        world.clock,
        KEEP_SECONDS,
        lives=max(LIVES, pipeline.poison_lives),
    )
