"""One seed, one schedule: two redrivers, two consumers, a producer and an operator, and faults.

Rescues of the DLQ, the parking lot and the dedicated DLQ may run at the same time.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from random import Random
from typing import Any, Self
from unittest.mock import patch

from botocore.config import Config

from deadletter.aws import clients as production_clients
from deadletter.aws import queue as sqs_adapter
from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.clients import Clients, ConsumerClients
from deadletter.aws.collisions import DynamoDBCollisions
from deadletter.aws.wiring import stores
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.moving import redriver_for
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import DAY, PARKED_LANE, dedicated_lane
from deadletter.failure.causes import BEFORE, FailedTry, Second
from deadletter.failure.classify import diagnose
from deadletter.failure.fate import Fate
from deadletter.failure.signals import Permanent, Skip
from deadletter.message.envelope import Envelope
from deadletter.message.letter import Letter, from_api, to_event
from deadletter.pace.run import RunPaid, rate_of
from deadletter.processing.batch import Consumer
from deadletter.processing.delivery import Delivery
from deadletter.redrive import openings, waiting_room
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.report import Report
from deadletter.redrive.source_memory import PAST, UNKNOWN, Drain, SourceMemory
from deadletter.routing import ordering
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from deadletter.testing.clock import START
from tests.simulation.scheduler import (
    EVERYWHERE,
    ONCE,
    Client,
    Crash,
    Fault,
    Patience,
    Plan,
    Process,
    Scheduler,
    TurnLock,
)
from tests.simulation.stage import Stage, attribute, ids_from
from tests.simulation.witness import (
    BY_SQS,
    EXTRA,
    FORGED,
    PUBLISHED,
    Broken,
    Entry,
    Witness,
    uid_of,
)
from tests.tables import CIRCUITS, LETTERS

ATTEMPTS = 3
KINDS = (
    *("good", "good", "flaky", "flaky", "poison", "malformed"),
    *("ten", "badten", "large", "tenantb", "forged"),
    *("twin", "echo", "rival", "rival", "refused", "void"),
)
"""What producers send: a flaky message fails in its first two lives, poison in all of them.

A twin is sent twice, and so is an echo, which works at once; a rival has another's business
key, a refused one is refused by the business, with a void one there is nothing to do.
"""

SEND_TO_DELETE = ("send_message_batch", "update_item", "delete_message_batch", "batch_write_item")
"""The calls from a send to the delete of what was sent."""

RESCUES = ("dlq", "parking:default", "parking:default", "slow", "a run of slow")
"""What is rescued beside ordinary runs; the dedicated DLQ's own run opens its lane again."""

ROWS_LONGER = 2
"""Hours that rows are kept longer than letters, where a queue keeps these for hours."""

LIFE = 55.0
"""Seconds that a redriver's function may run; then it is killed in the middle of a call."""

LONGEST_LIFE = 900.0
"""Seconds: what Lambda allows at most."""

TIMEOUT = 20.0
"""Seconds that the consumer's function may run; its messages are hidden for ten more."""


TURNS = 60
"""Turns after the faults in which a letter leaves that is behind no other one."""

ROUND, LONG_TURN, SHORT_TURN = 6, 2_500.0, 60.0
"""One turn of so many comes after a long time, in seconds, and the others after a short one."""

TURNS_TO_DIE = 2
"""Turns from a send until its letter lies in the DLQ again."""

SLOW_LANE = dedicated_lane("slow")

NO_WAIT = Backoff(base=0, factor=1, cap=0, floor=0)

# The breaker has a simulator of its own; here nobody would close a circuit again.
NEVER_TRIPS = CircuitPolicy(minimum=1_000_000, consecutive=0)


@dataclass(frozen=True, slots=True)
class Configured:
    """A client as production makes it: its service, and how long it waits."""

    service: str
    patience: Patience


@cache
def configured() -> Mapping[str, Configured]:
    """The redriver's own clients, by their name in Clients."""

    def client(service: str, config: Config) -> Any:
        settings: Any = config
        tries = settings.retries["total_max_attempts"]
        return Configured(service, Patience(settings.connect_timeout, settings.read_timeout, tries))

    with patch.object(production_clients, "client_of", client):
        clients = production_clients.clients.__wrapped__()
        made = {field.name: getattr(clients, field.name) for field in fields(Clients)}
        # Some are only made when they are asked for something.
        return {name: Configured(each.service, each.patience) for name, each in made.items()}


@dataclass(frozen=True, slots=True)
class Spell:
    """A time in which each call to a service takes up to so many seconds longer, or hangs."""

    service: str
    seconds: float
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schedule is made of; the rest follows from the seed.

    `workers` and `rate` are those of a run, `life` the seconds that its function may run.
    With `stale`, reads that ask for no consistency see the tables as they were a while ago, or
    unless it `settles` as they were when the faults began; `page` is the number of items on a
    page; `hours` is the retention of the queues, and the rows of the journal and the ledger live
    as much longer as they do in production. With `known_causes` letters have been refused before,
    so that a consumer parks such a one in its first receive. If it `parks` what collides, the
    pipeline is past its first day.
    """

    fifo: bool = False
    kinds: tuple[str, ...] = ("good",)
    backoff: Backoff = NO_WAIT
    always_leased: bool = False
    lagging: bool = False
    random_queue: bool = False
    rules: bool = False
    operator: bool = False
    redrivers: int = 1
    minutes: int = 3
    skew: float = 0.0
    apart: float = 7.0
    rule: str | None = None
    keyed: bool = True
    parks: bool = True
    library: bool = False
    effort: float = 1.0
    batch: int = 10
    rescues: tuple[str, ...] = ()
    workers: int = 1
    rate: float | None = None
    life: float = LIFE
    spells: tuple[Spell, ...] = ()
    stale: bool = False
    settles: bool = True
    page: int | None = None
    hours: int | None = None
    killed_consumers: bool = False
    known_causes: bool = False


def shape_of(seed: int) -> Shape:
    """The shape of the random schedule with this seed."""
    random = Random(seed * 7919 + 17)
    backoffs = (
        Backoff(base=0, factor=1, cap=0, floor=0),
        Backoff(base=40, factor=2, cap=300, floor=5),
        Backoff(base=1_500, factor=2, cap=4_000, floor=1_000),
        Backoff(base=1_500, factor=1, cap=1_500, floor=0),
    )
    fifo = random.random() < 0.3
    return Shape(
        fifo=fifo,
        kinds=tuple(random.choice(KINDS) for _ in range(random.randint(1, 5))),
        backoff=random.choice(backoffs),
        always_leased=random.random() < 0.7,
        lagging=random.random() < 0.3,
        random_queue=random.random() < 0.5,
        operator=random.random() < 0.5,
        redrivers=2,
        minutes=random.randint(2, 4),
        skew=random.choice((0.0, 5.0)),
        apart=random.choice((0.0, 0.2, 7.0)),
        rule=random.choice((None, None, "DELAYED_REDRIVE")),
        keyed=random.random() < 0.6,
        parks=random.random() < 0.6,
        library=random.random() < 0.5,
        rescues=tuple(random.choices(RESCUES, k=random.choice((0, 0, 3)))),
        workers=random.choice((1, 1, 2)),
        rate=random.choice((None, None, 0.2)),
        life=random.choice((LIFE, LIFE, 300.0)),
        spells=spells_from(random),
        stale=random.random() < 0.5,
        settles=random.random() < 0.5,
        page=random.choice((None, None, 1, 2)),
        hours=random.choice((None, 3)),
        killed_consumers=random.random() < 0.5,
        known_causes=random.random() < 0.7,
    )


def spells_from(random: Random) -> tuple[Spell, ...]:
    """Times in which a service is slow as a whole, or hangs; mostly none."""
    spells = []
    for service in ("s3", "dynamodb", "sqs"):
        if random.random() < 0.15:
            begins = random.random() * 150
            seconds = random.choice((1.0, 4.0, math.inf))
            spells.append(Spell(service, seconds, begins, begins + random.random() * 150))
    return tuple(spells)


def random_plan(seed: int) -> Plan:
    """Faults at a rate that the seed chooses, on the calls of redrivers, consumers or both."""
    random = Random(seed * 104_729 + 3)
    rate = random.choice((0.0, 0.02, 0.05, 0.15))
    # One kind alone, again and again, finds what a mixture rarely hits twice.
    kinds = (random.choice(EVERYWHERE),) if random.random() < 0.5 else EVERYWHERE
    struck = random.choice(("redriver", "consumer", ("redriver", "consumer")))
    # Between a send and its mark a fault has consequences that it has nowhere else.
    calls = random.choice((None, None, None, SEND_TO_DELETE, SEND_TO_DELETE[:1]))
    if calls is not None:
        rate = 4 * rate

    def plan(process: Process, name: str, _number: int) -> Fault | None:
        if not process.name.startswith(struck) or (calls is not None and name not in calls):
            return None
        return random.choice(kinds) if random.random() < rate else None

    return plan


class FreeLease:
    """A lease that everybody gets, and that forgets: safety does not hang on it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def acquire(self, owner: str, now: float, until: float) -> RunPaid | None:
        return RunPaid(rate_of(self._pipeline.first_rate), 0.0)

    def read(self) -> SourceMemory:
        # The first runs over what was there before the deployment are over.
        return replace(UNKNOWN, first_step=PAST)

    def record(self, memory: SourceMemory, before: SourceMemory = UNKNOWN) -> None:
        return

    def record_drain(self, drain: Drain) -> None:
        return

    def of_shard(self, number: int) -> FreeLease:
        return self

    def give_back(self, owner: str, paid: RunPaid, report: Report, now: float) -> None:
        return


class Simulation:
    """One schedule, run to its end and then healed; raises Broken at the first broken promise."""

    def __init__(self, seed: int, shape: Shape, plan: Plan) -> None:
        self._shape = shape
        self._random = Random(seed)
        self._healing = False
        self.reports: list[Report] = []
        self.scheduler = Scheduler(
            seed, START, lambda p, name, n: None if self._healing else plan(p, name, n)
        )
        pipeline = self._pipeline(shape)
        self.stage = Stage(
            pipeline,
            clock=self.scheduler.clock,
            seed=seed,
            random=Random(seed + 1) if shape.random_queue else None,
            lagging=shape.lagging,
            stale=shape.stale,
            page=shape.page,
            hours=shape.hours,
        )
        if shape.spells:
            self.scheduler.delays = self._delay
        self.witness = self._witness(shape)
        self._run_ids = ids_from(seed + 2)
        self._lives: dict[str, int] = {}

    def _pipeline(self, shape: Shape) -> Pipeline:
        return Pipeline(
            "orders",
            fifo=shape.fifo,
            policy=RetryPolicy(shape.backoff, ATTEMPTS),
            context={"tenantId": "body.tenantId"},
            workers=shape.workers,
            **({} if shape.rate is None else {"fixed_rate": shape.rate}),
            dedicated=("slow",),
            consumer_library=shape.library,
            idempotency_key="body.key" if shape.keyed else None,
            circuit=NEVER_TRIPS,
        )

    def _witness(self, shape: Shape) -> Witness:
        return Witness(
            self.scheduler,
            self.stage.sqs,
            self.stage.dynamodb,
            self.stage.s3,
            main=self.stage.main,
            dlq=self.stage.dlq,
            parking=self.stage.parking,
            max_attempts=ATTEMPTS,
            fifo=shape.fifo,
            keyed=shape.keyed,
            parks_collisions=shape.parks,
            workers=shape.workers,
        )

    def run(self) -> Self:
        """Run, heal, check."""
        with (
            patch.object(sqs_adapter, "_entry", _remembering(sqs_adapter._entry)),
            # The same code with two shards a lane: most looks into eight find nothing.
            patch.object(waiting_room, "SHARDS", 2),
            patch.object(openings, "SHARDS", 2),
            patch.object(ordering, "SHARDS", 2),
            patch("threading.Lock", partial(TurnLock, self.scheduler)),
            self._compressed(),
        ):
            self._run()
        return self

    @contextlib.contextmanager
    def _compressed(self) -> Iterator[None]:
        """Hours of retention instead of days, for queues and rows alike."""
        if self._shape.hours is None:
            yield
            return
        kept = (self._shape.hours + ROWS_LONGER) * 3_600
        with patch.object(stores, "ROWS_KEPT", kept):
            yield

    def _delay(self, service: str) -> float:
        if self._healing:
            return 0.0
        now = self.scheduler.now - START
        for spell in self._shape.spells:
            if spell.service == service and spell.begins <= now < spell.ends:
                return spell.seconds
        return 0.0

    def _run(self) -> None:
        """Everybody acts, and faults strike; then all has to heal."""
        self._remember_first_batch()
        self._remember_causes()
        self._produce()
        for number in range(self._shape.redrivers):
            self.scheduler.add(self._redriver(number))
        self.scheduler.add(self._consumer("consumer0"))
        if self._shape.redrivers > 1:
            self.scheduler.add(self._consumer("consumer1"))
        if self._shape.operator:
            self.scheduler.add(self._operator())
        if self._shape.rescues:
            self.scheduler.add(self._rescuer())
        if self._shape.stale or self._shape.hours is not None:
            self.scheduler.add(self._replica())
        self.scheduler.run()
        self._heal()

    def _remember_first_batch(self) -> None:
        """It was a day ago, if what collides is parked."""
        if self._shape.parks:
            dynamodb: Any = self.stage.dynamodb
            DynamoDBCollisions(dynamodb, CIRCUITS, "orders").count({}, (), START - DAY)

    def _remember_causes(self) -> None:
        """Half an hour ago letters like those that fail for good failed, too."""
        if not self._shape.known_causes:
            return
        at = START - BEFORE / 2
        failed = []
        for uid, body in (("refused", "{}"), ("malformed", "{~")):
            try:
                self._judge(uid, body)
            except (ValueError, Permanent) as error:
                found = diagnose(error, Letter(uid, body), now=at)
                failed.append(FailedTry(found.fingerprint, found.error_type, len(failed)))
        dynamodb: Any = self.stage.dynamodb
        store = DynamoDBCauses(dynamodb, CIRCUITS, "orders", lambda: "long ago")
        store.count([Second(int(at), len(failed), tuple(failed))], at)

    # Actors

    def _produce(self) -> None:
        for number, kind in enumerate(self._shape.kinds):
            uid = f"{kind}{number}"
            tenant = "b" if kind == "tenantb" else "a"
            key = "shared" if kind == "rival" else uid
            body = f'{{"tenantId": "{tenant}", "key": "{key}", "uid": "~{uid}~"}}'
            if kind == "malformed":
                body = f"{{~{uid}~"
            if kind == "large":
                body = body[:-1] + ', "x": "%s"}' % ("x" * 5_000)
            attributes: dict[str, Any] = {"n": attribute(str(number), "Number.int")}
            if kind in ("ten", "badten"):
                attributes = {f"a{n}": attribute(bytes([n])) for n in range(10)}
            if kind == "forged":
                attributes["Redrive"] = attribute(f'{{"origin":"{FORGED}","attempt":0}}')
            for copy in range(2 if kind in ("twin", "echo") else 1):
                options: dict[str, Any] = {}
                if self._shape.fifo:
                    group = f"g{number % 2}"
                    options = {
                        "MessageGroupId": group,
                        "MessageDeduplicationId": f"{uid}.{copy}",
                    }
                message_id = self.stage.put(body, MessageAttributes=attributes, **options)
                self.witness.produced(uid, message_id, body, attributes)
        if self._shape.rule is not None:
            columns = {
                "DEDICATED_DLQ": {"tenantId": "a", "queue": "slow"},
                "DELAYED_REDRIVE": {"tenantId": "b", "delay_seconds": 1_000},
            }.get(self._shape.rule, {"tenantId": "a"})
            self.stage.add_rule("only", action=self._shape.rule, **columns)

    def _redriver(self, number: int) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            self.scheduler.sleep(35 + self._shape.apart * number)
            for minute in range(self._shape.minutes):
                skew = (random.random() * 2 - 1) * self._shape.skew
                process = Process(f"redriver{number}.{minute}", skew)
                self._one_run(process, "dlq")
                self.scheduler.sleep(60)

        return act

    def _rescuer(self) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            self.scheduler.sleep(20)
            for number, source in enumerate(self._shape.rescues):
                self.scheduler.sleep(random.random() * 60)
                skew = (random.random() * 2 - 1) * self._shape.skew
                if source == "a run of slow":
                    self._one_run(Process(f"redriver-slow{number}", skew), "slow")
                else:
                    process = Process(f"redriver-rescue{number}", skew)
                    self._one_run(process, source, rescue=True)

        return act

    def _replica(self) -> Callable[[], None]:
        """DynamoDB itself: what stale reads see moves on, and expired rows go, late or never."""
        random = Random(self._random.random())

        def act() -> None:
            for _ in range(self._shape.minutes):
                self.scheduler.sleep(random.random() * 120)
                if self._shape.settles:
                    self.stage.dynamodb.settle()
                self.stage.dynamodb.expire(LETTERS, lambda: random.random() < 0.5)

        return act

    def _one_run(self, process: Process, home: str, *, rescue: bool = False) -> None:
        process.ends = self.scheduler.now + self._shape.life
        try:
            redriver = self._build(process, home)
            deadline = process.ends + process.skew
            act = redriver.rescue if rescue else redriver.run
            self.reports.append(act(deadline))
        except Crash:
            return

    def _build(self, process: Process, home: str) -> Redriver:
        scheduler, stage = self.scheduler, self.stage

        def clock() -> float:
            return scheduler.now + process.skew

        clients = clients_of(scheduler, process, stage)
        world = World(
            clock=clock,
            wait=partial(scheduler.wait, process),
            new_id=self._run_ids,
            random=Random(self._random.random()),
        )
        pipeline = stage.pipeline
        redriver = redriver_for(
            pipeline,
            stage.resources,
            clients,
            world,
            home=home,
            router=router_for(pipeline, stage.resources, clients, world),
            in_parallel=scheduler.in_parallel,
            count_metric=partial(self.witness.published, process),
        )
        if self._shape.always_leased:
            redriver._setup = replace(redriver._setup, lease=FreeLease(pipeline))
        return redriver

    def _consumer(self, name: str) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            for turn in range(self._shape.minutes * 3):
                skew = (random.random() * 2 - 1) * self._shape.skew
                self._consume(Process(f"{name}.{turn}", skew))
                self.scheduler.sleep(17)

        return act

    def _consume(self, process: Process) -> None:
        """One batch as Lambda hands it over: what its function does not name is deleted."""
        sqs = self.stage.sqs
        answer = sqs.receive_message(
            QueueUrl=self.stage.main,
            MaxNumberOfMessages=self._shape.batch,
            VisibilityTimeout=int(TIMEOUT) + 10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        handles = {
            message["MessageId"]: message["ReceiptHandle"] for message in answer.get("Messages", ())
        }
        if not handles:
            return
        letters = [from_api(message) for message in answer["Messages"]]
        arn = self.stage.resources.main_arn
        records = [
            to_event(letter, receipt_handle=handles[letter.message_id], source_arn=arn)
            for letter in letters
        ]
        began = self.scheduler.now
        if self._shape.killed_consumers:
            process.ends = began + TIMEOUT
        handled: set[str] = set()
        try:
            consumer = self._build_consumer(process, handled)
            faults = process.faults
            done = consumer.process(records, deadline=began + process.skew + TIMEOUT)
        except Crash:
            return
        if self.scheduler.now > began + TIMEOUT:
            # Lambda has long given up on it, whatever it says now.
            return
        fates = {result.message_id: result.fate for result in done.results}
        for letter in letters:
            if fates[letter.message_id] is Fate.SUPERSEDED:
                self._superseded(letter)
            if fates[letter.message_id] is Fate.BEHIND:
                self._behind(process, letter, faults)
            if letter.message_id not in done.failed:
                self.witness.effects.acknowledged(letter, letter.message_id in handled)
                sqs.delete_message(
                    QueueUrl=self.stage.main, ReceiptHandle=handles[letter.message_id]
                )
        self.witness.check_conservation()

    def _superseded(self, letter: Letter) -> None:
        raise Broken(f"{letter.message_id} is skipped, and no message has an order")

    def _behind(self, process: Process, letter: Letter, faults: int) -> None:
        raise Broken(f"{letter.message_id} is given back, and no message has an order")

    def _build_consumer(self, process: Process, handled: set[str]) -> Consumer:
        scheduler, stage = self.scheduler, self.stage

        def handle(delivery: Delivery) -> None:
            handled.add(delivery.letter.message_id)
            self._handle(process, delivery.letter)

        clients: Any = ConsumerClients(
            sqs=Client(scheduler, process, "sqs", stage.consumer_sqs),  # type: ignore[arg-type]
            sending=Client(scheduler, process, "sqs", stage.consumer_sqs, ONCE),  # type: ignore[arg-type]
            dynamodb=Client(scheduler, process, "dynamodb", stage.dynamodb),  # type: ignore[arg-type]
        )
        world = World(
            clock=lambda: scheduler.now + process.skew,
            wait=partial(scheduler.wait, process),
            new_id=self._run_ids,
            random=Random(self._random.random()),
        )
        return consumer_for(
            stage.pipeline,
            stage.resources,
            clients,
            world,
            handle=handle,
            count_metric=lambda *_: None,
        )

    def _handle(self, process: Process, letter: Letter) -> None:
        """The team's own handler."""
        self.witness.effects.begun(process)
        uid = uid_of(letter.body)
        life = self._lives[uid] = self._lives.get(uid, -1) + 1
        self.scheduler.wait(process, self._random.random() * self._shape.effort)
        self._judge(uid, letter.body)
        if uid.startswith("void"):
            self.witness.processed(uid)
            self.witness.effects.skipped(letter)
            raise Skip
        if uid.startswith(("poison", "badten")):
            raise ArithmeticError("always the same")
        if life < {"flaky": 2, "echo": 0}.get(uid.rstrip("0123456789"), 1):
            raise TimeoutError
        self.witness.processed(uid)
        self.witness.effects.had(process, letter)

    def _judge(self, uid: str, body: str) -> None:
        """Raise what a letter fails for, for good."""
        json.loads(body)
        if uid.startswith("refused"):
            raise Permanent("no such customer")

    def _operator(self) -> Callable[[], None]:
        random = Random(self._random.random())
        deeds = (
            *(self._edit_rules, self._flip_circuit, self._resend),
            *(self._revive, self._show_twice, self._deliver_twice),
        )

        def act() -> None:
            for _ in range(4):
                self.scheduler.sleep(random.random() * 60)
                random.choice(deeds)(random)

        return act

    def _edit_rules(self, random: Random) -> None:
        actions = ("QUARANTINE", "HOLD", "DEDICATED_DLQ", "DELAYED_REDRIVE", "PURGE", "")
        columns: dict[str, Any] = {"tenantId": random.choice(("a", "b"))}
        action = random.choice(actions)
        if action == "DEDICATED_DLQ":
            columns["queue"] = "slow"
        if action == "DELAYED_REDRIVE":
            columns["delay_seconds"] = 1_200
        self.stage.add_rule("edited", action=action, **columns)
        if random.random() < 0.4:
            self._remove_rule()

    def _remove_rule(self) -> None:
        self.stage.remove_rule("edited")

    def _flip_circuit(self, random: Random) -> None:
        self.stage.set_circuit(random.choice(("OPEN", "CLOSED", "HALF_OPEN", "CLOSED")))

    def _resend(self, random: Random) -> None:
        """A person takes a parked letter and sends its body again, attributes and all forgotten."""
        stage = self.stage
        found = stage.sqs.receive_message(QueueUrl=stage.parking, VisibilityTimeout=5)
        for message in found.get("Messages", ()):
            uid = uid_of(message["Body"])
            options: dict[str, Any] = {}
            if self._shape.fifo:
                options = {
                    "MessageGroupId": "by-hand",
                    "MessageDeduplicationId": message["ReceiptHandle"][-60:],
                }
            message_id = stage.put(message["Body"], **options)
            self.witness.produced(uid, message_id, message["Body"], {})
            stage.sqs.delete_message(QueueUrl=stage.parking, ReceiptHandle=message["ReceiptHandle"])

    def _revive(self, random: Random) -> None:
        """SQS brings back a message that was deleted from the DLQ."""
        copies = [copy for copy in self.witness.deliveries if not self.witness.revived[copy]]
        if not copies or self._shape.fifo:
            return
        copy = random.choice(copies)
        try:
            self.stage.sqs.resurrect(copy)
        except KeyError:
            return
        self.witness.revived[copy] += 1

    def _show_twice(self, random: Random) -> None:
        """SQS shows a message to a second receiver while a first one holds it."""
        dlq = self.stage.dlq.rpartition("/")[2]
        held = [
            message.message_id
            for message in self.stage.sqs.snapshot()
            if message.queue == dlq and message.state == "in flight"
        ]
        if not held or self._shape.fifo:
            return
        copy = random.choice(held)
        self.stage.sqs.redeliver(copy)
        self.witness.revived[copy] += 1

    def _deliver_twice(self, random: Random) -> None:
        """SQS shows a message to a second consumer while a first one holds it."""
        main = self.stage.main.rpartition("/")[2]
        held = [
            message.message_id
            for message in self.stage.sqs.snapshot()
            if message.queue == main and message.state == "in flight"
        ]
        if held and not self._shape.fifo:
            self.stage.sqs.redeliver(random.choice(held))

    # The end

    def _heal(self) -> None:
        """Faults cease, rules and circuits are put right, time passes: everything must drain."""
        self._healing = True
        stage = self.stage
        if self._shape.operator:
            self._remove_rule()
            stage.dynamodb.delete_item(
                TableName=CIRCUITS,
                Key={"pipeline": {"S": "orders"}, "circuit_key": {"S": "orders"}},
            )
        if self._shape.rule is not None:
            stage.remove_rule("only")
        for turn in range(self._turns()):
            self.scheduler.now += LONG_TURN if turn % ROUND == 0 else SHORT_TURN
            stage.dynamodb.settle()
            stage.dynamodb.expire(LETTERS, lambda: self._random.random() < 0.5)
            self.scheduler.add(self._healing_turn(turn))
            self.scheduler.run()
            if self._drained():
                break
        else:
            raise Broken(f"stuck: {self._where()}")
        self.witness.check_conservation()
        self.witness.check_whole()
        self.witness.check_counts()
        self.witness.effects.check_end()

    def _turns(self) -> int:
        """The turns in which all letters leave.

        In a FIFO group a letter is tried only after the one before it has left, perhaps after its
        last attempt, and each of its lives may begin with the longest backoff.
        """
        if not self._shape.fifo:
            return TURNS
        a_round = LONG_TURN + (ROUND - 1) * SHORT_TURN
        waits = math.ceil(self._shape.backoff.cap / a_round)
        behind = max(0, self.witness.longest_group() - 1)
        return TURNS + behind * (1 + ATTEMPTS) * (TURNS_TO_DIE + waits * ROUND)

    def _healing_turn(self, turn: int) -> Callable[[], None]:
        def act() -> None:
            process = Process(f"healer{turn}")
            self._one_run(process, "dlq")
            diverted = any(
                message.queue.startswith("orders-slow") for message in self.stage.sqs.snapshot()
            )
            if diverted or SLOW_LANE in self.witness.lanes():
                self._one_run(Process(f"slow{turn}"), "slow")
            self._consume(Process(f"consumer.{turn}"))

        return act

    def _where(self) -> dict[str, list[str]]:
        places: dict[str, list[str]] = {}
        for message in self.stage.sqs.snapshot():
            places.setdefault(message.queue, []).append(uid_of(message.body))
        places["waiting room"] = sorted(self.witness.in_room())
        return places

    def outcome(self) -> Mapping[str, Any]:
        """Where each message has ended, and what is said of the way there."""
        witness, troubles = self.witness, Counter[str]()
        for report in self.reports:
            troubles.update(report.troubles)
            troubles["runs that failed"] += not report.ended_well
        order: dict[str, list[str]] = {}
        for uid in witness.order:
            if (group := self._group_of(uid)) is not None:
                order.setdefault(group, []).append(uid)
        duplicates = {name: witness.counts[name] for name in (PUBLISHED, EXTRA, BY_SQS)}
        return {
            "places": witness.places(),
            "order": order,
            "duplicates": {**duplicates, "effects": witness.effects.repeated},
            "pages": troubles,
        }

    def _group_of(self, uid: str) -> str | None:
        """The group in whose order a message is processed; None if it has none."""
        return f"g{number_in(uid) % 2}" if self._shape.fifo else None

    def _drained(self) -> bool:
        parking = self.stage.parking.rpartition("/")[2]
        return not self.witness.lanes() - {PARKED_LANE} and all(
            message.queue == parking for message in self.stage.sqs.snapshot()
        )


def number_in(uid: str) -> int:
    """The number of a message, which stands at the end of its name."""
    return int("".join(filter(str.isdigit, uid)))


def clients_of(scheduler: Scheduler, process: Process, stage: Stage) -> Clients:
    """The clients of a redriver's process, as production configures them."""
    real = {"sqs": stage.redriver_sqs, "dynamodb": stage.dynamodb, "s3": stage.s3}

    def client(name: str) -> Any:
        made = configured()[name]
        return Client(scheduler, process, made.service, real.get(made.service), made.patience)

    return Clients(**{field.name: client(field.name) for field in fields(Clients)})


def _remembering(make: Callable[..., Any]) -> Callable[..., Entry]:
    def entry(entry_id: str, envelope: Envelope) -> Entry:
        made = Entry(make(entry_id, envelope))
        made.continues = envelope.copy
        return made

    return entry


def simulate(seed: int) -> Simulation:
    """The random schedule with this seed, run to its end; raises Broken."""
    return Simulation(seed, shape_of(seed), random_plan(seed)).run()


def place(shape: Shape, faults: Mapping[int, Fault], seed: int = 1, *, on: str = "redriver") -> int:
    """Faults at these calls of the redrivers (or `on` consumers), and nothing else odd.

    Raises Broken. Returns how many calls they made: the places there are.
    """
    made = 0

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        nonlocal made
        if not process.name.startswith(on):
            return None
        made += 1
        return faults.get(made - 1)

    Simulation(seed, shape, plan).run()
    return made


_HOURS = Backoff(base=1_500, factor=1, cap=1_500, floor=1_000)
_MIXED = Backoff(base=1_500, factor=1, cap=1_500, floor=0)

WORKLOADS: dict[str, Shape] = {
    "one letter goes back": Shape(),
    "two letters go back": Shape(kinds=("good", "flaky")),
    "two are parked": Shape(kinds=("malformed", "poison")),
    "one waits and one is large": Shape(kinds=("good", "large"), backoff=_HOURS),
    "one is diverted": Shape(kinds=("good", "malformed"), rule="DEDICATED_DLQ"),
    "one is held by a rule": Shape(kinds=("good", "tenantb"), rule="HOLD"),
    "two go unmarked": Shape(kinds=("ten", "badten")),
    "a FIFO group of two goes back": Shape(fifo=True, kinds=("good", "malformed", "flaky")[::2]),
    "a FIFO group of two waits": Shape(fifo=True, kinds=("good", "good"), backoff=_HOURS),
    "two redrivers at once": Shape(
        kinds=("good", "flaky"), redrivers=2, always_leased=True, minutes=5, apart=0.1
    ),
    "two redrivers, and some letters wait": Shape(
        kinds=("good", "good"), backoff=_MIXED, redrivers=2, always_leased=True, minutes=5
    ),
    "a DLQ is rescued beside a run": Shape(
        kinds=("good", "large"), always_leased=True, rescues=("dlq", "dlq")
    ),
    "a FIFO group is rescued beside a run": Shape(
        fifo=True, kinds=("good", "flaky", "good"), always_leased=True, rescues=("dlq", "dlq")
    ),
    "parked letters are rescued": Shape(
        kinds=("malformed", "poison"), minutes=4, rescues=("parking:default",) * 3
    ),
    "a dedicated DLQ is rescued and runs": Shape(
        kinds=("good", "large"),
        rule="DEDICATED_DLQ",
        always_leased=True,
        rescues=("slow", "slow", "a run of slow"),
    ),
}
"""What single faults are tried on, at every call of the redrivers."""

CONSUMED: dict[str, Shape] = {
    "one is processed at once": Shape(kinds=("echo",)),
    "two have one key": Shape(kinds=("rival", "rival"), redrivers=2, batch=1),
    "the key is the origin's": Shape(kinds=("echo", "good"), keyed=False),
    "one is parked and one is skipped": Shape(
        kinds=("refused", "void", "malformed"), known_causes=True
    ),
    "one has no room for a stamp": Shape(kinds=("ten", "badten"), keyed=False),
    "a FIFO group": Shape(
        fifo=True, kinds=("echo", "good", "refused"), redrivers=2, batch=3, known_causes=True
    ),
}
"""What single faults are tried on, at every call of the consumers."""


def drowsy(seed: int) -> Simulation:
    """Two redrivers that often fall asleep in the middle of a call; raises Broken.

    Some live long enough to go on afterwards, with what they knew before.
    """
    random = Random(seed)

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        asleep = process.name.startswith("redriver") and random.random() < 0.12
        return Fault.PAUSE if asleep else None

    shape = replace(
        WORKLOADS["two redrivers at once"],
        life=random.choice((LIFE, LONGEST_LIFE)),
        workers=random.choice((1, 2)),
        rate=random.choice((None, 0.2)),
    )
    return Simulation(seed, shape, plan).run()


def strikes(random: Random, rate: float) -> Plan:
    """Any fault on the calls of redrivers, at this rate."""

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        struck = process.name.startswith("redriver") and random.random() < rate
        return random.choice(EVERYWHERE) if struck else None

    return plan


def grouped(seed: int) -> Simulation:
    """FIFO groups of which some letters wait for a rule and others do not; raises Broken."""
    random = Random(seed * 37 + 5)
    rate = random.choice((0.0, 0.05, 0.15))

    plan = strikes(random, rate)
    shape = Shape(
        fifo=True,
        kinds=tuple(random.choice(GROUPED) for _ in range(5)),
        backoff=NO_WAIT,
        redrivers=2,
        always_leased=True,
        apart=random.choice((0.2, 7.0)),
        rule="DELAYED_REDRIVE",
        parks=False,
    )
    return Simulation(seed, shape, plan).run()


def rescued(seed: int) -> Simulation:
    """Parked, isolated and dead letters that are rescued again and again; raises Broken."""
    random = Random(seed * 41 + 11)
    rate = random.choice((0.0, 0.03, 0.1))

    plan = strikes(random, rate)
    shape = Shape(
        fifo=random.random() < 0.5,
        kinds=tuple(random.choice(RESCUED) for _ in range(5)),
        backoff=random.choice((NO_WAIT, _MIXED)),
        redrivers=2,
        always_leased=random.random() < 0.5,
        minutes=4,
        apart=random.choice((0.2, 7.0)),
        rule=random.choice((None, "DEDICATED_DLQ")),
        rescues=tuple(random.choices(RESCUES, k=5)),
        stale=random.random() < 0.5,
        lagging=random.random() < 0.3,
        workers=random.choice((1, 2)),
        known_causes=seed % 2 == 0,
    )
    return Simulation(seed, shape, plan).run()


RESCUED = ("malformed", "malformed", "tenantb", "flaky", "large", "badten")
GROUPED = ("good", "tenantb", "tenantb", "flaky", "large")
CROWD = ("twin", "echo", "echo", "rival", "flaky", "refused")


def crowded(seed: int) -> Simulation:
    """Two consumers that are often struck, and much that is sent twice; raises Broken."""
    random = Random(seed * 31 + 7)
    kinds = EVERYWHERE if random.random() < 0.5 else (Fault.PAUSE, Fault.PAUSE, Fault.ERROR)

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        struck = process.name.startswith("consumer") and random.random() < 0.1
        return random.choice(kinds) if struck else None

    shape = Shape(
        kinds=tuple(random.choice(CROWD) for _ in range(4)),
        operator=True,
        random_queue=True,
        redrivers=2,
        keyed=random.random() < 0.8,
        effort=random.choice((1.0, 8.0)),
        batch=random.choice((2, 10)),
        known_causes=seed % 4 > 0,
    )
    return Simulation(seed, shape, plan).run()


def interrupted(seed: int) -> Simulation:
    """Redrivers that are struck between a send and the delete, over stale reads; raises Broken.

    In one schedule of five SQS only says which entries of a batch have failed.
    """
    random = Random(seed * 43 + 13)
    rate = random.choice((0.1, 0.3))
    kinds = random.choice(((Fault.PARTLY,), *[EVERYWHERE] * 2, *[(kind,) for kind in LOSING]))
    calls = SEND_TO_DELETE[:1] if kinds == (Fault.PARTLY,) else SEND_TO_DELETE

    def plan(process: Process, name: str, _number: int) -> Fault | None:
        struck = name in calls and process.name.startswith("redriver") and random.random() < rate
        return random.choice(kinds) if struck else None

    shape = Shape(
        fifo=random.random() < 0.2,
        kinds=tuple(random.choice(INTERRUPTED) for _ in range(5)),
        backoff=random.choice((NO_WAIT, _MIXED)),
        redrivers=2,
        always_leased=True,
        minutes=4,
        apart=random.choice((0.2, 7.0)),
        workers=random.choice((1, 2)),
        rate=random.choice((None, 0.2)),
        stale=True,
        settles=False,
        page=random.choice((None, 1)),
    )
    return Simulation(seed, shape, plan).run()


def unreachable(seed: int) -> Simulation:
    """Redrivers whose sends never leave, are throttled or fail in part; raises Broken.

    It surely was not sent: no possible duplicate may be counted.
    """
    random = Random(seed * 47 + 17)
    rate = random.choice((0.2, 0.6, 0.9))
    kinds = random.choice(((Fault.NO_CONNECTION,), KNOWN))
    # Beside deaths and lost answers the others are no excuse.
    others = random.choice(((), (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST)))

    def plan(process: Process, name: str, _number: int) -> Fault | None:
        if name not in SEND_TO_DELETE or not process.name.startswith("redriver"):
            return None
        if others and random.random() < 0.05:
            return random.choice(others)
        is_struck = name == SEND_TO_DELETE[0] and random.random() < rate
        return random.choice(kinds) if is_struck else None

    shape = Shape(
        fifo=random.random() < 0.3,
        kinds=tuple(random.choice(INTERRUPTED) for _ in range(5)),
        backoff=random.choice((NO_WAIT, _MIXED)),
        redrivers=2,
        always_leased=True,
        minutes=4,
        apart=random.choice((0.2, 7.0)),
        workers=random.choice((1, 2)),
    )
    return Simulation(seed, shape, plan).run()


KNOWN = (Fault.NO_CONNECTION, Fault.THROTTLED, Fault.PARTLY)
"""Faults after which a redriver knows what was sent."""

INTERRUPTED = ("good", "good", "good", "flaky", "large", "ten", "tenantb")
LOSING = (Fault.HANG, Fault.LOST)


def schedules(most: int) -> Iterator[Callable[[], object]]:
    """Schedules in turn: random, single faults, and each special sort."""
    sorts = (
        (partial(simulate, seed) for seed in itertools.count()),
        (
            partial(place, WORKLOADS["two redrivers, and some letters wait"], {at: fault})
            for at in itertools.count()
            for fault in EVERYWHERE
        ),
        (partial(drowsy, seed) for seed in itertools.count()),
        (partial(crowded, seed) for seed in itertools.count()),
        (partial(grouped, seed) for seed in itertools.count()),
        (partial(rescued, seed) for seed in itertools.count()),
        (partial(interrupted, seed) for seed in itertools.count()),
        (partial(unreachable, seed) for seed in itertools.count()),
    )
    return itertools.islice(itertools.chain.from_iterable(zip(*sorts, strict=False)), most)
