"""The starts of a hundred pipelines, in an account that runs ten functions at once."""

from __future__ import annotations

import pytest

from tools.starts import Crowd, simulate, spread, together


@pytest.mark.parametrize("seed", range(5))
def test_starts_that_are_spread_over_the_minute_fit_into_a_new_account(seed: int) -> None:
    crowd = simulate(spread(100, seed), places=10, seconds=1.0)
    assert crowd.dropped == 0
    assert crowd.ran == 5 * 200


def test_starts_in_one_second_would_not() -> None:
    crowd = simulate(together(100), places=10, seconds=1.0)
    assert crowd.dropped > crowd.ran
    assert crowd.dropped + crowd.ran == 5 * 200


def test_a_throttled_start_is_tried_again_and_dropped_after_a_minute() -> None:
    assert simulate([0.0, 0.0], places=1, seconds=0.5, minutes=1) == Crowd(2, 1, 0)
    assert simulate([0.0, 0.0], places=1, seconds=600.0, minutes=1) == Crowd(1, 0, 1)
