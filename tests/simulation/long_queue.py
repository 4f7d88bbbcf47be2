"""Schedules in which a queue has hundreds of letters: full receives, several of them at once, chunk
after chunk, several chunks in flight, in one run or in several shards.

The rest is the simulator of drains in shards: its actors, its faults, and all of its invariants.
The consumers here are simple ones, which are never struck.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Self
from unittest.mock import patch

from deadletter.redrive import queue_source, round_robin, run_limits
from deadletter.redrive.mover import Mover
from deadletter.redrive.receiving import ChunkReceiver
from deadletter.redrive.run_limits import RunLimits
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline
from tests.simulation.scheduler import EVERYWHERE, Fault, Plan, Process
from tests.simulation.shards_simulator import ShardsSimulation, Starts, quiet
from tests.simulation.simulator import NO_WAIT, SEND_TO_DELETE, Shape, number_in, strikes
from tests.simulation.witness import uid_of

STEADY = (0.008, 0.012)
"""Seconds of a call, and how many more at most."""

ENOUGH_RATE = 1_000.0
"""Letters a second: the pace is no limit."""

SEVERAL_RECEIVES = "waves of several receives"
CHUNKS_AT_ONCE = "chunks moved beside another one"
SHORT_OF_MEMORY = "chunks that waited for memory"


@dataclass(frozen=True, slots=True)
class LongShape(Shape):
    """What a schedule with a long queue is made of.

    `letters` die of each of the `kinds`, in turn, and of FIFO `groups`. A chunk has up to `chunk`
    letters, and all those under way so many bytes of `memory`. A drain has so many `shards`, in
    FIFO one.
    """

    letters: int = 200
    groups: int = 20
    chunk: int = 30
    shards: int = 1
    memory: int = run_limits.MOST_BYTES


class LongQueueSimulation(ShardsSimulation):
    """One schedule with a long queue, run to its end and then healed; raises Broken."""

    def __init__(self, seed: int, shape: LongShape, plan: Plan, starts: Starts) -> None:
        self._long = shape
        self.seen: Counter[str] = Counter()
        super().__init__(seed, shape, plan, starts)
        self.scheduler.latency = STEADY
        self.most_shards = shape.shards

    def _pipeline(self, shape: Shape) -> Pipeline:
        return replace(super()._pipeline(shape), fixed_rate=ENOUGH_RATE)

    def run(self) -> Self:
        with (
            patch.object(queue_source, "MAX_PLANS", self._long.chunk),
            patch.object(run_limits, "MAX_PLANS", self._long.chunk),
            patch.object(run_limits, "MOST_BYTES", self._long.memory),
            # A turn is a chunk.
            patch.object(round_robin, "LARGEST_TURN", self._long.chunk),
            self._watched(),
        ):
            return super().run()

    # Actors

    def _produce(self) -> None:
        """Letters that have died long ago, put into the DLQ at once."""
        for number in range(self._long.letters):
            uid = f"{self._long.kinds[number % len(self._long.kinds)]}{number}"
            self._lives[uid] = 0
            tenant = "b" if uid.startswith("tenantb") else "a"
            body = f'{{"tenantId": "{tenant}", "key": "{uid}", "uid": "~{uid}~"}}'
            if uid.startswith("malformed"):
                body = f"{{~{uid}~"
            options: dict[str, Any] = {}
            if self._long.fifo:
                options = {
                    "MessageGroupId": f"g{number % self._long.groups}",
                    "MessageDeduplicationId": uid,
                }
            message_id = self.stage.put(body, url=self.stage.dlq, **options)
            self.witness.produced(uid, message_id, body, {})
        if self._long.rule is not None:
            self.stage.add_rule("only", action=self._long.rule, tenantId="b", queue="slow")

    def _consume(self, process: Process) -> None:
        """All that is visible, ten at a time: a flaky letter fails once more, poison always."""
        sqs, main = self.stage.sqs, self.stage.main
        while messages := sqs.receive_message(
            QueueUrl=main, MaxNumberOfMessages=10, VisibilityTimeout=30
        ).get("Messages"):
            for message in messages:
                uid = uid_of(message["Body"])
                self._lives[uid] += 1
                if uid.startswith("poison") or (uid.startswith("flaky") and self._lives[uid] == 1):
                    continue
                self.witness.processed(uid)
                sqs.delete_message(QueueUrl=main, ReceiptHandle=message["ReceiptHandle"])
        self.witness.check_conservation()

    def _group_of(self, uid: str) -> str | None:
        return f"g{number_in(uid) % self._long.groups}" if self._long.fifo else None

    # What is seen

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Counts what a schedule with a short queue has none of."""
        receive, move = ChunkReceiver._receive, Mover.move
        begins_chunk = RunLimits._begins_chunk
        moving: Counter[int] = Counter()

        def receiving(receiver: Any, in_hand: Any, sizes: Sequence[int], **options: Any) -> Any:
            self.seen[SEVERAL_RECEIVES] += len(sizes) > 1
            return receive(receiver, in_hand, sizes, **options)

        def moved(mover: Any, *rest: Any, **options: Any) -> Any:
            moving[id(mover)] += 1
            self.seen[CHUNKS_AT_ONCE] += moving[id(mover)] > 1
            try:
                return move(mover, *rest, **options)
            finally:
                moving[id(mover)] -= 1

        def beginning(run: RunLimits) -> bool:
            begins = begins_chunk(run)
            self.seen[SHORT_OF_MEMORY] += not begins
            return begins

        with (
            patch.object(RunLimits, "_begins_chunk", beginning),
            patch.object(ChunkReceiver, "_receive", receiving),
            patch.object(Mover, "move", moved),
        ):
            yield


def struck_once(random: Random) -> Plan:
    """One fault at one call of the runs."""
    at, fault = random.randrange(250), random.choice((*CUTS, *CUTS, *Fault))
    made = 0

    def plan(process: Process, _name: str, _number: int) -> Fault | None:
        nonlocal made
        if not process.name.startswith("redriver"):
            return None
        made += 1
        return fault if made - 1 == at else None

    return plan


def struck_while_sending(random: Random) -> Plan:
    """Faults at the calls from a send to the delete."""
    kinds = random.choice((EVERYWHERE, CUTS, (Fault.PARTLY,), (Fault.LOST, Fault.HANG)))
    rate = random.choice((0.03, 0.1))

    def plan(process: Process, name: str, _number: int) -> Fault | None:
        struck = name in SEND_TO_DELETE and process.name.startswith("redriver")
        return random.choice(kinds) if struck and random.random() < rate else None

    return plan


CUTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)

PLANS: tuple[Callable[[Random], Plan], ...] = (
    struck_once,
    struck_once,
    struck_while_sending,
    lambda random: strikes(random, random.choice((0.005, 0.02))),
    lambda _: quiet,
)

KINDS = (
    ("good",),
    ("good",),
    ("good", "tenantb", "malformed"),
    ("good", "good", "flaky", "poison"),
)


def long_shape(seed: int) -> LongShape:
    """The shape of the schedule with this seed."""
    random = Random(seed * 61 + 31)
    return LongShape(
        fifo=random.random() < 0.2,
        kinds=random.choice(KINDS),
        letters=random.choice((60, 150, 300)),
        groups=random.choice((3, 40)),
        chunk=random.choice((20, 20, 30, 100)),
        shards=random.choice((1, 1, 2, 3, 4)),
        backoff=random.choice((NO_WAIT, NO_WAIT, Backoff(base=100, factor=1, cap=100, floor=0))),
        rule=random.choice((None, "DEDICATED_DLQ")),
        redrivers=random.choice((1, 2)),
        apart=random.choice((0.2, 7.0)),
        always_leased=random.random() < 0.3,
        random_queue=random.random() < 0.3,
        operator=random.random() < 0.3,
        workers=random.choice((1, 2, 4)),
        stale=random.random() < 0.3,
        memory=random.choice((run_limits.MOST_BYTES, run_limits.MOST_BYTES, 10_000)),
    )


def long_schedule(seed: int) -> LongQueueSimulation:
    """The schedule with this seed, not yet run."""
    random = Random(seed * 67 + 37)
    plan = random.choice(PLANS)(random)
    starts = Starts(*(random.choice((0.0, 0.0, 0.3)) for _ in range(3)))
    return LongQueueSimulation(seed, long_shape(seed), plan, starts)


def simulate_long_queue(seed: int) -> LongQueueSimulation:
    """The schedule with this seed, run to its end; raises Broken."""
    return long_schedule(seed).run()
