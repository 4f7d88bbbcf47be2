"""The adapters of a pipeline: each is put together here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.errors import NoteRow, ignore
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import (
    MAIN,
    MAIN_DLQ,
    ROWS_KEPT,
    originals_object,
    parking_source,
    run_object,
)
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_stepfunctions import SFNClient

    from deadletter.aws.breaker import DynamoDBBreaker
    from deadletter.aws.causes import DynamoDBCauses
    from deadletter.aws.collisions import DynamoDBCollisions
    from deadletter.aws.events import EventBus
    from deadletter.aws.executions import StepFunctionsExecutions
    from deadletter.aws.journal import DynamoDBJournal
    from deadletter.aws.ledger import DynamoDBLedger
    from deadletter.aws.lines import DynamoDBLines
    from deadletter.aws.objects import S3RunObjects
    from deadletter.aws.outcomes import DynamoDBOutcomes
    from deadletter.aws.queue import SqsQueue
    from deadletter.aws.replay_runs import DynamoDBReplayRuns, StepFunctionsReplays
    from deadletter.aws.replay_tickets import DynamoDBTickets
    from deadletter.aws.run_letters import DynamoDBPlacedLetters, DynamoDBStatuses
    from deadletter.aws.waiting_room import DynamoDBWaitingRoom
    from deadletter.aws.watch_store import DynamoDBWatchStore
    from deadletter.message.queue import Queue
    from deadletter.outage.executions import OutageExecutions
    from deadletter.outage.health import Health
    from deadletter.outage.mapping import ConsumerPause
    from deadletter.outage.steps import CircuitAnnouncer
    from deadletter.redrive.concurrency import InParallel
    from deadletter.redrive.mover import Mover
    from deadletter.redrive.report import Tally
    from deadletter.redrive.waiting_room import WaitingRoom
    from deadletter.replay.machine import RunAnnouncer
    from deadletter.routing.router import Router

CountMetric = Callable[[str, int], None]


def count_nothing(_metric: str, _number: int) -> None:
    """For adapters whose counts nobody publishes."""


@dataclass(frozen=True, eq=False, repr=False)
class Stores:
    """The adapters of a pipeline, each loaded and made when it is first asked for, and kept.

    `clients` are those of the function; an adapter whose client it lacks cannot be made.
    `note_refusal`, `note_bad_row` and `count_metric` are told what adapters meet. `asks` is the
    router, if it is not the pipeline's function.
    """

    pipeline: Pipeline
    resources: Resources
    clients: Any
    world: World
    note_refusal: Callable[[str], None] = ignore
    note_bad_row: NoteRow = ignore
    count_metric: CountMetric = count_nothing
    in_parallel: InParallel = in_threads
    asks: Router | None = None

    def telling(self, tally: Tally) -> Stores:
        """Adapters of their own that tell this tally what they meet."""
        return replace(
            self,
            note_refusal=tally.note_trouble,
            note_bad_row=tally.note_bad_row,
            count_metric=tally.count,
        )

    # The circuits table.

    @property
    def _circuits_table(self) -> tuple[Any, str, str]:
        return self.clients.dynamodb, self.resources.circuits_table, self.pipeline.name

    @cached_property
    def circuits(self) -> DynamoDBCircuits:
        return DynamoDBCircuits(*self._circuits_table, self.note_bad_row)

    @cached_property
    def breaker(self) -> DynamoDBBreaker:
        """The circuits, to read and change."""
        from deadletter.aws.breaker import DynamoDBBreaker

        return DynamoDBBreaker(
            *self._circuits_table,
            policy=self.pipeline.circuit,
            clock=self.world.clock,
            random=self.world.random,
            new_id=self.world.new_id,
        )

    def outcomes(self, outages: OutageExecutions | None) -> DynamoDBOutcomes:
        """Counts results; without `outages` the watch starts the outage that they make."""
        from deadletter.aws.outcomes import DynamoDBOutcomes

        return DynamoDBOutcomes(
            *self._circuits_table,
            policy=self.pipeline.circuit,
            breaker=self.breaker,
            outages=outages,
            clock=self.world.clock,
            count_metric=self.count_metric,
        )

    @cached_property
    def causes(self) -> DynamoDBCauses:
        from deadletter.aws.causes import DynamoDBCauses

        return DynamoDBCauses(*self._circuits_table, self.world.new_id)

    @cached_property
    def collisions(self) -> DynamoDBCollisions:
        from deadletter.aws.collisions import DynamoDBCollisions

        return DynamoDBCollisions(*self._circuits_table)

    # The messages table and its bucket.

    @property
    def messages_table(self) -> tuple[Any, str, str]:
        """The client of the messages table, its name, and the pipeline."""
        return self.clients.dynamodb, self.resources.messages_table, self.pipeline.name

    @cached_property
    def ledger(self) -> DynamoDBLedger:
        """It keeps at least as many lives as make a letter poison."""
        from deadletter.aws.ledger import DynamoDBLedger
        from deadletter.failure.ledger import LIVES

        return DynamoDBLedger(
            *self.messages_table,
            self.world.clock,
            ROWS_KEPT,
            lives=max(LIVES, self.pipeline.poison_lives),
            note_bad_row=self.note_bad_row,
        )

    @cached_property
    def lines(self) -> DynamoDBLines | None:
        """The lines of ordering keys; None where no message has one."""
        if self.pipeline.ordering_key is None:
            return None
        from deadletter.aws.lines import DynamoDBLines
        from deadletter.routing.line import patience_of

        return DynamoDBLines(
            *self.messages_table,
            self.world.clock,
            ROWS_KEPT,
            self.ledger.rows,
            patience_of(self.pipeline),
            self.note_bad_row,
        )

    @cached_property
    def journal(self) -> DynamoDBJournal:
        from deadletter.aws.journal import DynamoDBJournal

        _, table, pipeline = self.messages_table
        seen = (self.note_bad_row, self.world.clock)
        return DynamoDBJournal(self.clients.journal, table, pipeline, ROWS_KEPT, *seen)

    @cached_property
    def room(self) -> DynamoDBWaitingRoom:
        """The waiting room; each foreign row that it meets is counted once."""
        from deadletter.aws.waiting_room import DynamoDBWaitingRoom

        return DynamoDBWaitingRoom(
            *self.messages_table,
            self.note_bad_row,
            self.count_foreign,
            s3=self.clients.s3,
            bucket=self.resources.messages_bucket,
            fifo=self.pipeline.fifo,
            clock=self.world.clock,
            note_refusal=self.note_refusal,
        )

    def count_foreign(self, _key: object) -> None:
        """Count a row that somebody else has put among the pipeline's."""
        self.count_metric(Count.FOREIGN_ROW, 1)

    @cached_property
    def watch(self) -> DynamoDBWatchStore:
        from deadletter.aws.watch_store import DynamoDBWatchStore

        return DynamoDBWatchStore(*self.messages_table)

    # Replay runs.

    @cached_property
    def runs(self) -> DynamoDBReplayRuns:
        from deadletter.aws.replay_runs import DynamoDBReplayRuns

        return DynamoDBReplayRuns(*self.messages_table, self.world.clock)

    def statuses(self, run: str) -> DynamoDBStatuses:
        from deadletter.aws.run_letters import DynamoDBStatuses

        return DynamoDBStatuses(*self._of_run(run))

    def tickets(self, run: str) -> DynamoDBTickets:
        from deadletter.aws.replay_tickets import DynamoDBTickets

        return DynamoDBTickets(*self._of_run(run), self.in_parallel)

    def placed_letters(self, run: str) -> DynamoDBPlacedLetters:
        from deadletter.aws.run_letters import DynamoDBPlacedLetters

        return DynamoDBPlacedLetters(*self._of_run(run), self.room)

    def _of_run(self, run: str) -> tuple[Any, str, str, str, Callable[[], float]]:
        """What every adapter is given that keeps the letters of one run."""
        return *self.messages_table, run, self.world.clock

    def objects(self, run: str, folder: Callable[..., str] = run_object) -> S3RunObjects:
        """The objects of one run: pages, manifest and report."""
        from deadletter.aws.objects import S3RunObjects

        bucket = self.resources.messages_bucket
        return S3RunObjects(self.clients.s3, bucket, self.pipeline.name, run, folder)

    def originals(self, run: str) -> S3RunObjects:
        """The objects with the letters of one run, as it took them."""
        return self.objects(run, originals_object)

    def folders(self, folder: Callable[..., str] = run_object) -> Iterator[str]:
        """The runs that have objects."""
        from deadletter.aws.objects import runs_with_objects

        bucket = self.resources.messages_bucket
        return runs_with_objects(self.clients.s3, bucket, self.pipeline.name, folder)

    def replays(self, client: Callable[[], SFNClient]) -> StepFunctionsReplays:
        from deadletter.aws.replay_runs import StepFunctionsReplays

        return StepFunctionsReplays(client, self.resources.replay_machine)

    def run_announcer(self, bus: EventBus | None) -> RunAnnouncer | None:
        """Announces changed replay runs; None without a bus."""
        if bus is None:
            return None
        from deadletter.replay.machine import RunAnnouncer

        name = self.pipeline.name
        return RunAnnouncer(
            runs=self.runs,
            put=lambda event_type, detail: bus.put(event_type, name, detail),
            count_metric=self.count_metric,
        )

    # Queues, and what moves letters between them.

    def queue(self, url: str, home: str = MAIN_DLQ) -> SqsQueue:
        from deadletter.aws.queue import SqsQueue

        sqs, sending = self.clients.sqs, self.clients.sending
        return SqsQueue(sqs, url, self.world.clock, home, self.note_refusal, sending=sending)

    @property
    def parking(self) -> dict[str, str]:
        """The URLs of the parking queues by the id of the source."""
        return {parking_source(id_): url for id_, url in self.resources.parking.items()}

    @property
    def targets(self) -> dict[str, Queue]:
        """A queue for each place that a decision may name."""
        dedicated = {f"dedicated:{id_}": url for id_, url in self.resources.dedicated.items()}
        urls = {MAIN: self.resources.main_url, **self.parking, **dedicated}
        return {target: self.queue(url) for target, url in urls.items()}

    def mover(self, tally: Tally, room: WaitingRoom, targets: Mapping[str, Queue]) -> Mover:
        """Moves letters into the room and to the targets."""
        from deadletter.redrive.mover import Mover

        return Mover(
            fifo=self.pipeline.fifo,
            targets=targets,
            parking_queues=self.pipeline.parking,
            room=room,
            records=self.ledger,
            clock=self.world.clock,
            wait=self.world.wait,
            random=self.world.random,
            in_parallel=self.in_parallel,
            tally=tally,
            ordered=self.pipeline.ordering_key is not None,
        )

    @cached_property
    def router(self) -> Router:
        from deadletter.aws.functions import LambdaRouter

        return self.asks or LambdaRouter(self.clients.functions, self.resources.router_function)

    # Outages.

    def outages(self, client: Callable[[], SFNClient]) -> StepFunctionsExecutions:
        from deadletter.aws.executions import StepFunctionsExecutions

        return StepFunctionsExecutions(client, self.resources.circuit_machine, self.pipeline.name)

    @cached_property
    def consumer_pause(self) -> ConsumerPause | None:
        """Pauses the consumer by its event source mapping. None if we may change no mapping."""
        from deadletter.aws.event_source import LambdaMappings
        from deadletter.outage.mapping import ConsumerPause

        resources = self.resources
        if not resources.consumer_mapping and not resources.consumer_function:
            return None
        return ConsumerPause(
            breaker=self.breaker,
            circuits=self.breaker,
            mappings=LambdaMappings(
                self.clients.functions,
                function=resources.consumer_function,
                queue_arn=resources.main_arn,
                mapping_id=resources.consumer_mapping,
            ),
            clock=self.world.clock,
            count_metric=self.count_metric,
        )

    def bus(self, client: EventBridgeClient) -> EventBus:
        from deadletter.aws.events import EventBus

        return EventBus(client, self.resources.app, self.world.clock)

    def circuit_announcer(self, client: EventBridgeClient) -> CircuitAnnouncer:
        """Announces changed circuits on EventBridge and by metrics."""
        from deadletter.aws.events import EventBridgeCircuitEvents
        from deadletter.outage.steps import CircuitAnnouncer

        name, count = self.pipeline.name, self.count_metric
        announcer = EventBridgeCircuitEvents(self.bus(client), name, count)
        return CircuitAnnouncer(pipeline=name, announcer=announcer, count_metric=count)

    @cached_property
    def health(self) -> Health | None:
        """The health check of the pipeline's dependency; None if it has none."""
        if not self.resources.health_url:
            return None
        from deadletter.outage.health import HEALTH_SECONDS, http_trouble
        from deadletter.webhook.http import HttpsClient

        client = HttpsClient(HEALTH_SECONDS, self.world.clock)
        return partial(http_trouble, self.resources.health_url, client.exchange)
