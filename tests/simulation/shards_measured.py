"""How fast shards drain a queue where only the latency of calls costs time: simulated time.

`python -m tests.simulation.shards_measured` prints a table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.moving import redriver_for
from deadletter.aws.wiring.world import World
from deadletter.redrive import redriver as redriver_module
from deadletter.redrive import shards
from deadletter.redrive.redriver import run_as_asked
from deadletter.redrive.source_memory import LONGEST_DRAIN
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.clock import START
from tests.simulation.scheduler import Fault, Patience, Process, Scheduler, SimulatedCall, TurnLock
from tests.simulation.shards_simulator import quiet
from tests.simulation.simulator import clients_of
from tests.simulation.stage import Stage, ids_from, prompt_policy

COLD_START = 0.2
"""Seconds from the start of a run to its first call."""


LATENCY = 0.01
"""Seconds that each call takes."""


class SteadyScheduler(Scheduler):
    """Each call takes as long, whoever else is calling: no processor and no wire is shared."""

    def _made(self, call: SimulatedCall, _fault: Fault | None, _patience: Patience) -> Any:
        self.wait(call.process, LATENCY)
        answer = call.answer()
        if call.name == "delete_message_batch":
            self.last_delete = self.now
        return answer

    last_delete = START


class MeasuredDrain:
    """One drain of so many letters in so many shards."""

    def __init__(self, of: int, letters: int, workers: int = 2) -> None:
        pipeline = Pipeline(
            "orders",
            policy=prompt_policy(),
            workers=workers,
            fixed_rate=100_000.0,
            backlog_limit=10 * letters,
        )
        self.of = of
        self.scheduler = SteadyScheduler(1, START, quiet)
        self.stage = Stage(pipeline, clock=self.scheduler.clock)
        # A long poll would move the clock of all.
        self.stage.redriver_sqs._on_wait = None
        self._ids = ids_from(2)
        self.moved = 0
        self.parts = 0
        for _ in range(letters):
            self.stage.put("{}", url=self.stage.dlq)

    def seconds(self) -> float:
        """Seconds from the owner's start until the last letter has left the queue."""
        with self._deep():
            self.scheduler.add(partial(self._run, {"source": "dlq"}, 0.0))
            self.scheduler.run()
        return self.scheduler.last_delete - START

    def start(self, event: Mapping[str, Any]) -> None:
        self.scheduler.add(partial(self._run, dict(event), COLD_START))

    def _run(self, event: dict[str, Any], seconds: float) -> None:
        self.scheduler.sleep(seconds)
        scheduler, stage = self.scheduler, self.stage
        process = Process(str(event))
        clients = clients_of(scheduler, process, stage)
        world = World(scheduler.clock, partial(scheduler.wait, process), self._ids, Random(1))
        redriver = redriver_for(
            stage.pipeline,
            replace(stage.resources, redrive_function="redrive"),
            clients,
            world,
            router=router_for(stage.pipeline, stage.resources, clients, world),
            in_parallel=scheduler.in_parallel,
            starter=self,
        )
        report = run_as_asked(redriver, event, scheduler.now + LONGEST_DRAIN / 2)
        self.moved += report.moved
        self.parts += bool(report.moved)

    @contextmanager
    def _deep(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module in (shards, redriver_module):
                stack.enter_context(patch.object(module, "ENOUGH_LETTERS", 1))
            stack.enter_context(patch.object(shards, "LETTERS_A_SHARD", 1))
            stack.enter_context(patch.object(shards, "MOST_SHARDS", self.of))
            stack.enter_context(patch("threading.Lock", partial(TurnLock, self.scheduler)))
            yield


def speed_of(of: int, letters: int) -> float:
    """Letters a second of a drain in so many shards, with so many letters for each."""
    return of * letters / MeasuredDrain(of, of * letters).seconds()


def main() -> None:
    alone = 0.0
    sys.stdout.write("| shards | letters/s | against one |\n|---|---|---|\n")
    for of in (1, 2, 4):
        speed = speed_of(of, 10_000)
        alone = alone or speed
        sys.stdout.write(f"| {of} | {speed:,.0f} | {speed / alone:.2f} |\n")


if __name__ == "__main__":
    main()
