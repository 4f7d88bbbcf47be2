"""Messages of an ordering key keep their order, whatever fails meanwhile."""

from __future__ import annotations

import pytest

from tests.simulation.order_simulator import in_order
from tests.simulation.search import DAY, seeds
from tests.simulation.witness import Broken


@pytest.mark.slow_because("whole schedules, of other seeds with each commit")
def test_no_message_is_processed_before_an_open_one_or_after_a_later_one() -> None:
    applied = superseded = 0
    for seed in seeds(DAY // 2, 1_000):
        try:
            schedule = in_order(seed)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
        applied += schedule.in_order
        superseded += schedule.superseded
    # The proof is not of easy weather: messages were overtaken, and most were not.
    assert 0 < superseded < applied
