"""The promises of a replay run's workers, in as many schedules as no whole run could be played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.simulation.replay_simulator import smaller_run
from tests.simulation.search import AT_NIGHT, DAY, played, seeds
from tests.simulation.worker_simulator import (
    WORKER_SORTS,
    WorkerShape,
    WorkerSimulation,
    worker_shape,
)

Shape = Callable[[int], WorkerShape]


@pytest.fixture(autouse=True, scope="module")
def _smaller() -> Iterator[None]:
    with smaller_run():
        yield


def made(seed: int, shape: Shape) -> WorkerSimulation:
    return WorkerSimulation(seed, shape(seed)).run()


def all_of(shape: Shape, schedules: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for simulation in played(lambda seed: made(seed, shape), schedules):
        counts.update(simulation.counts)
    return counts


def test_no_promise_is_broken_in_the_first_schedules() -> None:
    all_of(worker_shape, range(20))


@pytest.mark.long
def test_no_random_schedule_of_workers_breaks_a_promise() -> None:
    """Each seed is one schedule: `make sim OF=replay SEED=n` replays it with its log."""
    counts = all_of(worker_shape, seeds(DAY, 1_000))
    if not AT_NIGHT:
        return
    # The proof is not of easy weather: each outcome is among them, and processes were killed.
    outcomes = ("RECOVERED", "DUPLICATE", "PARKED", "QUARANTINED", "STOPPED", "UNKNOWN", "LEFT")
    for name in (*outcomes, "DISCARDED"):
        assert counts[f"outcome {name}"], name
    assert counts["sums at a crash"] > 500
    assert counts["sent twice, and counted"]


@pytest.mark.long
@pytest.mark.parametrize("sort", WORKER_SORTS)
def test_no_schedule_of_a_special_sort_of_workers_breaks_a_promise(sort: str) -> None:
    all_of(WORKER_SORTS[sort], seeds(DAY // 10, 100))


@pytest.mark.long
def test_the_same_seed_gives_the_same_schedule_of_workers() -> None:
    for seed in range(10):
        first, second = (made(seed, worker_shape).log for _ in range(2))
        assert first == second, seed
