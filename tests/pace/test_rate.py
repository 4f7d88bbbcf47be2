"""The one bucket: what it lets through, whatever the clocks do."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.pace.rate import SKEW_SECONDS, Rate
from tests.each_row import each_row

NOW = 1_800_000_000.0
LIMITS = st.floats(0.1, 2_000)
ASKS = st.tuples(
    st.sampled_from([0.0, 0.0005, 0.2, 2.0, 30.0]), st.floats(0, 1), st.integers(1, 100)
)
"""Seconds after the one before, share of the clocks' skew, calls wanted."""


@given(
    LIMITS,
    st.floats(1, 500),
    st.lists(ASKS, min_size=1, max_size=40),
    st.floats(0.01, 60),
    st.sampled_from([0.0, 1.0, SKEW_SECONDS]),
)
def test_in_any_window_no_more_go_than_limit_burst_and_skew_allow(
    limit: float, burst: float, asks: list[tuple[float, float, int]], window: float, skew: float
) -> None:
    rate, paid, now = Rate(limit, burst), 0.0, NOW
    let_through = deque[tuple[float, int]]()
    for gap, share, wanted in asks:
        now += gap
        calls = min(wanted, rate.whole(paid, now + share * skew))
        if calls:
            paid = rate.after(paid, calls, now + share * skew)
        let_through.append((now, calls))
        while let_through[0][0] < now - window:
            let_through.popleft()
        assert sum(calls for _, calls in let_through) <= limit * (window + skew) + burst + 0.01


@given(LIMITS, st.integers(1, 500), st.lists(st.floats(0, 30), max_size=20))
def test_as_many_go_as_the_limit_allows(limit: float, burst: int, waits: list[float]) -> None:
    rate, paid, now, total = Rate(limit, burst), 0.0, NOW, 0
    for passed in [0.0, *waits]:
        # Soon enough that the bucket, which keeps fractions of a call, does not overflow.
        now += min(passed, max(0.0, (burst - 1) / limit))
        calls = rate.whole(paid, now)
        paid = rate.after(paid, calls, now)
        total += calls
    # Epoch seconds are exact to a fraction of a microsecond.
    off = 0.01 + 1e-6 * limit
    assert burst + limit * (now - NOW) - 1 - off <= total <= burst + limit * (now - NOW) + off


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 200), st.integers(0, 200)), max_size=30))
def test_giving_back_never_makes_a_burst_larger(steps: list[tuple[float, int, int]]) -> None:
    rate, paid, now = Rate(5, 50), 0.0, NOW
    for passed, wanted, unused in steps:
        now += passed
        calls = min(wanted, rate.whole(paid, now))
        assert calls <= 50
        paid = rate.after(paid, calls, now)
        paid = rate.after(paid, -min(unused, calls), now)
    assert rate.whole(paid, now) <= 50


def test_what_was_given_back_can_be_taken_again() -> None:
    rate = Rate(1, 10)
    paid = rate.after(0.0, 10, NOW)
    assert rate.whole(paid, NOW) == 0
    assert rate.whole(rate.after(paid, -5, NOW), NOW) == 5


def test_a_clock_that_went_backwards_adds_nothing() -> None:
    rate = Rate(1, 10)
    paid = rate.after(0.0, 10, NOW)
    assert rate.whole(paid, NOW - 5) == 0
    assert rate.whole(paid, NOW + 2) == 2


@each_row(
    ("free", "calls", "seconds"),
    [(0, 1, 0.5), (0, 10, 5), (0.5, 1, 0.25), (1, 1, 0), (10, 3, 0), (0, 1_000, 5)],
)
def test_seconds_until_calls_may_go_count_up_to_the_burst(
    free: float, calls: int, seconds: float
) -> None:
    rate = Rate(2, 10)
    assert rate.seconds_until(calls, NOW - free / 2, NOW) == pytest.approx(seconds, abs=1e-6)


def test_one_call_fits_into_any_burst() -> None:
    assert Rate(2, 0.5).latest(1, NOW) == NOW - 0.5
    assert Rate(2, 0.5).latest(7, NOW) == NOW - 0.5


@pytest.mark.parametrize("ahead", [10.1, 1e9, 1e300])
def test_a_row_that_is_far_ahead_lets_one_call_through_and_is_right_again(ahead: float) -> None:
    rate = Rate(4, 8)
    assert rate.whole(NOW + ahead, NOW) == 1
    paid = rate.after(NOW + ahead, 1, NOW)
    assert rate.whole(paid, NOW) == 0
    assert rate.whole(paid, NOW + 1) == 4


def test_a_row_of_a_clock_that_is_as_fast_as_it_may_be_is_believed() -> None:
    assert Rate(4, 8).whole(NOW + SKEW_SECONDS, NOW) == 0


@pytest.mark.parametrize("limit", [0.1, 3.0, 7.0, 60.0, 999.0])
def test_a_call_is_due_when_it_is_paid_whatever_floats_round(limit: float) -> None:
    rate, paid = Rate(limit, max(1.0, limit)), NOW
    for number in range(1, 50):
        assert rate.whole(paid, NOW + number / limit) == 1
        paid = rate.after(paid, 1, NOW + number / limit)
