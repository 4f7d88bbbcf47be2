"""One seed, one schedule of a replay run: its machine, workers that are cut off, a person who
holds and aborts, the schedule's redriver beside it, consumers, and faults at every call.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from deadletter.aws import replay_evidence
from deadletter.aws import waiting_room as room_adapter
from deadletter.aws.clients import Clients
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.replaying import replay_steps_for
from deadletter.aws.wiring.world import World
from deadletter.contract import PARKED_LANE, Reason, parking_source
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.failure.signals import Permanent
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.queue import QueueUnavailable
from deadletter.message.stamp import Stamp
from deadletter.redrive import redriver, waiting_room
from deadletter.redrive.journal import ClaimLost, JournalUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay import (
    bringing_back,
    freeze,
    leaving,
    lineup,
    manifest,
    names,
    objects,
    reconcile,
    run_source,
)
from deadletter.replay import worker as replay_worker
from deadletter.replay.care import needs_execution
from deadletter.replay.machine import ReplaySteps, replay_event, restarted
from deadletter.replay.manifest import StatusUnavailable
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.plan import AGAIN, DISCARD, LANE, MAIN_QUEUE, KeyPolicy, ReplayPlan
from deadletter.replay.run import (
    ReplayRun,
    RunRefused,
    RunState,
    RunsUnavailable,
    aborted,
    held,
    resumed,
)
from deadletter.replay.ticket import ReplayOutcome, TicketsUnavailable
from deadletter.routing import ordering
from deadletter.routing.router import RouterUnavailable
from deadletter.routing.selection import Selection
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.clock import START
from tests.simulation.replay_witness import ReplayWitness
from tests.simulation.scheduler import EVERYWHERE, Client, Crash, Fault, Plan, Process
from tests.simulation.simulator import (
    ATTEMPTS,
    NO_WAIT,
    Shape,
    Simulation,
    clients_of,
    number_in,
    spells_from,
)
from tests.simulation.stage import PRODUCER, attribute, ids_from
from tests.simulation.witness import Broken, Witness, uid_of
from tests.tables import LETTERS

KINDS = (
    "good",
    "good",
    "good",
    "good",
    "flaky",
    "poison",
    "refused",
    "malformed",
    "large",
    "other",
)
"""What waits in the DLQ once the bug is fixed: a flaky letter fails in its first life of the run,
poison in all of them, a refused one is parked by the consumer; an other one is not chosen."""

GRANT_TO_SEND = (
    "update_item",
    "update_item",
    "get_queue_attributes",
    "send_message_batch",
    "query",
)
"""The calls from a grant to the last send under it."""

DEEDS = ("hold", "resume", "abort", "abort to schedule", "start again", "late", "flip", "another")
"""What a person, or the world, does beside a run."""


@dataclass(frozen=True, slots=True)
class ReplayShape(Shape):
    """What a schedule of a replay run is made of; the rest follows from the seed.

    `keys` are the ordering keys that letters take turns in; `step` is the longest time of a
    step of work, and `gap` the seconds between two of the machine's steps. `machines` is the
    number of executions that work on the run at once. `deeds` happen at any time. `approval` says
    what becomes of the one that the run waits for: "granted", "refused" or "lapsed"; empty if it
    needs none. Behind half of the calls with the names in `stands_behind` a worker stands still for
    up to ten minutes; a person meanwhile does one of `stopped_by`. While `red`, seconds after the
    start, the dependency's health URL says that it is down. A brief letter expires `until` seconds
    after the start. Once the run has ended, what it has recovered is repeated from its originals,
    if `repeats` says so: "again" with a new key, "as they were" without.
    """

    source: str = "dlq"
    ordered: bool = False
    keys: int = 2
    canary: tuple[int, ...] = (1, 2)
    ramp: tuple[float, ...] = (0.5, 1.0)
    rate: float = 5.0
    run_burst: int = 10
    tries: int = 2
    retry_after: float = 3.0
    destination: str = MAIN_QUEUE
    keep_export: bool = True
    approval: str = ""
    error_rate: float = 1.0
    outcome_timeout: float = 300.0
    on_failure: KeyPolicy = KeyPolicy.GO
    step: float = 60.0
    gap: float = 2.0
    longest_wait: float = 20.0
    machines: int = 1
    run_workers: int = 1
    deeds: Sequence[str] = ()
    deeds_after: float = 90.0
    stands_behind: Sequence[str] = ()
    stopped_by: Sequence[str] = ()
    red: tuple[float, float] | None = None
    until: float = 0.0
    repeats: str = ""


def replay_shape(seed: int) -> ReplayShape:
    """The shape of the random schedule with this seed."""
    random = Random(seed * 6_007 + 29)
    fifo = random.random() < 0.25
    return ReplayShape(
        fifo=fifo,
        kinds=tuple(random.choice(KINDS) for _ in range(random.randint(1, 5))),
        backoff=NO_WAIT,
        lagging=random.random() < 0.3,
        redrivers=random.choice((0, 1, 1, 1)),
        minutes=4,
        skew=random.choice((0.0, 1.0)),
        workers=1,
        library=True,
        keyed=random.random() < 0.5,
        stale=random.random() < 0.3,
        page=random.choice((None, None, 1)),
        source=random.choice(("dlq", "dlq", "dlq", parking_source("default"), LANE + PARKED_LANE)),
        ordered=fifo or random.random() < 0.5,
        keys=random.choice((1, 2)),
        rate=random.choice((0.2, 5.0)),
        run_burst=random.choice((1, 10)),
        tries=random.choice((1, 2, 3)),
        error_rate=random.choice((1.0, 1.0, 0.4)),
        on_failure=random.choice(tuple(KeyPolicy)),
        step=random.choice((30.0, 60.0)),
        machines=random.choice((1, 1, 2)),
        run_workers=random.choice((1, 1, 2)),
        deeds=tuple(random.choice(DEEDS) for _ in range(random.choice((0, 0, 1, 3)))),
        spells=spells_from(random) if random.random() < 0.2 else (),
        stands_behind=(random.choice(GRANT_TO_SEND),) if random.random() < 0.15 else (),
        stopped_by=random.choice((("hold",), ("abort", "abort to schedule"), ())),
        known_causes=random.random() < 0.7,
    )


def replay_plan_of_faults(seed: int) -> Plan:
    """Faults at a rate that the seed chooses, on the calls of the run, or of all."""
    random = Random(seed * 104_711 + 7)
    rate = random.choice((0.0, 0.02, 0.05, 0.1))
    kinds = (random.choice(EVERYWHERE),) if random.random() < 0.5 else EVERYWHERE
    struck = random.choice(("replay", "replay", ("replay", "redriver", "consumer")))

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        if not process.name.startswith(struck):
            return None
        return random.choice(kinds) if random.random() < rate else None

    return plan


MOST_TRIES = 3
"""Tries of one step by an execution, which is lost then: the watch starts the next."""

FUNCTION_LIFE = 900.0

# Seconds that a batch may go by a circuit that has closed since.
OPEN_FOR_A_BATCH = 60.0
"""Seconds that the function `replay` may run; a step of work is much shorter."""

HEALING = 3_600.0
"""Seconds within which everything has ended once it is mended."""

STOPPED_TURNS = 6
"""Half minutes after which a person aborts a run whose keys stop again and again."""

LONGEST_STAND_STILL = 600.0
"""Seconds for which a worker stands still at most, and one second at least."""

WEATHER = 900.0
"""Seconds that faults last at most: then everything is mended, and has to end."""


class ReplaySimulation(Simulation):
    """One schedule of a run, ended and then healed; raises Broken at the first broken promise."""

    witness: ReplayWitness

    def __init__(self, seed: int, shape: ReplayShape, plan: Plan) -> None:
        self._replay = shape
        self._ids = ids_from(seed + 4)
        super().__init__(seed, shape, plan)
        self.plans: list[ReplayPlan] = []
        self._end = START + WEATHER
        self.started: set[str] = set()
        self._is_open, self._closed_at = False, -math.inf
        self.running: set[str] = set()
        self.answered: set[str] = set()
        dynamodb: Any = self.stage.dynamodb
        self._is_repeated = not shape.repeats
        keeps = bool(shape.repeats)
        self.witness.keeps_originals = keeps
        self.stage.resources = replace(self.stage.resources, replay_days=30 if keeps else 0)
        self._raw_runs = DynamoDBReplayRuns(dynamodb, LETTERS, "orders", self.scheduler.clock)
        if shape.stands_behind:
            self._stands = Random(seed * 83 + 8)
            self.scheduler.stand_still = self._stand_still

    def _pipeline(self, shape: Shape) -> Pipeline:
        return replace(
            super()._pipeline(shape),
            ordering_key="body.k" if self._replay.ordered and not shape.fifo else None,
            sequence="body.n" if self._replay.ordered and not shape.fifo else None,
            expires="body.until",
        )

    def _superseded(self, letter: Letter) -> None:
        """The schedule's messages are no part of a run, and may be overtaken by it."""
        self.witness.processed(uid_of(letter.body))
        self.witness.effects.skipped(letter)

    def _behind(self, process: Process, letter: Letter, faults: int) -> None:
        """Its turn comes; `order_simulator` asks when."""

    def _witness(self, shape: Shape) -> Witness:
        witness = ReplayWitness(
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
        witness.place_of = self.place_of
        witness.skew = shape.skew
        if self._replay.red:
            first, last = self._replay.red
            witness.red = (START + first, START + last)
        return witness

    @contextlib.contextmanager
    def _compressed(self) -> Iterator[None]:
        """Few letters are as much for a run as thousands are in production."""
        with smaller_run():
            yield

    def place_of(self, uid: str) -> tuple[str, int] | None:
        """The ordering key of a message, and its place in it; None if it cannot be read."""
        if uid.startswith("malformed"):
            return None
        number = number_in(uid)
        return f"k{number % self._replay.keys}", number

    def _group_of(self, uid: str) -> str | None:
        place = self.place_of(uid)
        return place[0] if place and (self._replay.ordered or self._replay.fifo) else None

    def outcome(self) -> Mapping[str, Any]:
        counts = {plan.run_id: self._raw_runs.read(plan.run_id) for plan in self.plans}
        ended = {run: (str(read.state), read.counts) for run, read in counts.items() if read}
        return {**super().outcome(), "runs": ended}

    # The world before the run

    def _run(self) -> None:
        """As in any schedule, after letters have died and runs of them have begun."""
        self._remember_first_batch()
        self._remember_causes()
        self._produce()
        self._let_die()
        self._start()
        if self._replay.redrivers:
            self.scheduler.add(self._redriver(0))
        self.scheduler.add(self._consumer("consumer0"))
        if self._replay.deeds:
            self.scheduler.add(self._person())
        if not self._is_repeated:
            self.scheduler.add(self._repeat_once_ended())
        if self._shape.stale:
            self.scheduler.add(self._replica())
        self.scheduler.run()
        self._heal()

    def _body(self, uid: str, number: int) -> str:
        kind = uid.rstrip("0123456789")
        tenant = "b" if kind == "other" else "a"
        place = f'"k": "k{number % self._replay.keys}", "n": {number}'
        body = f'{{"tenantId": "{tenant}", "key": "{uid}", {place}, "uid": "~{uid}~"}}'
        if kind == "malformed":
            return f"{{~{uid}~"
        if kind == "brief":
            until = self.witness.expiries[uid] = START + self._replay.until
            return f'{body[:-1]}, "until": {until}}}'
        if kind == "large":
            return body[:-1] + ', "x": "%s"}' % ("x" * 5_000)
        return body

    def _produce(self) -> None:
        for number, kind in enumerate(self._replay.kinds):
            uid = f"{kind}{number}"
            if self._replay.source == "dlq":
                self._put(uid, number)
            elif self._replay.source == "slow":
                self._divert(uid, number)
            else:
                self._park(uid, number)

    def _options(self, uid: str, number: int) -> dict[str, Any]:
        if not self._replay.fifo:
            return {}
        group = f"k{number % self._replay.keys}"
        return {"MessageGroupId": group, "MessageDeduplicationId": uid}

    def _put(self, uid: str, number: int) -> None:
        body = self._body(uid, number)
        message_id = self.stage.put(body, **self._options(uid, number))
        self.witness.produced(uid, message_id, body, {})

    def _park(self, uid: str, number: int) -> None:
        """A letter that was parked long ago, after its last attempt."""
        body, origin = self._body(uid, number), self._ids()
        mark = Stamp(
            origin,
            ATTEMPTS,
            int(START * 1000),
            PRODUCER,
            decision="PARK",
            reason=Reason.RETRIES_EXHAUSTED,
            sequence=self._sequence(number),
        )
        self.stage.redriver_sqs.send_message(
            QueueUrl=self.stage.parking,
            MessageBody=body,
            MessageAttributes={stamps.NAME: attribute(stamps.attribute(mark).value)},
            **self._options(uid, number),
        )
        self.witness.produced(uid, origin, body, {})

    def _divert(self, uid: str, number: int) -> None:
        """A letter that a rule has diverted into the dedicated DLQ."""
        body, origin = self._body(uid, number), self._ids()
        mark = Stamp(
            origin,
            0,
            int(START * 1000),
            PRODUCER,
            decision="DIVERT",
            sequence=self._sequence(number),
        )
        self.stage.redriver_sqs.send_message(
            QueueUrl=self.stage.dedicated,
            MessageBody=body,
            MessageAttributes={stamps.NAME: attribute(stamps.attribute(mark).value)},
            **self._options(uid, number),
        )
        self.witness.produced(uid, origin, body, {})

    def _sequence(self, number: int) -> str:
        """The SequenceNumber of a letter's first life: all were sent in the same millisecond."""
        return str(number + 1) if self._replay.fifo else ""

    def _let_die(self) -> None:
        """Everything that was produced dies of the bug that is fixed now."""
        if self._replay.source == "dlq":
            self.stage.fail()
        elif self._replay.source == LANE + PARKED_LANE:
            self.stage.rescue(parking_source("default"))

    def _redriver(self, number: int) -> Callable[[], None]:
        """The schedule, minute after minute while there are runs."""
        random = Random(self._random.random())

        def act() -> None:
            self.scheduler.sleep(random.random() * 60)
            for minute in self._while_it_runs(30.0):
                skew = (random.random() * 2 - 1) * self._shape.skew
                self._one_run(Process(f"redriver{number}.{minute}", skew), "dlq")

        return act

    def _consumer(self, name: str) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            for turn in self._while_it_runs(4.0):
                skew = (random.random() * 2 - 1) * self._shape.skew
                if self.stage.bodies(self.stage.main):
                    self._consume(Process(f"{name}.{turn}", skew))

        return act

    def _while_it_runs(self, pause: float) -> Iterator[int]:
        """Turns with a pause before each, until all runs have ended or the weather changes."""
        for turn in itertools.count():
            self.scheduler.sleep(pause)
            if self.scheduler.now > self._end or self._is_over():
                return
            yield turn

    # The person

    def _start(self) -> None:
        """A person plans a run, and starts it."""
        chosen = [
            origin
            for uid, message in self.witness.messages.items()
            if not uid.startswith(("other", "late"))
            for origin in message.origins
        ]
        self._start_plan(self._plan(len(self.plans)), chosen)

    def _repeat_once_ended(self) -> Callable[[], None]:
        """A person sends once more what the first run has recovered, once that has ended."""

        def act() -> None:
            while not self._is_repeated and self.scheduler.now < self._end:
                self.scheduler.sleep(5.0)
                if self._has_ended(self.plans[0].run_id):
                    self._repeat()

        return act

    def _repeat(self) -> None:
        self._is_repeated = True
        first = self.plans[0].run_id
        outcomes = self.witness.outcomes(first)
        chosen = [
            json.loads(line)["o"]
            for number, line in enumerate(self.witness.runs[first].lines)
            if outcomes.get(number) in (ReplayOutcome.RECOVERED, ReplayOutcome.DUPLICATE)
        ]
        if not chosen:
            return
        plan = replace(
            self._plan(len(self.plans)),
            source=f"originals:{first}",
            selection=Selection(),
            accept=AGAIN if self._replay.repeats == "again" else None,
        )
        self.witness.counts["letters repeated"] += len(chosen)
        self._start_plan(plan, chosen)

    def _start_plan(self, plan: ReplayPlan, chosen: Sequence[str]) -> None:
        if plan.counted is not None:
            plan = replace(plan, counted=len(chosen))
        self.plans.append(plan)
        self.witness.begin(plan, chosen if plan.counted is not None else ())
        dynamodb: Any = self.stage.dynamodb
        DynamoDBReplayPlans(dynamodb, LETTERS, "orders", self.scheduler.clock).store(plan, chosen)
        run = self._raw_runs.create(
            ReplayRun(
                id=plan.run_id,
                pipeline="orders",
                created=plan.created,
                started=plan.created,
                expires=plan.expires,
            )
        )
        for _ in range(self._replay.machines):
            self.started.discard(run.execution)
            self.start_execution(run)

    def _plan(self, number: int) -> ReplayPlan:
        shape = self._replay
        groups = None
        if shape.fifo:
            groups = tuple(f"k{key}" for key in range(shape.keys))
        return ReplayPlan(
            pipeline="orders",
            source=shape.source,
            selection=Selection(groups=groups)
            if shape.fifo
            else Selection(tenants=("a",), include=(Reason.MALFORMED,)),
            counted=0,
            rate=shape.rate,
            burst=shape.run_burst,
            canary=shape.canary,
            ramp=shape.ramp,
            ramp_seconds=20.0,
            error_rate=shape.error_rate,
            attempts=shape.tries,
            retry_after=shape.retry_after,
            destination=shape.destination,
            keep_export=shape.keep_export,
            approve=bool(shape.approval),
            on_failure=shape.on_failure,
            ordered=shape.ordered,
            outcome_timeout=shape.outcome_timeout,
            workers=shape.run_workers,
            created=self.scheduler.now,
            expires=self.scheduler.now + 86_400,
            who="ana",
            why=f"the bug is fixed ({number})",
        )

    def _person(self) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            for number, deed in enumerate(self._replay.deeds):
                self.scheduler.sleep(random.random() * self._replay.deeds_after)
                self._do(deed, number)

        return act

    def _do(self, deed: str, number: int) -> None:
        match deed:
            case "late":
                place = 50 + number
                self._put(f"late{place}", place)
            case "flip":
                self._set_circuit("OPEN" if number % 2 else "CLOSED")
            case "another":
                self._start()
            case "start again":
                self._care(at_once=True)
            case "abort last" | "hold last":
                self._change(self.plans[-1], deed.removesuffix(" last"))
            case _:
                self._change(self.plans[0], deed)

    def _change(self, plan: ReplayPlan, deed: str) -> None:
        """The kill switch, or its opposite: one conditional write."""
        run = self._raw_runs.read(plan.run_id)
        assert run is not None
        with contextlib.suppress(RunRefused):
            self._raw_runs.change(run, self._switched(run, deed))
        self.witness.look_at_runs()

    def _switched(self, run: ReplayRun, deed: str) -> ReplayRun:
        now = self.scheduler.now
        if deed == "hold":
            return held(run, at=now, by="ana", because="a look at it")
        if deed == "resume":
            return resumed(run, at=now, by="ana")
        to = "schedule" if deed == "abort to schedule" else "parked"
        return aborted(run, at=now, by="ana", because="enough", leave_to=to)

    def _stand_still(self, process: Process, behind: str) -> float:
        """Seconds for which a worker stands still; a person may stop the run meanwhile."""
        shape, random = self._replay, self._stands
        # A pass that makes letters of originals may sleep as well.
        may_sleep = "w" in process.name or shape.repeats
        is_worker = process.name.startswith("replay") and may_sleep
        if self._healing or not is_worker or behind not in shape.stands_behind:
            return 0.0
        if shape.repeats and len(self.plans) < 2:
            # The weather would be over before anything is repeated.
            return 0.0
        if random.random() < 0.5:
            return 0.0
        process.pauses += 1
        seconds = LONGEST_STAND_STILL ** random.random()
        if shape.stopped_by:
            deed, after = random.choice(shape.stopped_by), seconds * random.random()

            def stop() -> None:
                self.scheduler.sleep(after)
                self._change(self.plans[0], deed)

            self.scheduler.add(stop)
        return seconds

    # The machine

    def _execute(self, run: str, name: str, execution: str) -> None:
        """An execution of the state machine: its next step is what the last one says."""
        self.running.add(execution)
        event: dict[str, Any] = {"run": run, "execution": execution, "loops": 0}
        step, numbers = "preflight", itertools.count()
        said: Mapping[str, Any] = {}
        while self.scheduler.now < self._end:
            answer = self._step({**event, "step": step, **said}, name, numbers)
            said = {}
            if answer is None or answer["next"] in ("done", "hand over"):
                break
            event["loops"] = answer["loops"]
            step = answer["next"]
            if step == "work":
                self._work(event, answer["workers"], name, numbers)
                step = "judge"
            if step == "approval":
                step, said = self._ask_for_approval(event, name, numbers)
            if step == "wait":
                self.scheduler.sleep(min(answer["wait_seconds"], self._replay.longest_wait))
                step = "judge"
            self.scheduler.sleep(self._replay.gap)
        self.running.discard(execution)

    def _ask_for_approval(
        self, event: Mapping[str, Any], name: str, numbers: Iterator[int]
    ) -> tuple[str, Mapping[str, Any]]:
        """Keep the token of the task that waits, and wait for a person, or for the time-out."""
        token = f"{name}-token"
        if self._step({**event, "step": "approval", "token": token}, name, numbers) is None:
            # The state machine catches it: the run is judged again.
            return "judge", {}
        self.scheduler.sleep(self._random.random() * 40)
        if token in self.answered:
            return "approved", {}
        if self._replay.approval == "lapsed":
            return "lapse", {}
        approves = self._replay.approval == "granted"
        return "approved", {"approval": {"approved": approves, "by": "ben", "because": "seen"}}

    def _step(
        self, event: Mapping[str, Any], name: str, numbers: Iterator[int]
    ) -> Mapping[str, Any] | None:
        """One step, each try by a new process; None if the execution is lost."""
        for _ in range(MOST_TRIES):
            skew = (self._random.random() * 2 - 1) * self._shape.skew
            process = Process(f"{name}.{next(numbers)}", skew)
            process.ends = self.scheduler.now + FUNCTION_LIFE
            try:
                return self._take_step(process, event)
            except (Crash, StepFailed):
                self.scheduler.sleep(3.0)
        return None

    def _work(
        self, event: Mapping[str, Any], workers: Sequence[Any], name: str, numbers: Iterator[int]
    ) -> None:
        """One child for each worker, side by side; what they fail at is left to the next step."""
        self.scheduler.in_parallel(
            [
                partial(
                    self._step, {**event, "step": "work", "worker": worker}, f"{name}w{at}", numbers
                )
                for at, worker in enumerate(workers)
            ]
        )

    def _take_step(self, process: Process, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """One call of the function `replay`."""
        deadline = process.ends + process.skew
        try:
            return self._steps(process).take(replay_event(event), deadline)
        except STEP_FAILURES as error:
            raise StepFailed from error

    def _steps(self, process: Process) -> ReplaySteps:
        stage, clients, world = self.stage, self._clients(process), self._world(process)
        return replay_steps_for(
            stage.pipeline,
            stage.resources,
            clients,
            world,
            partial(self.witness.published, process),
            executions=SimulatedExecutions(self),
            router=router_for(stage.pipeline, stage.resources, clients, world),
            in_parallel=self.scheduler.in_parallel,
            health=self.trouble if self._replay.red else None,
        )

    def trouble(self) -> str:
        """What the dependency's health URL says."""
        return "the health URL answers HTTP 503" if self.witness.is_red() else ""

    def _clients(self, process: Process) -> Clients:
        return clients_of(self.scheduler, process, self.stage)

    def _world(self, process: Process) -> World:
        return World(
            clock=lambda: self.scheduler.now + process.skew,
            wait=partial(self.scheduler.wait, process),
            new_id=self._ids,
            random=Random(self._random.random()),
        )

    def _runs(self, process: Process) -> DynamoDBReplayRuns:
        client: Any = Client(self.scheduler, process, "dynamodb", self.stage.dynamodb)
        return DynamoDBReplayRuns(
            client, LETTERS, "orders", lambda: self.scheduler.now + process.skew
        )

    def start_execution(self, run: ReplayRun) -> None:
        """Step Functions starts an execution, unless one with its name was started before."""
        if run.execution in self.started:
            return
        self.started.add(run.execution)
        number = len(self.started)
        self.scheduler.add(lambda: self._execute(run.id, f"replay{number}", run.execution))

    def _set_circuit(self, state: str) -> None:
        self.stage.set_circuit(state)
        if state == "CLOSED":
            self._closed_at = self.scheduler.now
        self._is_open = state == "OPEN"

    # Consumers

    def _handle(self, process: Process, letter: Letter) -> None:
        """The team's own handler, mended: what still fails does so for a reason of its own."""
        self.witness.effects.begun(process)
        uid = uid_of(letter.body)
        life = self._lives[uid] = self._lives.get(uid, -1) + 1
        sent = letter.attributes.get(stamps.NAME)
        mark = None if sent is None else stamps.parse(sent.value)
        self.scheduler.wait(process, self._random.random())
        # A failure while the circuit was open, or may not have been read, is the dependency's.
        is_closed = not self._is_open and self.scheduler.now > self._closed_at + OPEN_FOR_A_BATCH
        if is_closed and not process.faults:
            self.witness.tried.add((uid, 0 if mark is None else mark.attempt))
        self._judge(uid, letter.body)
        if uid.startswith("poison"):
            raise ArithmeticError("always the same")
        if uid.startswith(("flaky", "late")) and life == 0:
            self.witness.timed_out[uid] += 1
            raise TimeoutError
        if not self.witness.messages[uid].done:
            self.witness.handled(uid)
        self.witness.processed(uid)
        self.witness.effects.had(process, letter)

    def _judge(self, uid: str, body: str) -> None:
        if uid.startswith("refused"):
            raise Permanent("no such customer")
        if uid.startswith("malformed"):
            raise ValueError("no JSON")

    # The end

    def _heal(self) -> None:
        """Faults cease, the circuit is closed, held runs are resumed: everything must end."""
        self._healing = True
        self._end = self.scheduler.now + HEALING
        self._set_circuit("CLOSED")
        self.scheduler.add(self._watch())
        if not self._is_repeated:
            self.scheduler.add(self._repeat_once_ended())
        self.scheduler.add(self._redriver(9))
        self.scheduler.add(self._consumer("consumer9"))
        self.scheduler.run()
        if not self._is_over():
            raise Broken(f"stuck: {self._where()}, {self.witness.lanes()}, {self._states()}")
        self.witness.check_conservation()
        self.witness.check_whole()
        self.witness.check_counts()
        self.witness.check_rate()
        self.witness.check_runs()
        self.witness.effects.check_end()

    def _watch(self) -> Callable[[], None]:
        """What the watch and a person do each minute until all runs have ended."""

        def act() -> None:
            for turn in self._while_it_runs(30.0):
                self.stage.dynamodb.settle()
                self._care(at_once=False)
                for plan in self.plans:
                    run = self._raw_runs.read(plan.run_id)
                    assert run is not None
                    if run.state is RunState.HELD:
                        self._change(plan, "resume")
                    elif turn > STOPPED_TURNS and run.is_live and plan.on_failure is KeyPolicy.STOP:
                        # A key that stops behind a failed letter waits for a person for ever.
                        self._change(plan, "abort")

        return act

    def _care(self, *, at_once: bool) -> None:
        """The watch starts executions that were lost; `at_once` also those that were not."""
        waiting = {lane.removeprefix("run:") for lane in self.witness.lanes()}
        for plan in self.plans:
            run = self._raw_runs.read(plan.run_id)
            assert run is not None
            is_lost = run.execution not in self.running and needs_execution(run, waiting)
            if at_once or is_lost:
                after = replace(restarted(run, self.scheduler.now), left=False)
                with contextlib.suppress(RunRefused):
                    self._raw_runs.change(run, after)
                    self.start_execution(after)

    def _states(self) -> list[str]:
        return [run.state for run in self.witness.runs.values()]

    def _is_over(self) -> bool:
        """Whether all runs have ended, and only parked letters are left."""
        ended = all(map(self._has_ended, self.witness.runs))
        return self._is_repeated and ended and self._drained()

    def _drained(self) -> bool:
        """Only parked letters are left; of a dedicated DLQ also what no run has taken."""
        kept = {self.stage.parking.rpartition("/")[2]}
        if self._replay.source == "slow":
            kept.add(self.stage.dedicated.rpartition("/")[2])
        return not self.witness.lanes() - {PARKED_LANE} and all(
            message.queue in kept for message in self.stage.sqs.snapshot()
        )

    def _has_ended(self, run_id: str) -> bool:
        seen = self.witness.runs[run_id]
        if seen.state not in ENDED:
            return False
        run = self._raw_runs.read(run_id)
        return run is not None and not run.is_live and run.left


ENDED = frozenset({RunState.ABORTED, RunState.DONE, RunState.BROKEN})


class SimulatedExecutions:
    """The executions of a pipeline's runs, in this simulation."""

    def __init__(self, simulation: ReplaySimulation) -> None:
        self._simulation = simulation

    def start(self, run: ReplayRun) -> None:
        self._simulation.start_execution(run)

    def running(self) -> Container[str]:
        return self._simulation.running

    def answer(self, token: str) -> None:
        self._simulation.answered.add(token)


STEP_FAILURES = (
    RunsUnavailable,
    TicketsUnavailable,
    StatusUnavailable,
    ObjectsUnavailable,
    LedgerUnavailable,
    RoomUnavailable,
    RouterUnavailable,
    JournalUnavailable,
    ClaimLost,
    LeaseUnavailable,
    QueueUnavailable,
)
"""What the function `replay` fails with: Step Functions tries its step again."""


class StepFailed(Exception):
    """A step has failed as a function fails: the machine tries it again."""


SHARDS, PART = 2, 2
"""Shards of a lane, and letters of a part of the manifest: a few letters use several of each."""


@contextlib.contextmanager
def smaller_run() -> Iterator[None]:
    """The same code with fewer shards and smaller parts."""
    with contextlib.ExitStack() as stack:
        for module in WITH_SHARDS:
            stack.enter_context(patch.object(module, "SHARDS", SHARDS))
        for module in WITH_PARTS:
            stack.enter_context(patch.object(module, "PART", PART))
        stack.enter_context(patch.object(objects, "MOST_LETTERS", PART))
        stack.enter_context(patch.object(bringing_back, "MADE_TOGETHER", 1))
        # A worker that waits looks at its run each second: a proof has no use for so many looks.
        for module in (replay_worker, run_source):
            stack.enter_context(patch.object(module, "LOOK_SECONDS", 5.0))
        yield


WITH_SHARDS = (
    ordering,
    replay_evidence,
    waiting_room,
    room_adapter,
    redriver,
    freeze,
    leaving,
    manifest,
    reconcile,
)
WITH_PARTS = (names, freeze, leaving, lineup, manifest, reconcile)


SORTS: dict[str, Callable[[int], ReplaySimulation]] = {}
"""Special sorts of schedules, by name."""


def sort(make: Callable[[int], ReplaySimulation]) -> Callable[[int], ReplaySimulation]:
    SORTS[make.__name__] = make
    return make


SMALL = ReplayShape(
    library=True, canary=(1,), ramp=(1.0,), minutes=4, ordered=True, outcome_timeout=120.0
)


def striking(random: Random, rate: float) -> Plan:
    """Any fault at this rate on the calls of a run's processes."""

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        struck = process.name.startswith("replay") and random.random() < rate
        return random.choice(EVERYWHERE) if struck else None

    return plan


@sort
def ordered(seed: int) -> ReplaySimulation:
    """Few keys with many letters, and workers that are cut off and resume."""
    random = Random(seed * 53 + 1)
    kinds = ("good", "good", "good", "flaky")
    shape = replace(
        SMALL,
        fifo=random.random() < 0.2,
        kinds=tuple(random.choice(kinds) for _ in range(random.randint(2, 5))),
        keys=random.choice((1, 1, 2)),
        canary=random.choice(((1,), (2,), (5,))),
        machines=random.choice((1, 2)),
        run_workers=random.choice((1, 2)),
        skew=random.choice((0.0, 1.0)),
    )
    return ReplaySimulation(seed, shape, striking(random, random.choice((0.0, 0.03, 0.1))))


@sort
def stopped(seed: int) -> ReplaySimulation:
    """Runs that are held and aborted between a send and its ticket."""
    random = Random(seed * 59 + 2)
    shape = replace(
        SMALL,
        kinds=("good",) * random.randint(1, 3),
        canary=(3,),
        ordered=False,
        deeds=(random.choice(("abort", "abort", "abort to schedule", "hold")),),
        deeds_after=random.choice((20.0, 40.0)),
        rate=random.choice((0.2, 5.0)),
        run_burst=random.choice((1, 10)),
    )

    def plan(process: Process, name: str, _number: int) -> Fault | None:
        struck = "w" in process.name and name in SEND_TO_TICKET and random.random() < 0.3
        return (
            random.choice((Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST)) if struck else None
        )

    return ReplaySimulation(seed, shape, plan)


@sort
def stood_still(seed: int) -> ReplaySimulation:
    """Workers that stand still between a grant and its sends, while a person stops the run."""
    random = Random(seed * 83 + 9)
    shape = replace(
        SMALL,
        kinds=("good",) * random.randint(2, 4),
        canary=(1,),
        ordered=False,
        redrivers=0,
        stands_behind=(random.choice(GRANT_TO_SEND),),
        stopped_by=("hold", "hold", "abort", "abort to schedule"),
    )

    def plan(process: Process, name: str, _number: int) -> Fault | None:
        # What was surely not sent is sent again under the same grant.
        struck = "w" in process.name and name == "send_message_batch" and random.random() < 0.3
        return Fault.THROTTLED if struck else None

    return ReplaySimulation(seed, shape, plan)


@sort
def unwell(seed: int) -> ReplaySimulation:
    """Runs whose dependency says that it is down for a while; some are resumed too early, and
    letters expire meanwhile."""
    random = Random(seed * 89 + 4)
    began = random.choice((-1.0, 5.0, 20.0, 40.0))
    shape = replace(
        SMALL,
        kinds=tuple(random.choice(("good", "brief", "flaky")) for _ in range(random.randint(2, 5))),
        until=random.choice((20.0, 60.0, 120.0)),
        ordered=random.random() < 0.5,
        rate=random.choice((0.2, 5.0)),
        machines=random.choice((1, 2)),
        skew=random.choice((0.0, 1.0)),
        deeds=random.choice(((), ("resume",), ("resume", "resume"), ("hold", "resume"))),
        red=(began, began + random.choice((60.0, 200.0))),
    )
    rate = random.choice((0.0, 0.03))

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        struck = process.name.startswith("replay") and random.random() < rate
        return random.choice(CUTS) if struck else None

    return ReplaySimulation(seed, shape, plan)


@sort
def doubled(seed: int) -> ReplaySimulation:
    """Two executions of one run, several runs of one source, and a restart at any time."""
    random = Random(seed * 61 + 3)
    shape = replace(
        SMALL,
        kinds=tuple(random.choice(("good", "flaky", "poison")) for _ in range(3)),
        redrivers=random.choice((0, 1)),
        ordered=random.random() < 0.5,
        machines=2,
        run_workers=random.choice((1, 2)),
        deeds=random.choices(("start again", "another"), k=random.choice((1, 2))),
        deeds_after=random.choice((20.0, 60.0, 120.0)),
    )
    return ReplaySimulation(seed, shape, striking(random, random.choice((0.0, 0.05))))


@sort
def approved(seed: int) -> ReplaySimulation:
    """Runs that wait for an approval, which is granted, refused, or lapses; some are aborted."""
    random = Random(seed * 71 + 5)
    shape = replace(
        SMALL,
        kinds=tuple(random.choice(("good", "flaky", "other")) for _ in range(3)),
        approval=random.choice(("granted", "granted", "refused", "lapsed")),
        machines=random.choice((1, 2)),
        deeds=random.choice(((), ("abort",), ("start again",), ("hold", "resume"))),
        deeds_after=40.0,
    )
    return ReplaySimulation(seed, shape, striking(random, random.choice((0.0, 0.05))))


@sort
def discarded(seed: int) -> ReplaySimulation:
    """Letters that a person throws away, with and without an export, beside the schedule."""
    random = Random(seed * 73 + 6)
    shape = replace(
        SMALL,
        kinds=tuple(random.choice(("good", "large", "malformed", "other")) for _ in range(3)),
        destination=DISCARD,
        keep_export=random.random() < 0.5,
        source=random.choice(("dlq", parking_source("default"))),
        ordered=False,
        canary=(2,),
        deeds=random.choice(((), ("abort",), ("start again",))),
        deeds_after=40.0,
    )
    return ReplaySimulation(seed, shape, striking(random, random.choice((0.0, 0.05, 0.1))))


@sort
def isolated(seed: int) -> ReplaySimulation:
    """Runs whose source is a dedicated DLQ."""
    random = Random(seed * 79 + 7)
    shape = replace(
        SMALL,
        kinds=tuple(random.choice(("good", "flaky", "refused")) for _ in range(3)),
        source="slow",
        keys=random.choice((1, 2)),
        deeds=random.choice(((), ("abort",), ("hold",))),
        deeds_after=40.0,
        known_causes=seed % 4 > 0,
    )
    return ReplaySimulation(seed, shape, striking(random, random.choice((0.0, 0.03, 0.1))))


@sort
def returned(seed: int) -> ReplaySimulation:
    """Letters that die again and come back, to a live run or to one that has ended."""
    random = Random(seed * 67 + 4)
    shape = replace(
        SMALL,
        fifo=random.random() < 0.2,
        kinds=tuple(random.choice(("flaky", "poison", "late")) for _ in range(2)),
        tries=random.choice((1, 2, 3)),
        deeds=random.choice(((), ("abort",), ("another",))),
        deeds_after=90.0,
    )

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        struck = process.name.startswith("redriver") and random.random() < 0.05
        return random.choice(EVERYWHERE) if struck else None

    return ReplaySimulation(seed, shape, plan)


@sort
def repeated(seed: int) -> ReplaySimulation:
    """Runs that are repeated from their originals: cut off, doubled, held and aborted."""
    random = Random(seed * 89 + 10)
    shape = replace(
        SMALL,
        fifo=random.random() < 0.25,
        kinds=tuple(random.choice(("good", "good", "flaky", "large")) for _ in range(3)),
        keys=random.choice((1, 2)),
        keyed=random.random() < 0.5,
        machines=random.choice((1, 2, 2)),
        skew=random.choice((0.0, 1.0)),
        repeats=random.choice(("again", "again", "as they were")),
        stands_behind=random.choice(((), (), ("batch_get_item",), ("put_object",))),
        deeds=random.choice(((), (), ("abort last",), ("hold last",), ("start again",))),
        deeds_after=random.choice((40.0, 120.0, 200.0)),
    )
    return ReplaySimulation(seed, shape, striking(random, random.choice((0.0, 0.03, 0.1))))


CUTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST)

SEND_TO_TICKET = ("send_message_batch", "update_item", "batch_write_item")
"""The calls from a send to the ticket and the delete of what was sent."""


def schedule(seed: int) -> ReplaySimulation:
    """The random schedule with this seed, not run yet."""
    return ReplaySimulation(seed, replay_shape(seed), replay_plan_of_faults(seed))


def replay(seed: int) -> ReplaySimulation:
    """The random schedule with this seed, run to its end; raises Broken."""
    return schedule(seed).run()


def cut_at(number: int, fault: Fault, kinds: Sequence[str] = ("good", "flaky")) -> int:
    """A small run with one fault, at this call of its processes; raises Broken.

    Returns how many calls they made: the places there are.
    """
    made = 0

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        nonlocal made
        if not process.name.startswith("replay"):
            return None
        made += 1
        return fault if made == number + 1 else None

    ReplaySimulation(1, replace(SMALL, kinds=tuple(kinds)), plan).run()
    return made
