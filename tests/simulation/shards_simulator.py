"""Schedules of drains in shards: owners start other runs, whose starts are late, lost or repeated.

The rest is the redriver's simulator: its actors, its faults, and all of its invariants.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Self
from unittest.mock import patch

from deadletter.contract import Partition
from deadletter.pace.run import RunPace
from deadletter.redrive import redriver as redriver_module
from deadletter.redrive import shards
from deadletter.redrive.redriver import Redriver, run_as_asked
from deadletter.redrive.redriver_setup import RunNotStarted
from deadletter.redrive.source_memory import Drain
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline
from tests.simulation.scheduler import EVERYWHERE, Crash, Fault, Plan, Process
from tests.simulation.simulator import LIFE, NO_WAIT, SEND_TO_DELETE, Shape, Simulation, strikes
from tests.simulation.witness import Broken
from tests.tables import LETTERS

SHARDS = 3
RATE = 0.5
BURST = 5.0
LATEST = 90.0
"""Seconds that a start is late at most: longer than a run lasts."""


@dataclass(frozen=True, slots=True)
class Starts:
    """How the starts of runs go wrong: the share of those that are lost, repeated, and late."""

    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.0


class ShardsSimulation(Simulation):
    """One schedule in which any queue is deep enough for a drain in three shards."""

    def __init__(self, seed: int, shape: Shape, plan: Plan, starts: Starts) -> None:
        super().__init__(seed, shape, plan)
        self._starts = starts
        self._starting = Random(seed + 5)
        self._numbers = itertools.count()
        self._tokens = BURST
        self._tokens_at = self.scheduler.now
        self.moved_by: dict[str, int] = {}
        self.took_part = 0

    def _pipeline(self, shape: Shape) -> Pipeline:
        pipeline = super()._pipeline(shape)
        return replace(pipeline, fixed_rate=RATE)

    def run(self) -> Self:
        with (
            patch.object(shards, "ENOUGH_LETTERS", 1),
            patch.object(redriver_module, "ENOUGH_LETTERS", 1),
            patch.object(shards, "LETTERS_A_SHARD", 1),
            patch.object(shards, "RATE_A_SHARD", RATE / 100),
            patch.object(shards, "MOST_SHARDS", self.most_shards),
            self._watched_pace(),
        ):
            return super().run()

    def _build(self, process: Process, home: str) -> Redriver:
        redriver = super()._build(process, home)
        return Redriver(replace(redriver._setup, starter=self))

    def _run(self) -> None:
        if self.waves:
            self.scheduler.add(self._producer())
        super()._run()

    most_shards = SHARDS

    waves = 0
    """How often more letters come while runs are under way."""

    def _producer(self) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            for wave in range(self.waves):
                self.scheduler.sleep(random.random() * 60)
                for number in range(6):
                    uid = f"good{100 + 10 * wave + number}"
                    body = f'{{"tenantId": "a", "key": "{uid}", "uid": "~{uid}~"}}'
                    message_id = self.stage.put(body, MessageAttributes={})
                    self.witness.produced(uid, message_id, body, {})

        return act

    # Starts

    def start(self, event: Mapping[str, Any]) -> None:
        """What Lambda makes of an asynchronous start."""
        random, starts = self._starting, self._starts
        is_lost = not self._healing and random.random() < starts.lost
        if is_lost and random.random() < 0.5:
            raise RunNotStarted("ThrottlingException")
        drain = self._drain_of(event["source"])
        copies = 0 if is_lost else 1 + (random.random() < starts.repeated)
        for _ in range(copies):
            late = random.random() < starts.late and not self._healing
            seconds = random.random() * (LATEST if late else 1)
            self.scheduler.add(partial(self._start_later, dict(event), seconds, drain))

    def _start_later(self, event: dict[str, Any], seconds: float, drain: Drain) -> None:
        self.scheduler.sleep(seconds)
        process = Process(f"redriver-started{next(self._numbers)}")
        process.ends = self.scheduler.now + self._shape.life
        try:
            redriver = self._build(process, event["source"])
            report = run_as_asked(redriver, event, process.ends)
        except Crash:
            return
        self.reports.append(report)
        if report.shard and "shard" in event:
            self.took_part += 1
            # A call that hangs may end long after everything else.
            if not process.pauses and self.scheduler.now > drain.until + 1:
                raise Broken("a shard works on when its drain has long ended")

    def _drain_of(self, home: str) -> Drain:
        drain = self._lease_items().get(home, {}).get("drain", {}).get("M")
        if drain is None:
            return Drain()
        return Drain(drain["id"]["S"], int(drain["of"]["N"]), float(drain["until"]["N"]))

    def _lease_items(self) -> dict[str, dict[str, Any]]:
        return {
            item["sk"]["S"]: item
            for item in self.stage.dynamodb.items(LETTERS)
            if item["pk"]["S"] == Partition.LEASE.of("orders")
        }

    # What a drain has to keep

    @contextlib.contextmanager
    def _watched_pace(self) -> Iterator[None]:
        """All shards and owners together spend what one run could."""
        take, give_back = RunPace.take, RunPace.give_back

        def taken(limiter: RunPace, most: int, least: int = 1) -> int:
            granted = take(limiter, most, least)
            self._spend(granted)
            return granted

        def given_back(limiter: RunPace, unused: int) -> None:
            give_back(limiter, unused)
            self._tokens += unused

        with (
            patch.object(RunPace, "take", taken),
            patch.object(RunPace, "give_back", given_back),
        ):
            yield

    def _spend(self, granted: int) -> None:
        now = self.scheduler.now
        self._tokens = min(BURST, self._tokens + (now - self._tokens_at) * RATE) - granted
        self._tokens_at = now
        # A run that is killed does not say what it has spent.
        if self._tokens < -1e-6 and not self._shape.rescues and self.is_unharmed:
            raise Broken(f"more letters than the rate allows: {-self._tokens:.2f}")

    is_unharmed = False
    """Whether no fault strikes a run, so that each says what it has spent."""

    def _heal(self) -> None:
        # Every drain has ended, every lock too, and so has every lease of a shard.
        self.scheduler.now += LIFE + 1
        for source, item in self._lease_items().items():
            _, is_shard, _ = source.partition("~")
            until = float(item.get("until", {"N": "0"})["N"])
            if is_shard and until > self.scheduler.now:
                raise Broken("a shard's lease outlives its drain: its number is lost to the next")
        super()._heal()


def quiet(_process: Process, _name: str, _number: int) -> None:
    """No fault strikes."""


KINDS = ("good", "good", "good", "flaky", "large", "ten", "tenantb", "malformed")


def sharded(seed: int) -> ShardsSimulation:
    """Drains in shards with any fault, on both kinds of queues; not yet run."""
    random = Random(seed * 47 + 19)
    plan = strikes(random, random.choice((0.0, 0.02, 0.05, 0.15)))
    shape = Shape(
        fifo=random.random() < 0.3,
        kinds=tuple(random.choice(KINDS) for _ in range(random.randint(3, 8))),
        backoff=random.choice((NO_WAIT, Backoff(base=1_500, factor=1, cap=1_500, floor=0))),
        redrivers=random.choice((1, 2)),
        apart=random.choice((0.2, 7.0)),
        random_queue=random.random() < 0.5,
        operator=random.random() < 0.5,
        rescues=random.choice(((), ("dlq",))),
        workers=random.choice((1, 2)),
        stale=random.random() < 0.5,
        settles=random.random() < 0.5,
        page=random.choice((None, 1)),
        known_causes=seed % 4 > 0,
    )
    starts = Starts(*(random.choice((0.0, 0.3)) for _ in range(3)))
    return ShardsSimulation(seed, shape, plan, starts)


def paced(seed: int) -> ShardsSimulation:
    """Drains whose starts go wrong and whose calls do not: the pace is kept; not yet run."""
    random = Random(seed * 53 + 23)
    shape = Shape(
        kinds=("good",) * random.choice((6, 24)),
        redrivers=2,
        apart=random.choice((0.2, 7.0, 30.0)),
        workers=random.choice((1, 2)),
    )
    starts = Starts(*(random.choice((0.0, 0.4)) for _ in range(3)))
    simulation = ShardsSimulation(seed, shape, quiet, starts)
    simulation.is_unharmed = True
    simulation.waves = random.choice((0, 4))
    return simulation


def crossed(seed: int) -> ShardsSimulation:
    """Shards that are struck between a send and its delete, and find letters of one another.

    The schedule is not yet run.
    """
    random = Random(seed * 59 + 29)
    rate = random.choice((0.05, 0.2))
    kinds = random.choice((EVERYWHERE, (Fault.CRASH_AFTER,), (Fault.CRASH_BEFORE,)))

    def plan(process: Process, name: str, _number: int) -> Fault | None:
        struck = name in SEND_TO_DELETE and process.name.startswith("redriver")
        return random.choice(kinds) if struck and random.random() < rate else None

    shape = Shape(
        kinds=("good",) * 12,
        redrivers=2,
        minutes=6,
        apart=random.choice((0.2, 7.0)),
        operator=random.random() < 0.5,
        workers=random.choice((1, 2)),
    )
    return ShardsSimulation(seed, shape, plan, Starts())


SORTS: tuple[Callable[[int], ShardsSimulation], ...] = (sharded, paced, crossed)


def shards_schedule(seed: int) -> ShardsSimulation:
    """The schedule with this seed, of each sort in turn, not yet run."""
    number, sort = divmod(seed, len(SORTS))
    return SORTS[sort](number)


def simulate_shards(seed: int) -> ShardsSimulation:
    """The schedule with this seed, run to its end; raises Broken."""
    return shards_schedule(seed).run()
