"""Drains in shards: thousands of schedules in which runs and their starts go wrong."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.simulation.effects import Broken
from tests.simulation.shards_measured import speed_of
from tests.simulation.shards_planted import BUGS
from tests.simulation.shards_simulator import SORTS, ShardsSimulation, crossed, paced, sharded

CAUGHT_AT = {
    "two shards send one letter: each reads its own part of the journal alone": (crossed, 80),
    "a shard deletes what another one has in hand": (crossed, 30),
    "each shard begins with a burst of its own": (paced, 10),
}
"""A schedule that hit a bug when it was planted, tried first: the others take minutes."""


SCHEDULES = min(2_000, int(os.environ.get("SIM_SCHEDULES", "500")) // 10)
"""Drains in shards: a hundred by day."""


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


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(at, at + 25) for at in range(0, SCHEDULES, 25)])
def test_many_drains_in_shards(seeds: range) -> None:
    for seed in seeds:
        for sort in SORTS:
            sort(seed).run()


@pytest.mark.long
def test_four_shards_are_almost_four_times_as_fast_as_one() -> None:
    """Where only the latency of calls costs time; the rest is the start of their functions."""
    assert speed_of(4, 3_000) > 3.2 * speed_of(1, 3_000)


@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_a_bug_planted_in_a_drain_is_caught(name: str) -> None:
    with BUGS[name](), pytest.raises(Broken):
        search(name)


def search(name: str) -> None:
    """Schedules, until one is broken."""
    first, at = CAUGHT_AT.get(name, (paced, 0))
    first(at).run()
    for seed in range(200):
        for sort in SORTS:
            sort(seed).run()
