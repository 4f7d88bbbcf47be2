"""A wait ends with its condition, fails at a standstill, and has patience with slowness."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deadletter.testing.clock import Clock
from sandbox.progress import CIRCLES_SECONDS, STANDSTILL_SECONDS, Standstill, until


def wait(condition: Callable[[float], object], marks: Callable[[float], object]) -> float:
    """Wait by a simulated clock; the seconds that the wait took."""
    clock = Clock(0.0)
    until(
        lambda: condition(clock()),
        "it is so",
        marks=lambda: marks(clock()),
        clock=clock,
        rest=clock.advance,
    )
    return clock()


def test_a_wait_ends_as_soon_as_its_condition_is_true() -> None:
    assert wait(lambda _: True, lambda _: None) == 0
    assert wait(lambda now: now >= 7, lambda _: None) == pytest.approx(7, abs=0.3)


def test_a_wait_returns_what_the_condition_found() -> None:
    assert until(lambda: ["letter"], "a message is there") == ["letter"]


def test_a_standstill_ends_a_wait_and_says_what_was_seen_last() -> None:
    with pytest.raises(Standstill, match=r"waited for: it is so; .* last seen: 3 letters"):
        wait(lambda _: False, lambda _: "3 letters")


def test_slow_progress_is_waited_for_however_long_it_takes() -> None:
    """One step in eighty seconds, and twelve steps to go."""
    long = 12 * (STANDSTILL_SECONDS - 10)
    assert wait(lambda now: now >= long, lambda now: now // (STANDSTILL_SECONDS - 10)) >= long


def test_progress_that_ceases_is_a_standstill_from_then_on() -> None:
    with pytest.raises(Standstill, match=r"nothing has moved for 9\d of 29\d s"):
        wait(lambda _: False, lambda now: min(now, 200))


def test_a_movement_in_circles_is_no_progress_for_ever() -> None:
    with pytest.raises(Standstill, match="nothing has moved for 0 of 180"):
        wait(lambda now: now > 2 * CIRCLES_SECONDS, lambda now: now)
