"""Drains in shards: thousands of schedules in which runs and their starts go wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.search import DAY, played, seeds
from tests.simulation.shards_measured import speed_of
from tests.simulation.shards_simulator import SORTS, ShardsSimulation, crossed, paced, sharded

# Of a hundred drains, how many are of each sort.
BY_DAY = {sharded: 2 * DAY // 5, crossed: 2 * DAY // 5, paced: DAY // 5}

# How many shards take part in a drain, on average: fewer would make it easy weather. Those of a
# FIFO queue, some of the sharded ones, have none.
TAKE_PART = {paced: 2, sharded: 0.3}


@pytest.mark.slow_because("a hundred drains in all")
@pytest.mark.parametrize("sort", SORTS)
def test_no_drain_in_shards_breaks_a_promise(sort: Callable[[int], ShardsSimulation]) -> None:
    drains = played(lambda seed: sort(seed).run(), seeds(BY_DAY[sort], 500))
    took_part = [drain.took_part for drain in drains]
    assert sum(took_part) >= TAKE_PART.get(sort, 0) * len(took_part)


@pytest.mark.nightly
def test_four_shards_are_almost_four_times_as_fast_as_one() -> None:
    """Where only the latency of calls costs time; the rest is the start of their functions."""
    assert speed_of(4, 3_000) > 3.2 * speed_of(1, 3_000)
