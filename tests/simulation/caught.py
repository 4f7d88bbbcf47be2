"""Planted bugs, and recorded schedules that catch them: `make caught`.

`caught.json` holds, for each bug, up to three schedules that break a promise with it; one of them
has to do so in every run of the tests, and the same schedule without the bug breaks none. Where
code has moved and no recorded one hits any more, the bug is lost: this searches it anew, and
records what it finds.

    python -m tests.simulation.caught                  the lost ones
    python -m tests.simulation.caught "SIMULATOR: BUG" this one, or all whose names hold the text
    python -m tests.simulation.caught --fresh 7000     each, by unrecorded schedules from this seed
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.simulation import (
    breaker_planted,
    breaker_simulator,
    causes_planted,
    claims_planted,
    kinds_planted,
    long_queue,
    long_queue_planted,
    order_planted,
    order_simulator,
    pause_planted,
    planted,
    replay_planted,
    replay_simulator,
    rule_edits,
    rule_edits_planted,
    shards_planted,
    shards_simulator,
    simulator,
    worker_planted,
)
from tests.simulation.causes_simulator import CausesSimulation
from tests.simulation.claims_simulator import Workers
from tests.simulation.effects import Broken
from tests.simulation.kinds_simulator import KindsSimulation, LargeMinority
from tests.simulation.pause_simulator import PauseSimulation
from tests.simulation.planting import Planted
from tests.simulation.replay_pace import paced
from tests.simulation.scheduler import EVERYWHERE
from tests.simulation.worker_simulator import WORKER_SORTS, WorkerSimulation, worker_shape

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("caught.json")

ENOUGH = 3
"""Recorded schedules of each bug: code may move until none of them hits."""

Play = Callable[[int], object]
"""Plays the schedule with this seed to its end; raises Broken."""


class Schedule(NamedTuple):
    """One schedule of a simulator."""

    sort: str
    seed: int


@dataclass(frozen=True)
class Hunt:
    """The planted bugs of one simulator, and the sorts of schedules in which they are looked for.

    most    schedules after which a search gives up; of each sort in turn
    around  what all of its schedules are played in
    """

    bugs: Mapping[str, Planted]
    sorts: Mapping[str, Play]
    most: int
    around: Planted = contextlib.nullcontext

    def is_broken(self, schedule: Schedule) -> bool:
        with self.around():
            try:
                self.sorts[schedule.sort](schedule.seed)
            except Broken:
                return True
            except Exception:
                # It shows no broken promise: a bug may also end a schedule by an error.
                return False
        return False

    def schedules(self, sorts: Sequence[str], first: int = 0) -> Iterator[Schedule]:
        """Schedules of these sorts, in turn, from a seed on."""
        seeds = itertools.count(first)
        every = (Schedule(sort, seed) for seed in seeds for sort in sorts)
        return itertools.islice(every, self.most)


def single_fault(seed: int) -> None:
    """One fault at one call: each kind at each call, in turn."""
    at, kind = divmod(seed, len(EVERYWHERE))
    workload = simulator.WORKLOADS["two redrivers, and some letters wait"]
    simulator.place(workload, {at: EVERYWHERE[kind]})


def by_name(*plays: Play) -> Mapping[str, Play]:
    return {play.__name__: play for play in plays}  # type: ignore[attr-defined]


def of_worker(shape: Callable[[int], object]) -> Play:
    return lambda seed: WorkerSimulation(seed, shape(seed)).run()  # type: ignore[arg-type]


def run_to_its_end(make: Callable[[int], object]) -> Play:
    return lambda seed: make(seed).run()  # type: ignore[attr-defined]


HUNTS: Mapping[str, Hunt] = {
    "redriver": Hunt(
        planted.BUGS,
        by_name(
            simulator.simulate,
            single_fault,
            simulator.drowsy,
            simulator.crowded,
            simulator.grouped,
            simulator.rescued,
            simulator.interrupted,
            simulator.unreachable,
        ),
        2_000,
    ),
    "long queue": Hunt(long_queue_planted.BUGS, by_name(long_queue.simulate_long_queue), 500),
    "shards": Hunt(
        shards_planted.BUGS,
        {sort.__name__: run_to_its_end(sort) for sort in shards_simulator.SORTS},
        600,
    ),
    "rule edits": Hunt(rule_edits_planted.BUGS, by_name(rule_edits.edited), 2_000),
    "order": Hunt(
        order_planted.BUGS, by_name(order_simulator.in_order, order_simulator.dying), 1_500
    ),
    "breaker": Hunt(breaker_planted.BUGS, by_name(breaker_simulator.simulate), 400),
    "pause": Hunt(pause_planted.BUGS, {"pause": run_to_its_end(PauseSimulation)}, 5_000),
    "causes": Hunt(causes_planted.BUGS, {"deployment": run_to_its_end(CausesSimulation)}, 200),
    "kinds": Hunt(
        kinds_planted.BUGS,
        {
            "minority": run_to_its_end(KindsSimulation),
            "large minority": run_to_its_end(LargeMinority),
        },
        2_000,
    ),
    "claims": Hunt(claims_planted.BUGS, {"workers": run_to_its_end(Workers)}, 1_000),
    "replay run": Hunt(
        replay_planted.RUN_BUGS,
        {name: run_to_its_end(make) for name, make in replay_simulator.SORTS.items()},
        3_000,
    ),
    "replay pace": Hunt(replay_planted.PACE_BUGS, by_name(paced), 1_500),
    "replay workers": Hunt(
        worker_planted.WORKER_BUGS,
        {
            name: of_worker(shape)
            for name, shape in {"worker_shape": worker_shape, **WORKER_SORTS}.items()
        },
        5_000,
        around=replay_simulator.smaller_run,
    ),
}
"""All planted bugs, by their simulator."""


class Bug(NamedTuple):
    """A planted bug, by the names of its simulator and of its own."""

    simulator: str
    name: str

    def __str__(self) -> str:
        return f"{self.simulator}: {self.name}"

    @property
    def hunt(self) -> Hunt:
        return HUNTS[self.simulator]

    def hit(self, schedules: Sequence[Schedule]) -> Schedule | None:
        """The first of these that breaks a promise with the bug; None if all keep it."""
        with self.hunt.bugs[self.name]():
            return next(filter(self.hunt.is_broken, schedules), None)


BUGS: Sequence[Bug] = [
    Bug(simulator, name) for simulator, hunt in HUNTS.items() for name in hunt.bugs
]


def recorded() -> Mapping[Bug, Sequence[Schedule]]:
    """The schedules on record that have caught each bug."""
    if not RECORD.exists():
        return {}
    return {
        Bug(of, name): [Schedule(*each) for each in schedules]
        for of, bugs in json.loads(RECORD.read_text()).items()
        for name, schedules in bugs.items()
    }


def record(caught: Mapping[Bug, Sequence[Schedule]]) -> None:
    """Write the schedules of the bugs that there are, one bug a line."""
    lines = []
    for of, hunt in HUNTS.items():
        known = {name: caught.get(Bug(of, name), ()) for name in hunt.bugs}
        bugs = ",\n".join(
            f"    {json.dumps(name)}: {json.dumps(schedules)}" for name, schedules in known.items()
        )
        lines.append(f"  {json.dumps(of)}: {{\n{bugs}\n  }}")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    new = RECORD.with_suffix(".new")
    new.write_text(text)
    os.replace(new, RECORD)


def is_lost(bug: Bug, schedules: Sequence[Schedule]) -> bool:
    """Whether no recorded schedule catches it any more."""
    return bug.hit(schedules) is None


def search(
    bug: Bug, sorts: Sequence[str], first: int = 0, enough: int = ENOUGH
) -> tuple[Sequence[Schedule], int]:
    """The schedules that catch a bug, enough of them or all, and how many were played."""
    hits: list[Schedule] = []
    played = 0
    with bug.hunt.bugs[bug.name]():
        for schedule in bug.hunt.schedules(sorts, first):
            played += 1
            if bug.hunt.is_broken(schedule):
                hits.append(schedule)
                if len(hits) == enough:
                    break
    return hits, played


def likely_sorts(bug: Bug, known: Mapping[Bug, Sequence[Schedule]]) -> Sequence[str]:
    """The sorts that have hit it, or all of them: some bugs are hit by one sort alone."""
    hit = {schedule.sort for schedule in known.get(bug, ())}
    return [sort for sort in bug.hunt.sorts if sort in hit] or list(bug.hunt.sorts)


def anew(chosen: Sequence[Bug]) -> int:
    """Search these bugs and record what catches them, each as soon as it is found."""
    known = dict(recorded())
    uncaught = []
    with ProcessPoolExecutor(2) as pool:
        searches = {pool.submit(search, bug, likely_sorts(bug, known)): bug for bug in chosen}
        for number, done in enumerate(as_completed(searches), start=1):
            bug, (hits, played) = searches[done], done.result()
            print(
                f"{number} of {len(chosen)}  {bug}: {len(hits)} of {played} schedules", flush=True
            )
            if hits:
                known[bug] = hits
                record(known)
            else:
                uncaught.append(bug)
    record(known)
    return report(uncaught)


def fresh(chosen: Sequence[Bug], first: int, results: Path) -> int:
    """Search each bug by schedules from this seed on; goes on where a search was cut off."""
    known = recorded()
    needed: dict[str, int] = json.loads(results.read_text()) if results.exists() else {}
    results.parent.mkdir(exist_ok=True)
    left = [bug for bug in chosen if str(bug) not in needed]
    with ProcessPoolExecutor(2) as pool:
        one = partial(search, first=first, enough=1)
        searches = {pool.submit(one, bug, likely_sorts(bug, known)): bug for bug in left}
        for done in as_completed(searches):
            bug, (hits, played) = searches[done], done.result()
            print(f"{bug}: {'caught by' if hits else 'NOT caught by'} {played}", flush=True)
            needed[str(bug)] = played if hits else 0
            results.write_text(json.dumps(needed, indent=2))
    return report([bug for bug in chosen if not needed[str(bug)]])


def report(uncaught: Sequence[Bug]) -> int:
    for bug in uncaught:
        print(f"NOT CAUGHT: {bug}", file=sys.stderr)
    return 1 if uncaught else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make caught", description=__doc__)
    parser.add_argument("name", nargs="?", help="text that the names of the bugs hold")
    parser.add_argument("--fresh", type=int, metavar="SEED", help="record nothing; from this seed")
    options = parser.parse_args()
    known = recorded()
    if options.name:
        chosen = [bug for bug in BUGS if options.name in str(bug)]
        if not chosen:
            parser.error(f"no planted bug has {options.name!r} in its name")
    elif options.fresh is not None:
        chosen = list(BUGS)
    else:
        chosen = [bug for bug in BUGS if is_lost(bug, known.get(bug, ()))]
    if options.fresh is not None:
        return fresh(chosen, options.fresh, ROOT / "build" / f"caught-{options.fresh}.json")
    return anew(chosen)


if __name__ == "__main__":
    sys.exit(main())
