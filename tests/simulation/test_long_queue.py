"""The promise where a queue is long: several receives at once, and several chunks in flight."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.long_queue import (
    CHUNKS_AT_ONCE,
    SEVERAL_RECEIVES,
    SHORT_OF_MEMORY,
    simulate_long_queue,
)
from tests.simulation.search import AT_NIGHT, DAY, played, seeds
from tests.simulation.witness import EXTRA, PUBLISHED

PARTS = 2


def all_of(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for simulation in played(simulate_long_queue, seeds):
        counts.update(simulation.seen)
        counts.update(simulation.witness.counts)
        counts["took part"] += simulation.took_part
    return counts


@pytest.mark.slow_because("a hundred long queues")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_long_queue_breaks_a_promise(part: int) -> None:
    """Each seed is one schedule: `make sim OF=long-queue SEED=n` replays it with its log."""
    counts = all_of(seeds(DAY // 2, 500, part=part, parts=PARTS))
    assert counts[PUBLISHED] >= counts[EXTRA]
    # The proof is not of easy weather.
    assert counts[SEVERAL_RECEIVES] > 10
    assert counts[CHUNKS_AT_ONCE] > 10
    assert counts[SHORT_OF_MEMORY] > 0
    assert counts["took part"] > 0
    if AT_NIGHT:
        # Letters were delivered twice.
        assert counts[EXTRA] > 0
