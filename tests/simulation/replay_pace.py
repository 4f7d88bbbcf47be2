"""One seed, one schedule of the pace of a replay run: five workers with skewed clocks take grants
from one item, and a person holds and resumes the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Self

from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.replay.limiter import RunLimiter, SendGrant, SendingEnded
from deadletter.replay.run import (
    ReplayRun,
    RunRefused,
    RunState,
    RunsUnavailable,
    held,
    moved_to,
    resumed,
)
from deadletter.testing.clock import START
from deadletter.testing.fakes import MemoryDynamoDB
from tests.simulation.replay_witness import STOPS_WITHIN, USED_WITHIN, check_window
from tests.simulation.scheduler import EVERYWHERE, Client, Crash, Fault, Plan, Process, Scheduler
from tests.simulation.stage import ids_from
from tests.simulation.witness import Broken
from tests.tables import LETTERS, create_messages_table

RUN = "0123456789abcdef"

WORKERS = 5
SKEW = 1.0
"""Seconds that each worker's clock may be wrong, to either side."""


@dataclass(frozen=True, slots=True)
class PaceShape:
    """What a schedule of a run's pace is made of; `calm` has no fault and no person.

    `ask` is how many letters a worker asks for at once, `busy` the longest time (seconds) that it
    does other work between a grant and its sends, `seconds` how long they all work.
    """

    rate: float = 5.0
    burst: int = 10
    ask: int = 10
    busy: float = 0.1
    seconds: float = 15.0
    allowance: int | None = None
    calm: bool = False


def pace_shape(seed: int) -> PaceShape:
    random = Random(seed * 7_001 + 3)
    return PaceShape(
        rate=random.choice((0.5, 2.0, 5.0, 40.0)),
        burst=random.choice((1, 5, 10, 20)),
        ask=random.choice((1, 3, 10)),
        busy=random.choice((0.05, 0.5, 3.0)),
        seconds=random.choice((4.0, 8.0)),
        allowance=random.choice((None, None, 1, 7)),
    )


def pace_faults(seed: int) -> Plan:
    random = Random(seed * 90_001 + 5)
    rate = random.choice((0.05, 0.2, 0.5))
    # Slow answers alone: what was granted long before it is known to the worker.
    kinds = random.choice((EVERYWHERE, (Fault.SLOW,)))

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        return random.choice(kinds) if random.random() < rate else None

    return plan


class PaceSimulation:
    """One schedule; raises Broken at the first broken promise."""

    def __init__(self, seed: int, shape: PaceShape, plan: Plan) -> None:
        self._shape = shape
        self._random = Random(seed)
        self.scheduler = Scheduler(
            seed, START, lambda p, name, n: None if shape.calm else plan(p, name, n)
        )
        self.scheduler.after_call = lambda *_: self._look()
        self._dynamodb = MemoryDynamoDB(self.scheduler.clock)
        create_messages_table(self._dynamodb)
        self._tokens = ids_from(seed + 1)
        self._stopped: float | None = None
        self._state = RunState.RUNNING if shape.allowance is None else RunState.CANARY
        self.sent: list[float] = []
        self.granted = 0

    def run(self) -> Self:
        shape = self._shape
        state = RunState.RUNNING if shape.allowance is None else RunState.CANARY
        self._runs(Process("person", ends=math.inf)).create(
            ReplayRun(
                id=RUN,
                pipeline="orders",
                state=state,
                rate=shape.rate,
                burst=shape.burst,
                allowance=shape.allowance or 0,
            )
        )
        for number in range(WORKERS):
            self.scheduler.add(self._worker(number))
        if not shape.calm:
            self.scheduler.add(self._person())
        self.scheduler.run()
        check_window(self.sent, rate=shape.rate, burst=shape.burst, slack=2 * SKEW + USED_WITHIN)
        if shape.allowance is not None and len(self.sent) > shape.allowance:
            raise Broken(f"{len(self.sent)} canaries of {shape.allowance}")
        return self

    def _runs(self, process: Process) -> DynamoDBReplayRuns:
        client = Client(self.scheduler, process, "dynamodb", self._dynamodb)
        real = self._dynamodb if process.name == "person" else client
        return DynamoDBReplayRuns(real, LETTERS, "orders", self._clock_of(process))  # type: ignore[arg-type]

    def _clock_of(self, process: Process) -> Callable[[], float]:
        return lambda: self.scheduler.now + process.skew

    def _look(self) -> None:
        [item] = self._dynamodb.items(LETTERS)
        state = RunState(item["state"]["S"])
        if state is not self._state:
            self._stopped = None if state is not RunState.HELD else self.scheduler.now
            self._state = state

    def _worker(self, number: int) -> Callable[[], None]:
        skew = (self._random.random() * 2 - 1) * SKEW
        random = Random(self._random.random())

        def act() -> None:
            for life in range(3):
                process = Process(f"replay{number}.{life}", skew)
                process.ends = self.scheduler.now + random.random() * 3 * self._shape.seconds
                if self._shape.calm:
                    process.ends = math.inf
                try:
                    self._work(process, random)
                    return
                except Crash:
                    continue

        return act

    def _work(self, process: Process, random: Random) -> None:
        runs, scheduler = self._runs(process), self.scheduler
        clock = self._clock_of(process)
        end = START + self._shape.seconds
        while scheduler.now < end:
            try:
                run = runs.read(RUN)
                assert run is not None
                pace = RunLimiter(
                    bids=runs,
                    run=run,
                    clock=clock,
                    wait=partial(scheduler.wait, process),
                    new_token=self._tokens,
                )
                while scheduler.now < end:
                    further = random.choice((0, 0, 4))
                    grant = pace.take(self._shape.ask, end + process.skew, further=further)
                    if grant is None:
                        # As a worker does: it looks for outcomes meanwhile.
                        scheduler.wait(process, min(1.0, pace.seconds_until(1) + 0.01))
                    else:
                        self._use(process, grant, random)
            except (SendingEnded, RunsUnavailable):
                scheduler.wait(process, 0.5)

    def _use(self, process: Process, grant: SendGrant, random: Random) -> None:
        """Send at once, or after some other work: a grant that is old is thrown away."""
        self.granted += grant.letters
        if not self._shape.calm:
            self.scheduler.wait(process, random.random() * self._shape.busy)
        if self.scheduler.now + process.skew >= grant.until:
            return
        now = self.scheduler.now
        if self._stopped is not None and now > self._stopped + STOPS_WITHIN:
            raise Broken(f"{process.name} sends {now - self._stopped:.1f} s after the hold")
        self.sent += [now] * grant.letters

    def _person(self) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            runs = self._runs(Process("person"))
            for _ in range(4):
                self.scheduler.sleep(random.random() * self._shape.seconds / 2)
                run = runs.read(RUN)
                assert run is not None
                deed = self._next_deed(random)
                try:
                    runs.change(run, deed(run))
                except RunRefused:
                    continue
                self._look()

        return act

    def _next_deed(self, random: Random) -> Callable[[ReplayRun], ReplayRun]:
        now = self.scheduler.now
        if random.random() < 0.5:
            return partial(held, at=now, by="ana", because="a look")
        if random.random() < 0.5:
            return partial(resumed, at=now, by="ana")
        return lambda run: moved_to(run, run.state, at=now, by="ana")


def pace_schedule(seed: int) -> PaceSimulation:
    """The random schedule with this seed, not yet run."""
    return PaceSimulation(seed, pace_shape(seed), pace_faults(seed))


def paced(seed: int) -> PaceSimulation:
    """The random schedule with this seed, run to its end; raises Broken."""
    return pace_schedule(seed).run()


def used_share(seed: int, shape: PaceShape) -> float:
    """The share of what the pace allows that five skewed workers use in calm weather."""
    simulation = PaceSimulation(seed, shape, lambda *_: None)
    simulation.run()
    first, last = simulation.sent[0], START + shape.seconds
    return len(simulation.sent) / (shape.rate * (last - first) + shape.burst)
