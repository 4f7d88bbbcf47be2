"""The pace of a replay run, and its kill switch, under every fault that the simulator knows."""

from __future__ import annotations

import pytest

from tests.simulation.replay_pace import PaceShape, paced, used_share
from tests.simulation.replay_witness import check_window
from tests.simulation.search import DAY, play_all, seeds
from tests.simulation.witness import Broken


def test_the_pace_and_the_kill_switch_hold_in_the_first_schedules() -> None:
    for seed in range(10):
        paced(seed)


@pytest.mark.long
def test_no_schedule_sends_faster_than_the_plan_or_after_the_kill_switch() -> None:
    """Five workers, clocks that differ by two seconds, faults, and a person who holds the run."""
    play_all(paced, seeds(DAY, 1_000))


@pytest.mark.long
@pytest.mark.parametrize(("rate", "burst"), [(2.0, 5), (5.0, 10), (40.0, 20)])
def test_five_skewed_workers_use_the_pace_that_is_allowed(rate: float, burst: int) -> None:
    shape = PaceShape(rate=rate, burst=burst, calm=True, seconds=30.0)
    for seed in range(2):
        assert used_share(seed, shape) >= 0.95


def test_a_window_with_more_sends_than_rate_and_burst_allow_is_refused() -> None:
    check_window([0.0, 0.0, 1.0], rate=1.0, burst=1, slack=0.0)
    with pytest.raises(Broken, match=r"4 sends in 1\.0 s, 3\.0 allowed"):
        check_window([0.0, 0.0, 1.0, 1.0], rate=1.0, burst=1, slack=0.0)
