"""The circuit breaker keeps its promises, whatever six workers and the network do."""

from __future__ import annotations

import pytest

from tests.simulation.breaker_simulator import BreakerSimulation, simulate
from tests.simulation.search import AT_NIGHT, DAY, SCHEDULES, play_all, seeds

PARTS = 20 if AT_NIGHT else 1

# After a slow call an execution waits for a circuit that a person holds open without an end.
HELD_WITHOUT_END = 905_415


def test_no_promise_of_the_breaker_is_broken_in_the_first_schedules() -> None:
    runs = [simulate(seed) for seed in (*range(20), HELD_WITHOUT_END)]
    assert sum(len(run.witness.canaries) for run in runs) > 50
    assert sum(run.witness.trips for run in runs) >= 20


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_random_schedule_breaks_a_promise_of_the_breaker(part: int) -> None:
    """Each seed is one schedule: `make sim OF=breaker SEED=n` replays it with its log."""
    play_all(simulate, seeds(DAY, SCHEDULES, part=part, parts=PARTS))


@pytest.mark.long
@pytest.mark.nightly
def test_stale_results_do_come_and_are_fenced() -> None:
    """Faults that matter are among those tried: the proof is not of easy weather."""
    assert sum(simulate(seed).witness.fenced for seed in range(200)) > 20


@pytest.mark.long
def test_the_same_seed_of_the_breaker_gives_the_same_log() -> None:
    for seed in range(5):
        first, second = (BreakerSimulation(seed).run().scheduler.log for _ in range(2))
        assert first == second, seed


def test_a_healthy_dependency_costs_no_change_of_state() -> None:
    simulation = BreakerSimulation(1, fault_rate=0.0)
    simulation.healed_at = 0.0
    simulation.run()
    assert simulation.witness.circuit.generation == 0
    assert simulation.witness.circuit.buckets
