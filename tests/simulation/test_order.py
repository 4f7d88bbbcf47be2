"""Messages of an ordering key keep their order, whatever fails meanwhile."""

from __future__ import annotations

import pytest

from tests.each_row import each_row
from tests.simulation.order_simulator import in_order
from tests.simulation.search import DAY, played, seeds


@each_row("seed", [880_023_684, 880_025_753, 880_028_038])
def test_what_once_held_a_key_up_or_was_told_too_late(seed: int) -> None:
    """A process that slept gave a parked message back; the word of an effect was lost, and all
    waited for it as long as they do."""
    in_order(seed)


@pytest.mark.slow_because("whole schedules, of other seeds with each commit")
def test_no_message_is_processed_before_an_open_one_or_after_a_later_one() -> None:
    applied = superseded = 0
    for schedule in played(in_order, seeds(DAY // 2, 1_000)):
        applied += schedule.in_order
        superseded += schedule.superseded
    # The proof is not of easy weather: messages were overtaken, and most were not.
    assert 0 < superseded < applied
