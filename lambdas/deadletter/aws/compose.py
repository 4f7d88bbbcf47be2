"""Puts the parts of a pipeline together: ports on one side, AWS on the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from deadletter.aws.announcer import EventBridgeAnnouncer
from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.clients import CheckClients, Clients
from deadletter.aws.endpoints import DynamoDBEndpoints
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.queue import SqsQueue
from deadletter.aws.registrations import SsmTerms
from deadletter.aws.router import LambdaRouter
from deadletter.aws.rule_edits import DynamoDBHistory, DynamoDBVerdicts
from deadletter.aws.rules import DynamoDBRules
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.http import Poster
from deadletter.mover import MAIN, Mover, Together
from deadletter.queue import MAIN_DLQ, Sending
from deadletter.redriver import Abreast, Redriver
from deadletter.report import Tally
from deadletter.router import DirectRouter, Router
from deadletter.rule_check import RuleChecker
from deadletter.settings import BadSettings, Pipeline, Webhook, Wiring
from deadletter.webhook import Dispatcher

KEEP_SECONDS = 45 * 86_400.0
"""How long rows of letters and abandoned intents stay: longer than main queue, DLQ and
parking lot can keep a message one after the other (14 days each)."""

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


def router_for(pipeline: Pipeline, wiring: Wiring, clients: Clients, world: World) -> DirectRouter:
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


def rule_checker_for(wiring: Wiring, clients: CheckClients, world: World) -> RuleChecker:
    """The app's rule checker."""
    keep_seconds = wiring.audit_days * 86_400.0
    return RuleChecker(
        terms=SsmTerms(clients.ssm, wiring.registrations, world.clock),
        verdicts=DynamoDBVerdicts(clients.dynamodb, wiring.rules_table),
        history=DynamoDBHistory(clients.dynamodb, wiring.audit_table, world.clock, keep_seconds),
        announcer=EventBridgeAnnouncer(clients.events),
        clock=world.clock,
    )


def dispatcher_for(
    pipeline: Pipeline, wiring: Wiring, webhook: Webhook, clients: Clients, world: World
) -> Dispatcher:
    """The webhook dispatcher of a pipeline."""
    return Dispatcher(
        pipeline=pipeline,
        registry=DynamoDBEndpoints(clients.dynamodb, wiring.endpoints_table),
        post=Poster(webhook.timeout),
        trusted_senders=frozenset(wiring.trusted_senders),
        allow_loopback=webhook.allow_loopback,
        clock=world.clock,
    )


def redriver_for(
    pipeline: Pipeline,
    wiring: Wiring,
    clients: Clients,
    world: World,
    *,
    source_id: str = MAIN_DLQ,
    router: Router | None = None,
    together: Together[Sending] = in_threads,
    abreast: Abreast = abreast_in_threads,
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
    room = DynamoDBWaitingRoom(
        dynamodb=clients.dynamodb,
        table=wiring.letters_table,
        s3=clients.s3,
        bucket=wiring.letters_bucket,
        pipeline=pipeline.name,
        fifo=pipeline.fifo,
        clock=world.clock,
    )
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
        circuits=DynamoDBCircuits(clients.dynamodb, wiring.circuits_table, pipeline.name),
        lease=DynamoDBLease(
            clients.dynamodb, letters, pipeline.name, source_id, pipeline.rate, pipeline.burst
        ),
        tally=tally,
        owner=world.new_id(),
        clock=world.clock,
        wait=world.wait,
        abreast=abreast,
    )


def _ledger(pipeline: Pipeline, wiring: Wiring, clients: Clients, world: World) -> DynamoDBLedger:
    return DynamoDBLedger(
        clients.dynamodb, wiring.letters_table, pipeline.name, world.clock, KEEP_SECONDS
    )
