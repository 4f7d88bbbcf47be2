"""`make sim`: replay one schedule with its log (SEED=n), or run many (RUNS=n, FROM=n).

With OF=shards the schedules are those of drains in shards instead of single runs, with
OF=long-queue those of queues with hundreds of letters, with OF=breaker those of the circuit
breaker, with OF=replay those of the workers of replay runs and of their pace, with OF=replay-run
those of whole replay runs, with OF=review those of edits of rules, with
OF=order those of messages that have an order. HASH=file and OUTCOME=file
compare each seed's calls, or its outcome, with those of another commit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from deadletter.testing.clock import START
from tests.simulation import (
    breaker_simulator,
    long_queue,
    order_simulator,
    replay_simulator,
    rule_edits,
    shards_simulator,
)
from tests.simulation.digests import Digest, Kind, differing, digest
from tests.simulation.replay_pace import pace_schedule
from tests.simulation.scheduler import Scheduler
from tests.simulation.simulator import Simulation, random_plan, shape_of
from tests.simulation.witness import BY_SQS, CAUSES, EXTRA, PUBLISHED, Broken
from tests.simulation.worker_simulator import WorkerSimulation, worker_shape

CHUNK = 250
WIDTH = 50

PRINTED = ("deliveries", EXTRA, *(f"  {cause}" for cause in CAUSES), PUBLISHED, BY_SQS)
"""What the witness counts, in the order of the page."""


def show(of: str, seed: int) -> int:
    """Play the schedule with this seed, and print it call by call, then what its runs reported."""
    kind = MADE[of]
    if kind.shape:
        print(f"seed {seed}: {kind.shape(seed)}")
    with kind.around():
        simulation, broken = kind.make(seed), None
        try:
            simulation.run()
        except Broken as error:
            broken = error
    for moment, process, call, fault in simulation.scheduler.log:
        print(f"{moment - START:12.3f}  {process:<18} {call:<32} {fault or ''}".rstrip())
    for report in getattr(simulation, "reports", ()):
        print(report.to_json())
    print(f"BROKEN: {broken}" if broken else "every promise kept")
    return 1 if broken else 0


def some(of: str, first: int) -> tuple[Counter[str], list[str]]:
    """One chunk of seeds: what happened, and what broke."""
    kind, counts = MADE[of], Counter[str]()
    broken = []
    for seed in range(first, first + CHUNK):
        try:
            with kind.around():
                kind.beside(seed, lambda scheduler: None)
                simulation = kind.make(seed).run()
        except Broken as error:
            broken.append(f"seed {seed}: {error}")
            continue
        log = simulation.scheduler.log
        counts.update({"calls": len(log), "faults": sum(1 for line in log if line[3])})
        counts.update(kind.seen(simulation))
    return counts, broken


def _of_messages(simulation: Any) -> Mapping[str, int]:
    witness = simulation.witness
    return {
        "messages": len(witness.messages),
        **{name: witness.counts[name] for name in PRINTED},
    }


def _of_shards(simulation: Any) -> Mapping[str, int]:
    return {**_of_messages(simulation), "shards that took part": simulation.took_part}


def _of_long_queues(simulation: Any) -> Mapping[str, int]:
    return {**_of_messages(simulation), **simulation.seen}


def _of_breaker(simulation: Any) -> Mapping[str, int]:
    witness = simulation.witness
    return {
        "outages": witness.trips,
        "canaries": len(witness.canaries),
        "stale results fenced": witness.fenced,
    }


def _of_order(simulation: Any) -> Mapping[str, int]:
    order = {"effects in order": simulation.in_order, "messages superseded": simulation.superseded}
    return {**_of_messages(simulation), **order}


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def many(of: str, runs: int, first: int) -> int:
    """Run seeds in parallel and say what came of it."""
    began = time.perf_counter()
    total: Counter[str] = Counter()
    failed: list[str] = []
    chunks = range(first, first + runs, CHUNK)
    with ProcessPoolExecutor(processors()) as pool:
        for done, (counts, broken) in enumerate(pool.map(partial(some, of), chunks), start=1):
            total.update(counts)
            failed += broken
            for line in broken:
                print(line, flush=True)
            if done % 40 == 0:
                print(f"{done * CHUNK} schedules, {len(failed)} broken", flush=True)
    seconds = time.perf_counter() - began
    ran = len(chunks) * CHUNK
    print(f"{'schedules':<{WIDTH}} {ran} (seeds {first} to {first + ran - 1})")
    print(f"{'promises broken':<{WIDTH}} {len(failed)}")
    for name, number in total.items():
        print(f"{name:<{WIDTH}} {number}")
    rate = f"{ran / seconds:.0f} in {seconds:.0f} s on {processors()} cores"
    print(f"{'schedules a second':<{WIDTH}} {rate}")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this schedule with its log")
    parser.add_argument("--runs", type=int, default=5_000, help="how many schedules (5000)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--of", choices=MADE, default="redriver")
    parser.add_argument("--hash", type=Path, help="compare calls with this file, or write it")
    parser.add_argument("--outcome", type=Path, help="compare outcomes with it, or write it")
    chosen = parser.parse_args()
    if chosen.hash or chosen.outcome:
        return compare(chosen)
    if chosen.seed is not None:
        return show(chosen.of, chosen.seed)
    return many(chosen.of, chosen.runs, chosen.first)


def compare(chosen: argparse.Namespace) -> int:
    """Hash the chosen seeds, and compare them with files, or write these."""
    seeds = range(chosen.first, chosen.first + chosen.runs)
    with ProcessPoolExecutor(processors()) as pool:
        digests = [*pool.map(partial(digest_of, chosen.of), seeds, chunksize=10)]
    differs = False
    for path, part in ((chosen.hash, "calls"), (chosen.outcome, "outcome")):
        if path is not None:
            hashes = {s: getattr(each, part) for s, each in zip(seeds, digests, strict=True)}
            if found := differing(path, hashes):
                print(f"{path}: {found}")
                differs = True
            else:
                print(f"{path}: {len(seeds)} seeds, all equal")
    return int(differs)


def digest_of(kind: str, seed: int) -> Digest:
    return digest(MADE[kind], seed)


PACED = 20
"""Of so many schedules of workers, one is played with a schedule of the pace alone."""


def _beside_workers(seed: int, listen: Callable[[Scheduler], None]) -> None:
    """The schedule of the pace that is played with some seeds."""
    if seed % PACED == 0:
        simulation = pace_schedule(seed)
        listen(simulation.scheduler)
        simulation.run()


MADE: Mapping[str, Kind] = {
    "redriver": Kind(
        lambda seed: Simulation(seed, shape_of(seed), random_plan(seed)),
        shape=shape_of,
        seen=_of_messages,
    ),
    "shards": Kind(shards_simulator.shards_schedule, seen=_of_shards),
    "long-queue": Kind(long_queue.long_schedule, shape=long_queue.long_shape, seen=_of_long_queues),
    "breaker": Kind(breaker_simulator.schedule, seen=_of_breaker),
    "replay": Kind(
        lambda seed: WorkerSimulation(seed, worker_shape(seed)),
        replay_simulator.smaller_run,
        _beside_workers,
        shape=worker_shape,
        seen=lambda simulation: simulation.counts,
    ),
    "replay-run": Kind(
        replay_simulator.schedule,
        shape=replay_simulator.replay_shape,
        seen=lambda simulation: simulation.witness.counts,
    ),
    "review": Kind(rule_edits.edits_schedule, seen=_of_messages),
    "order": Kind(
        order_simulator.order_schedule, shape=order_simulator.order_shape, seen=_of_order
    ),
}
"""How the schedule of a seed is made, and what is told of it, by what it is of."""


if __name__ == "__main__":
    sys.exit(main())
