"""A pipeline in memory with letters in the custody of a replay run, and the run's real worker."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.objects import S3RunObjects
from deadletter.aws.queue import SqsQueue
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.replay_tickets import DynamoDBTickets
from deadletter.aws.run_letters import DynamoDBStatuses
from deadletter.aws.wiring.stores import Stores
from deadletter.contract import ROWS_KEPT, run_lane
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import LaneClaim
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import MAIN, Order
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import SHARDS, WaitingRoom, never
from deadletter.replay.carriers import DirectCarrier
from deadletter.replay.leaving import LeavingSetup, RunLeaving
from deadletter.replay.manifest import Manifest, ManifestIndex, ShardProgress, part_name
from deadletter.replay.names import PART, Name, key_hash, to_lines
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.reconcile import ReconcileSetup, reconcile
from deadletter.replay.run import ReplayRun, RunState, RunSum, aborted
from deadletter.replay.run_lane import claim_of_run
from deadletter.replay.standing import ReplayWorkerSetup
from deadletter.replay.ticket import ReplayOutcome
from deadletter.replay.worker import ReplayWorker, WorkReport
from deadletter.routing.decision import Hold
from deadletter.routing.router import Router
from deadletter.settings.pipeline import Pipeline
from tests.samples import failed
from tests.simulation.stage import PRODUCER, Stage, in_turn, prompt_policy
from tests.tables import BUCKET, LETTERS


def orders_pipeline(**settings: Any) -> Pipeline:
    defaults = {"policy": prompt_policy(), "dedicated": ("slow",), "consumer_library": True}
    return Pipeline("orders", **{**defaults, **settings})


class NoExecutions:
    """Executions that a step of work never starts."""

    def start(self, run: ReplayRun) -> None:
        raise AssertionError(run.execution)

    def running(self) -> Sequence[str]:
        return ()

    def answer(self, token: str) -> None:
        raise AssertionError(token)


@dataclass(eq=False)
class ReplayBench:
    """Letters in the lane of one run: `keys` has the ordering key of each, "" for none.

    `causes` has the cause and tenant of each.
    """

    keys: Sequence[str] = ()
    plan: ReplayPlan = field(default_factory=lambda: ReplayPlan(pipeline="orders", retry_after=0.0))
    stage: Stage = field(default_factory=lambda: Stage(orders_pipeline()))
    state: RunState = RunState.RUNNING
    allowance: int = 0
    rate: float = 100.0
    burst: int = 40
    causes: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.clock = self.stage.clock
        self.tally = Tally()
        stage = self.stage
        self.dynamodb: Any = stage.dynamodb
        self.runs = DynamoDBReplayRuns(self.dynamodb, LETTERS, "orders", self.clock)
        self.run_id = self.plan.run_id
        DynamoDBReplayPlans(self.dynamodb, LETTERS, "orders", self.clock).store(self.plan, None)
        plans = DynamoDBReplayPlans(self.dynamodb, LETTERS, "orders", self.clock)
        plans.keep_asked(self.run_id, asked=False)
        self.runs.create(
            ReplayRun(
                id=self.run_id,
                pipeline="orders",
                state=self.state,
                allowance=self.allowance,
                rate=self.rate,
                burst=self.burst,
                messages=len(self.keys),
                step_began=self.clock(),
            )
        )
        self.objects = S3RunObjects(stage.s3, BUCKET, "orders", self.run_id)  # type: ignore[arg-type]
        self.names = self._take_into_custody()
        self._write_manifest()

    def _take_into_custody(self) -> list[Name]:
        names: list[Name] = []
        orders: list[Order] = []
        for number, key in enumerate(self.keys):
            origin = self.stage.put(json.dumps({"number": number, "key": key}), **self._fifo(key))
            letter = self._letter_of(origin)
            name = Name(
                copy=origin,
                origin=origin,
                place=("", ""),
                key=key_hash(key or origin),
                sequence=f"{number:09}",
                cause=self.causes[number] if self.causes else "",
                tenant=self.causes[number] if self.causes else "",
                first_sent=int(self.clock() * 1000),
            )
            stamp = Stamp(
                origin,
                first_sent=int(self.clock() * 1000),
                sender=PRODUCER,
                run=self.run_id,
                spared=1,
                decision="HOLD",
                because="run",
            )
            hold = Hold(run_lane(self.run_id), never(letter), "run", shard=name.shard)
            orders.append(Order(ReceivedLetter(letter, "", 0.0), hold, stamp))
            names.append(name)
        admitted = self.room.admit(orders)
        assert len(admitted) == len(orders)
        places = {
            item["copy"]["S"]: (item["pk"]["S"], item["sk"]["S"]) for item in self.stage.waiting()
        }
        return [replace(name, place=places[name.copy]) for name in names]

    def _fifo(self, key: str) -> Mapping[str, str]:
        if not self.stage.pipeline.fifo:
            return {}
        return {
            "MessageGroupId": key or "none",
            "MessageDeduplicationId": self.stage.world.new_id(),
        }

    def _letter_of(self, origin: str) -> Letter:
        queue = SqsQueue(self.stage.clients.sqs, self.stage.main, self.clock)
        [received] = queue.receive(10, 1, 0)
        assert received.letter.message_id == origin
        self.stage.sqs.delete_message(QueueUrl=self.stage.main, ReceiptHandle=received.handle)
        return received.letter

    def _write_manifest(self) -> None:
        shards: defaultdict[int, list[Name]] = defaultdict(list)
        for name in sorted(self.names, key=lambda name: name.sort_key):
            shards[name.shard].append(name)
        for shard, names in shards.items():
            for part in range(0, len(names), PART):
                lines = to_lines(names[part : part + PART])
                self.objects.put(part_name(shard, part // PART), lines)
        self.index = ManifestIndex(tuple(len(shards[shard]) for shard in range(SHARDS)), "hash")
        Manifest(self.objects).seal(self.index)

    # What the run has

    @property
    def room(self) -> WaitingRoom:
        stage = self.stage
        return Stores(
            stage.pipeline, stage.resources, stage.clients, stage.world, note_refusal=print
        ).room

    @property
    def tickets(self) -> DynamoDBTickets:
        return DynamoDBTickets(
            self.dynamodb,
            LETTERS,
            pipeline="orders",
            run=self.run_id,
            clock=self.clock,
            in_parallel=in_turn,
        )

    @property
    def ledger(self) -> DynamoDBLedger:
        stage = self.stage
        return Stores(stage.pipeline, stage.resources, stage.clients, stage.world).ledger

    @property
    def run(self) -> ReplayRun:
        run = self.runs.read(self.run_id)
        assert run is not None
        return run

    def queue(self, url: str) -> SqsQueue:
        clients = self.stage.clients
        return SqsQueue(clients.sqs, url, self.clock, sending=clients.sending)

    @property
    def mover(self) -> Mover:
        stage = self.stage
        return Mover(
            fifo=stage.pipeline.fifo,
            targets={
                MAIN: self.queue(stage.main),
                "parking:default": self.queue(stage.parking),
                "dedicated:slow": self.queue(stage.dedicated),
            },
            parking_queues={},
            room=self.room,
            records=self.ledger,
            clock=self.clock,
            wait=stage.world.wait,
            random=stage.world.random,
            in_parallel=in_turn,
            tally=self.tally,
        )

    def worker(
        self,
        shards: Sequence[int] = range(SHARDS),
        *,
        router: Router | None = None,
        carrier: DirectCarrier | None = None,
        **changes: Any,
    ) -> ReplayWorker:
        stage, world = self.stage, self.stage.world
        clients, resources = stage.clients, stage.resources
        setup = ReplayWorkerSetup(
            pipeline=stage.pipeline,
            plan=self.plan,
            run=self.run,
            shards={shard: self.index.shards[shard] for shard in shards},
            manifest=Manifest(self.objects),
            runs=self.runs,
            bids=self.runs,
            tickets=self.tickets,
            statuses=self.statuses,
            ledger=self.ledger,
            room=self.room,
            mover=self.mover,
            router=router or stage.router,
            journal=DynamoDBJournal(clients.journal, LETTERS, "orders", ROWS_KEPT),
            circuits=Stores(stage.pipeline, resources, clients, world).breaker,
            main=self.queue(stage.main),
            tally=self.tally,
            owner=world.new_id(),
            clock=self.clock,
            wait=world.wait,
            new_token=world.new_id,
            in_parallel=in_turn,
            carrier=carrier,
        )
        return ReplayWorker(replace(setup, **changes))

    @property
    def statuses(self) -> DynamoDBStatuses:
        return DynamoDBStatuses(
            self.dynamodb, LETTERS, pipeline="orders", run=self.run_id, clock=self.clock
        )

    def work(self, seconds: float = 20.0, **changes: Any) -> WorkReport:
        return self.worker(**changes).run(self.clock() + seconds)

    def claim(self, shard: int) -> LaneClaim:
        setup = self._leaving()
        return claim_of_run(setup, shard, KnownIntents(setup.journal, self.clock))

    def leave(self, seconds: float = 60.0, **changes: Any) -> bool:
        return RunLeaving(replace(self._leaving(), **changes)).run(self.clock() + seconds)

    def _leaving(self) -> LeavingSetup:
        return LeavingSetup(
            pipeline=self.stage.pipeline,
            plan=self.plan,
            run=self.run,
            index=self.index,
            manifest=Manifest(self.objects),
            statuses=self.statuses,
            tickets=self.tickets,
            ledger=self.ledger,
            room=self.room,
            objects=self.objects,
            journal=DynamoDBJournal(self.stage.clients.journal, LETTERS, "orders", ROWS_KEPT),
            owner=self.stage.world.new_id(),
            router=self.stage.router,
            mover=self.mover,
            tally=self.tally,
            clock=self.clock,
            random=self.stage.world.random,
        )

    def reconcile(self, seconds: float = 60.0, **changes: Any) -> RunSum:
        setup = ReconcileSetup(
            plan=self.plan,
            run=self.run,
            index=self.index,
            manifest=Manifest(self.objects),
            statuses=self.statuses,
            tickets=self.tickets,
            all_tickets=self.tickets.all,
            ledger=self.ledger,
            room=self.room,
            objects=self.objects,
            clock=self.clock,
        )
        return reconcile(replace(setup, **changes), self.clock() + seconds)

    def abort(self, leave_to: str = "parked") -> None:
        after = aborted(
            self.run, at=self.clock(), by="ann", because="wrong letters", leave_to=leave_to
        )
        self.runs.change(self.run, after)

    # What happens around it

    def consume(
        self, succeeds: Callable[[int], bool] = lambda _number: True, **failure: Any
    ) -> list[int]:
        """The consumer takes what is visible; returns the numbers of the letters that it got.

        What fails dies at once: the main queue allows one receive. `failure` are facts of it.
        """
        got: list[int] = []
        for message in self.stage.take(self.stage.main, hide=1):
            number = json.loads(message["Body"])["number"]
            got.append(number)
            mark = stamps.parse(message["MessageAttributes"][stamps.NAME]["StringValue"])
            assert mark is not None
            if not succeeds(number):
                facts = {"at": self.clock(), "attempt": mark.attempt, **failure}
                self.ledger.failed(mark.origin, failed(**facts))
            else:
                self.ledger.recovered(mark.origin, mark.attempt, self.clock())
                self.stage.sqs.delete_message(
                    QueueUrl=self.stage.main, ReceiptHandle=message["ReceiptHandle"]
                )
        return got

    def bring_back(self) -> None:
        """What has died comes to the DLQ, and the redriver brings it where it belongs."""
        self.clock.advance(2)
        self.stage.take(self.stage.main)
        self.stage.run()

    def tried_at(self) -> list[float]:
        """When each try was made whose ticket stands, the first one first."""
        return sorted(ticket.at for ticket in self.tickets.all())

    def progress(self) -> list[ShardProgress]:
        """The progress of each shard, as it is stored."""
        shards = sorted({name.shard for name in self.names})
        return [ShardProgress.of(shard, self.statuses.read(shard)) for shard in shards]

    def outcomes(self) -> dict[int, ReplayOutcome]:
        """The stored outcome of each letter, by its number."""
        found: dict[int, ReplayOutcome] = {}
        by_shard: defaultdict[int, list[Name]] = defaultdict(list)
        for name in sorted(self.names, key=lambda name: name.sort_key):
            by_shard[name.shard].append(name)
        numbers = {name.copy: number for number, name in enumerate(self.names)}
        for shard, names in by_shard.items():
            parts = self.statuses.read(shard)
            for position, name in enumerate(names):
                part = parts.get(position // PART)
                text = part.outcomes if part else ""
                character = text[position % PART : position % PART + 1] or " "
                found[numbers[name.copy]] = ReplayOutcome(character)
        return found

    def in_lane(self) -> list[str]:
        """The copies in the run's lane."""
        lane = f"orders|{run_lane(self.run_id)}|"
        return [
            item["copy"]["S"] for item in self.stage.waiting() if item["lane"]["S"].startswith(lane)
        ]
