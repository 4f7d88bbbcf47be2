"""How many calls are made at the same time."""

from __future__ import annotations

import pytest

from deadletter.redrive.concurrency import Concurrency


def after(*notes: tuple[float, float], most: int = 8) -> int:
    """The calls after these seconds and shares of what was asked for."""
    concurrency = Concurrency(most)
    for seconds, worth in notes:
        concurrency.note(seconds, worth=worth)
    return concurrency.calls


@pytest.mark.parametrize(("times", "calls"), [(0, 1), (1, 2), (2, 4), (3, 8), (9, 8)])
def test_quick_calls_are_doubled_up_to_the_most(times: int, calls: int) -> None:
    assert after(*[(0.01, 1.0)] * times) == calls


@pytest.mark.parametrize(("share", "calls"), [(0.49, 1), (0.5, 2)])
def test_calls_that_bring_little_are_not_doubled(share: float, calls: int) -> None:
    assert after((0.01, share)) == calls


@pytest.mark.parametrize(("seconds", "calls"), [(0.03, 8), (0.031, 2)])
def test_calls_three_times_as_slow_as_the_quickest_are_halved(seconds: float, calls: int) -> None:
    assert after((0.02, 1.0), (0.01, 1.0), (seconds, 1.0)) == calls


def test_slow_calls_leave_one() -> None:
    assert after((0.01, 1.0), *[(9.0, 1.0)] * 5) == 1


def test_after_a_call_in_vain_there_is_one_at_a_time() -> None:
    assert after(*[(0.01, 1.0)] * 3, (0.01, 0.0)) == 1


def test_a_call_in_vain_may_be_the_quickest() -> None:
    assert after((0.1, 1.0), (0.01, 0.0), (0.05, 1.0)) == 1
