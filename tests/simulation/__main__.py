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
from collections.abc import Callable, Mapping, Sequence
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
from tests.simulation.long_queue import LongQueueSimulation
from tests.simulation.order_simulator import OrderSimulation
from tests.simulation.replay_pace import pace_schedule, paced
from tests.simulation.scheduler import Scheduler
from tests.simulation.shards_simulator import ShardsSimulation
from tests.simulation.simulator import Simulation, random_plan, shape_of, simulate
from tests.simulation.witness import BY_SQS, CAUSES, EXTRA, PUBLISHED, Broken
from tests.simulation.worker_simulator import WorkerSimulation, worker_shape

CHUNK = 250
WIDTH = 50

PRINTED = ("deliveries", EXTRA, *(f"  {cause}" for cause in CAUSES), PUBLISHED, BY_SQS)
"""What the witness counts, in the order of the page."""


def replay(seed: int) -> int:
    """Print one schedule call by call."""
    print(f"seed {seed}: {shape_of(seed)}")
    return _show(Simulation(seed, shape_of(seed), random_plan(seed)))


def shown(simulation: Any, log: Sequence[tuple[Any, ...]], reports: Sequence[Any] = ()) -> int:
    """Run the schedule and print it call by call, then what its runs reported."""
    broken = None
    try:
        simulation.run()
    except Broken as error:
        broken = error
    for moment, process, call, fault in log:
        print(f"{moment - START:12.3f}  {process:<18} {call:<32} {fault or ''}".rstrip())
    for report in reports:
        print(report.to_json())
    print(f"BROKEN: {broken}" if broken else "every promise kept")
    return 1 if broken else 0


def some(
    first: int, simulate: Callable[[int], Simulation] = simulate
) -> tuple[Counter[str], list[str]]:
    """One chunk of seeds: what happened, and what broke."""
    counts: Counter[str] = Counter()
    broken = []
    for seed in range(first, first + CHUNK):
        try:
            simulation = simulate(seed)
        except Broken as error:
            broken.append(f"seed {seed}: {error}")
            continue
        counts["messages"] += len(simulation.witness.messages)
        counts["calls"] += len(simulation.scheduler.log)
        counts["faults"] += sum(1 for line in simulation.scheduler.log if line[3])
        counts.update({name: simulation.witness.counts[name] for name in PRINTED})
        if isinstance(simulation, ShardsSimulation):
            counts["shards that took part"] += simulation.took_part
        if isinstance(simulation, LongQueueSimulation):
            counts.update(simulation.seen)
        if isinstance(simulation, OrderSimulation):
            counts["effects in order"] += simulation.in_order
            counts["messages superseded"] += simulation.superseded
    return counts, broken


def show_shards(seed: int) -> int:
    """Print the drain in shards with this seed call by call."""
    return _show(shards_simulator.shards_schedule(seed))


def show_long_queue(seed: int) -> int:
    """Print the schedule of a long queue with this seed call by call."""
    print(f"seed {seed}: {long_queue.long_shape(seed)}")
    return _show(long_queue.long_schedule(seed))


def _show(simulation: Simulation) -> int:
    return shown(simulation, simulation.scheduler.log, simulation.reports)


def replay_of_breaker(seed: int) -> int:
    """Print one schedule of the circuit breaker call by call."""
    simulation = breaker_simulator.schedule(seed)
    return shown(simulation, simulation.scheduler.log)


def some_of_breaker(first: int) -> tuple[Counter[str], list[str]]:
    """One chunk of the breaker's seeds, as `some`."""
    counts: Counter[str] = Counter()
    broken = []
    for seed in range(first, first + CHUNK):
        try:
            simulation = breaker_simulator.simulate(seed)
        except Broken as error:
            broken.append(f"seed {seed}: {error}")
            continue
        counts["calls"] += len(simulation.scheduler.log)
        counts["faults"] += sum(1 for line in simulation.scheduler.log if line[3])
        counts["outages"] += simulation.witness.trips
        counts["canaries"] += len(simulation.witness.canaries)
        counts["stale results fenced"] += simulation.witness.fenced
    return counts, broken


def show_replay(seed: int) -> int:
    """Print one schedule of a replay run call by call."""
    simulation = replay_simulator.schedule(seed)
    print(f"seed {seed}: {replay_simulator.replay_shape(seed)}")
    return shown(simulation, simulation.scheduler.log)


def show_worker(seed: int) -> int:
    """Print one schedule of the workers of a replay run call by call."""
    print(f"seed {seed}: {worker_shape(seed)}")
    with replay_simulator.smaller_run():
        simulation = WorkerSimulation(seed, worker_shape(seed))
        return shown(simulation, simulation.log)


PACED = 20
"""Of so many schedules of workers, one is played with a schedule of the pace alone."""


def some_of_workers(first: int) -> tuple[Counter[str], list[str]]:
    """One chunk of seeds of the workers of a run, and of its pace, as `some`."""
    counts: Counter[str] = Counter()
    broken = []
    with replay_simulator.smaller_run():
        for seed in range(first, first + CHUNK):
            simulation = WorkerSimulation(seed, worker_shape(seed))
            try:
                simulation.run()
            except Broken as error:
                broken.append(f"seed {seed}: {error}")
            counts["calls"] += len(simulation.log)
            counts["faults"] += sum(1 for line in simulation.log if line[3])
            counts.update(simulation.counts)
    for seed in range(first, first + CHUNK, PACED):
        try:
            counts["letters sent by five workers at a pace"] += len(paced(seed).sent)
        except Broken as error:
            broken.append(f"seed {seed}, pace: {error}")
    return counts, broken


def some_of_replay(first: int) -> tuple[Counter[str], list[str]]:
    """One chunk of seeds of whole replay runs, as `some`."""
    counts: Counter[str] = Counter()
    broken = []
    for seed in range(first, first + CHUNK):
        simulation = replay_simulator.schedule(seed)
        try:
            simulation.run()
        except Broken as error:
            broken.append(f"seed {seed}: {error}")
        counts["calls"] += len(simulation.scheduler.log)
        counts["faults"] += sum(1 for line in simulation.scheduler.log if line[3])
        counts.update(simulation.witness.counts)
    return counts, broken


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


Some = Callable[[int], tuple[Counter[str], list[str]]]


def many(runs: int, first: int, some: Some = some) -> int:
    """Run seeds in parallel and say what came of it."""
    began = time.perf_counter()
    total: Counter[str] = Counter()
    failed: list[str] = []
    chunks = range(first, first + runs, CHUNK)
    with ProcessPoolExecutor(processors()) as pool:
        for done, (counts, broken) in enumerate(pool.map(some, chunks), start=1):
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
    parser.add_argument("--of", choices=(*PLAYED, "redriver"), default="redriver")
    parser.add_argument("--hash", type=Path, help="compare calls with this file, or write it")
    parser.add_argument("--outcome", type=Path, help="compare outcomes with it, or write it")
    chosen = parser.parse_args()
    if chosen.hash or chosen.outcome:
        return compare(chosen)
    show, some_seeds = PLAYED.get(chosen.of, (replay, some))
    if chosen.seed is not None:
        return show(chosen.seed)
    return many(chosen.runs, chosen.first, some_seeds)


def show_edits(seed: int) -> int:
    """Print the schedule of edits with this seed call by call."""
    return _show(rule_edits.edits_schedule(seed))


def show_order(seed: int) -> int:
    """Print the schedule of messages in order with this seed call by call."""
    print(f"seed {seed}: {order_simulator.order_shape(seed)}")
    return _show(order_simulator.order_schedule(seed))


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


def _beside_workers(seed: int, listen: Callable[[Scheduler], None]) -> None:
    """The schedule of the pace that is played with some seeds."""
    if seed % PACED == 0:
        simulation = pace_schedule(seed)
        listen(simulation.scheduler)
        simulation.run()


MADE: Mapping[str, Kind] = {
    "redriver": Kind(lambda seed: Simulation(seed, shape_of(seed), random_plan(seed))),
    "shards": Kind(shards_simulator.shards_schedule),
    "long-queue": Kind(long_queue.long_schedule),
    "breaker": Kind(breaker_simulator.schedule),
    "replay": Kind(
        lambda seed: WorkerSimulation(seed, worker_shape(seed)),
        replay_simulator.smaller_run,
        _beside_workers,
    ),
    "replay-run": Kind(replay_simulator.schedule),
    "review": Kind(rule_edits.edits_schedule),
    "order": Kind(order_simulator.order_schedule),
}
"""How the schedule of a seed is made, by what it is of."""

PLAYED: Mapping[str, tuple[Callable[[int], int], Some]] = {
    "shards": (show_shards, partial(some, simulate=shards_simulator.simulate_shards)),
    "long-queue": (show_long_queue, partial(some, simulate=long_queue.simulate_long_queue)),
    "breaker": (replay_of_breaker, some_of_breaker),
    "replay": (show_worker, some_of_workers),
    "replay-run": (show_replay, some_of_replay),
    "review": (show_edits, partial(some, simulate=rule_edits.edited)),
    "order": (show_order, partial(some, simulate=order_simulator.in_order)),
}
"""How one schedule is shown, and how many are played, by what they are of."""


if __name__ == "__main__":
    sys.exit(main())
