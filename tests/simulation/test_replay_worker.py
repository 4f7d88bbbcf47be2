"""The promises of a replay run's workers, in as many schedules as no whole run could be played."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.simulation.replay_simulator import smaller_run
from tests.simulation.witness import Broken
from tests.simulation.worker_planted import WORKER_BUGS
from tests.simulation.worker_simulator import (
    WORKER_SORTS,
    WorkerShape,
    WorkerSimulation,
    worker_shape,
)

# At night `make sim OF=replay` plays 50,000.
SCHEDULES = min(5_000, int(os.environ.get("SIM_SCHEDULES", "600")))
OF_A_SORT = SCHEDULES // 10

Shape = Callable[[int], WorkerShape]


@pytest.fixture(autouse=True, scope="module")
def _smaller() -> Iterator[None]:
    with smaller_run():
        yield


def played(seed: int, shape: Shape) -> WorkerSimulation:
    simulation = WorkerSimulation(seed, shape(seed))
    simulation.run()
    return simulation


def all_of(shape: Shape, schedules: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(schedules):
        try:
            counts.update(played(seed, shape).counts)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
    return counts


def test_no_promise_is_broken_in_the_first_schedules() -> None:
    all_of(worker_shape, 20)


@pytest.mark.long
def test_no_random_schedule_of_workers_breaks_a_promise() -> None:
    """Each seed is one schedule: `make sim OF=replay SEED=n` replays it with its log."""
    counts = all_of(worker_shape, SCHEDULES)
    # The proof is not of easy weather: each outcome is among them, and processes were killed.
    outcomes = ("RECOVERED", "DUPLICATE", "PARKED", "QUARANTINED", "STOPPED", "UNKNOWN", "LEFT")
    for name in (*outcomes, "DISCARDED"):
        assert counts[f"outcome {name}"], name
    assert counts["sums at a crash"] > SCHEDULES
    assert counts["sent twice, and counted"]


@pytest.mark.long
@pytest.mark.parametrize("sort", WORKER_SORTS)
def test_no_schedule_of_a_special_sort_of_workers_breaks_a_promise(sort: str) -> None:
    all_of(WORKER_SORTS[sort], OF_A_SORT)


CAUGHT_BY = {
    "an abort lets the schedule send": "cut",
    "an abort moves on what has reached the parking queue": "left_over",
    "a paused worker discards what an abort has parked": "left_over",
    "an abort parks what was sent and has no ticket yet": "cut",
    "each worker claims a shard in a slot of its own": "crowded_run",
    "what a killed worker intended is forgotten": "cut",
    "a shard is taken over as soon as its intent ends": "crowded_run",
    "a grant is used late": "switched_off",
    "a grant ends with its intent": "stood_still",
    "the locks of a grant end with its intent": "stood_still",
    "a delivery does not look at the clock": "stood_still",
    "a discard does not look at the clock": "stood_still",
    "a send does not look at the clock": "stood_still",
    "each worker has the whole rate": "switched_off",
    "a key goes on behind a letter that stops it": "stopping",
    "a direct delivery that fails uses no try": "delivered",
    "a letter is discarded without its export": "delivered",
}
"""The sort of schedule that hits a bug; the other bugs are hit by any."""

FIRST_SEED = {"a shard is taken over as soon as its intent ends": 300}
"""Where the three hundred schedules begin of a bug that is rarely hit."""


@pytest.mark.long
@pytest.mark.parametrize("name", WORKER_BUGS)
def test_a_planted_bug_of_a_worker_is_caught_within_three_hundred_schedules(name: str) -> None:
    sort = CAUGHT_BY.get(name)
    shape = WORKER_SORTS[sort] if sort else worker_shape
    first = FIRST_SEED.get(name, 0)
    with WORKER_BUGS[name]():
        assert any(is_broken(seed, shape) for seed in range(first, first + 300))


def is_broken(seed: int, shape: Shape) -> bool:
    try:
        played(seed, shape)
    except Broken:
        return True
    return False


@pytest.mark.long
def test_the_same_seed_gives_the_same_schedule_of_workers() -> None:
    for seed in range(10):
        first, second = (played(seed, worker_shape).log for _ in range(2))
        assert first == second, seed
