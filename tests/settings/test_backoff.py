"""Delays grow with the attempt, and are spread by jitter."""

from __future__ import annotations

from random import Random
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from deadletter.settings.backoff import Backoff
from tests.each_row import each_row


class Dice:
    """A Random that always returns the same number."""

    def __init__(self, thrown: float) -> None:
        self._thrown = thrown

    def random(self) -> float:
        return self._thrown


def always(thrown: float) -> Random:
    return cast(Random, Dice(thrown))


BACKOFF = Backoff(base=60, factor=2, cap=600, floor=5)


@each_row(
    ("attempt", "ceiling"),
    [(1, 60), (2, 120), (3, 240), (4, 480), (5, 600), (6, 600), (10**9, 600), (0, 60), (-3, 60)],
)
def test_the_ceiling_doubles_up_to_the_cap(attempt: int, ceiling: float) -> None:
    assert BACKOFF.ceiling(attempt) == ceiling


@each_row(
    ("attempt", "thrown", "delay"),
    [(1, 0.5, 30), (2, 0.5, 60), (1, 0.0, 5), (1, 0.05, 5), (9, 0.5, 300), (9, 0.25, 150)],
)
def test_full_jitter_is_applied_after_the_cap(attempt: int, thrown: float, delay: float) -> None:
    assert BACKOFF.delay(attempt, always(thrown)) == delay


def test_a_factor_too_large_for_a_float_ends_at_the_cap() -> None:
    assert Backoff(factor=1e300).ceiling(50) == Backoff().cap


@given(
    st.floats(0, 1e6),
    st.floats(1, 1e300),
    st.floats(0, 1e6),
    st.floats(0, 100),
    st.integers(-5, 10_000),
    st.integers(),
)
def test_a_delay_is_never_below_the_floor_nor_above_the_cap(
    base: float, factor: float, cap: float, floor: float, attempt: int, seed: int
) -> None:
    backoff = Backoff(base, factor, cap, floor)
    assert floor <= backoff.delay(attempt, Random(seed)) <= max(floor, cap)
    assert backoff.ceiling(attempt) <= backoff.ceiling(attempt + 1)
