"""The rate at which letters go back: of one run's workers, and from run to run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid, rate_of
from deadletter.testing.clock import START, Clock
from tests.each_row import each_row


def pace_of(rate: float, burst: float, free: float | None = None) -> tuple[RunPace, Clock]:
    clock = Clock()
    free = burst if free is None else free
    return RunPace(RunPaid(Rate(rate, burst), START - free / rate), clock), clock


@given(
    st.floats(0.1, 1_000),
    st.integers(1, 500),
    st.lists(
        st.tuples(st.floats(-2, 30), st.integers(1, 100), st.integers(0, 5), st.floats(0.1, 1)),
        max_size=15,
    ),
)
def test_in_any_period_no_more_letters_go_than_burst_and_rate_allow(
    rate: float, burst: int, steps: list[tuple[float, int, int, float]]
) -> None:
    """The clock steps back at times, runs follow one another, and the rate falls and rises.

    What a clock steps back may be granted twice, as between two clocks that differ.
    """
    pace, clock = pace_of(rate, burst)
    latest, back, grants = START, 0.0, []
    for passed, wanted, unused, share in steps:
        clock.now = max(START, clock.now + passed)
        latest = max(latest, clock.now)
        back = max(back, latest - clock.now)
        granted = pace.take(wanted)
        pace.give_back(unused := min(unused, granted))
        grants.append((latest, granted - unused))
        pace.change(Rate(rate, burst).share(share))
        pace = RunPace(pace.paid, clock)
    for start in range(len(grants)):
        total = 0
        for moment, granted in grants[start:]:
            total += granted
            assert total <= burst + rate * (moment - grants[start][0] + back) + 1.1


def test_fewer_letters_than_are_worth_taking_stay() -> None:
    pace, clock = pace_of(1, 10, 4)
    assert pace.take(8, least=5) == 0
    clock.advance(1)
    assert pace.take(8, least=5) == 5
    clock.advance(1)
    assert pace.take(8) == 1


def test_what_was_given_back_can_be_taken_again() -> None:
    pace, _ = pace_of(1, 10)
    assert (pace.take(8), pace.take(8), pace.take(8)) == (8, 2, 0)
    pace.give_back(5)
    assert pace.take(8) == 5


def test_a_run_goes_on_with_what_the_last_run_left() -> None:
    first, clock = pace_of(1, 10)
    first.take(10)
    second = RunPace(first.paid, clock)
    assert second.take(10) == 0
    clock.advance(3)
    assert second.take(10) == 3


def test_a_clock_that_went_backwards_adds_nothing() -> None:
    pace, clock = pace_of(1, 10, 0)
    clock.advance(-5)
    assert pace.take(10) == 0
    clock.advance(7)
    assert pace.take(10) == 2


def test_a_change_of_the_rate_gives_no_new_burst_and_takes_none_of_what_fits() -> None:
    pace, clock = pace_of(50, 200, 80)
    pace.change(Rate(400, 500))
    assert pace.paid.free(clock()) == pytest.approx(80)
    pace.change(Rate(5, 20))
    assert pace.paid.free(clock()) == pytest.approx(20)


def test_a_share_has_its_part_of_rate_burst_and_letters_and_room_for_one_letter() -> None:
    full = RunPaid(Rate(50.0, 100.0), START - 80 / 50)
    part = full.share(0.2, START)
    assert (part.rate, part.free(START)) == (Rate(10.0, 20.0), pytest.approx(20))
    # Letters that the last run left are not shared out too.
    assert RunPaid(full.rate, START - 0.1).share(0.2, START).free(START) == pytest.approx(5)
    assert full.share(0.001, START).rate.burst == 1.0


@each_row(
    ("limit", "burst"),
    [
        (0.01, 1),  # one letter always fits
        (5, 50),  # ten seconds
        (50, 500),
        (100, 500),  # no more than 500 letters
        (2_000.5, 2_000.5),  # but a second of the rate
    ],
)
def test_the_burst_is_a_second_of_the_rate_and_more_of_a_slow_one(
    limit: float, burst: float
) -> None:
    assert rate_of(limit) == Rate(limit, burst)


def test_seconds_until_letters_may_go_count_up_to_the_burst() -> None:
    pace, _ = pace_of(2, 10, 0)
    assert pace.seconds_until(1) == pytest.approx(0.5, abs=1e-5)
    assert pace.seconds_until(1_000) == pytest.approx(5, abs=1e-5)
