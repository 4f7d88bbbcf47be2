"""Drains in shards: thousands of schedules in which runs and their starts go wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.effects import Broken
from tests.simulation.search import DAY, seeds
from tests.simulation.shards_measured import speed_of
from tests.simulation.shards_simulator import SORTS, ShardsSimulation, paced, sharded


@pytest.mark.parametrize("seed", range(12))
def test_drains_in_shards_lose_nothing_and_keep_the_rate(seed: int) -> None:
    for sort in SORTS:
        sort(seed).run()


def test_shards_of_these_schedules_do_take_part() -> None:
    assert took_part(paced) >= 10
    assert took_part(sharded) >= 5


def took_part(sort: Callable[[int], ShardsSimulation]) -> int:
    """The shards that took part in five drains."""
    drains = [sort(seed) for seed in range(5)]
    for drain in drains:
        drain.run()
    return sum(drain.took_part for drain in drains)


@pytest.mark.slow_because("a third of a hundred drains")
@pytest.mark.long
@pytest.mark.parametrize("sort", SORTS)
def test_no_drain_in_shards_breaks_a_promise(sort: Callable[[int], ShardsSimulation]) -> None:
    for seed in seeds(DAY // len(SORTS), 2_000):
        try:
            sort(seed).run()
        except Broken as broken:
            pytest.fail(f"{sort.__name__}, seed {seed}: {broken}")


@pytest.mark.slow_because("drains of 3,000 letters")
@pytest.mark.long
def test_four_shards_are_almost_four_times_as_fast_as_one() -> None:
    """Where only the latency of calls costs time; the rest is the start of their functions."""
    assert speed_of(4, 3_000) > 3.2 * speed_of(1, 3_000)
