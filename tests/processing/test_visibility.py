"""How long a message stays hidden between two receives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.processing.visibility import (
    GATHERING_SECONDS,
    LONGEST_SECONDS,
    after_failure,
    in_reach,
    until,
)
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import RETRY


class Highest(Random):
    """Draws the longest possible delay."""

    def random(self) -> float:
        return 1.0


def test_a_message_stays_hidden_longer_with_each_receive() -> None:
    delays = [after_failure(RETRY, receive, None, Highest()) for receive in (1, 2, 3, 7, 8, 1000)]
    assert delays == [10, 20, 40, 640, 900, 900]


def test_a_wait_is_at_least_its_retry_after() -> None:
    assert after_failure(RETRY, 1, 77.5, Highest()) == 77.5
    assert after_failure(RETRY, 8, 77.5, Highest()) == 900


@given(st.integers(1, 100), st.integers(0, 1000))
def test_every_delay_lies_between_the_floor_and_the_ceiling(receive: int, seed: int) -> None:
    delay = after_failure(RETRY, receive, None, Random(seed))
    assert RETRY.floor <= delay <= RETRY.ceiling(receive)


@pytest.mark.parametrize(
    ("seconds", "elapsed", "expected"),
    [
        (0.0, 0.0, 0),
        (0.2, 0.0, 1),
        (900.0, 100.0, 900),
        (1e9, 0.0, LONGEST_SECONDS - GATHERING_SECONDS),
        (1e9, 100.0, LONGEST_SECONDS - GATHERING_SECONDS - 100),
        (10.0, 1e9, 0),
        # The clock was set back.
        (1e9, -100.0, LONGEST_SECONDS - GATHERING_SECONDS),
    ],
)
def test_no_message_is_hidden_beyond_twelve_hours_from_its_receive(
    seconds: float, elapsed: float, expected: int
) -> None:
    assert in_reach(seconds, elapsed) == expected


def test_the_wait_for_a_past_moment_is_the_default() -> None:
    assert until(130.0, 100.0, 7.0) == 30.0
    assert until(100.0, 100.0, 7.0) == until(0.0, 100.0, 7.0) == 7.0


def test_the_longest_wait_is_twelve_hours_less_ten_minutes() -> None:
    """SQS refuses a longer one, counted from a receive up to ten minutes before the batch."""
    assert in_reach(43_200.0, 0.0) == 42_600
    assert in_reach(43_200.0, 30.0) == 42_570
    assert in_reach(42_600.0, 0.5) == 42_600
    assert in_reach(-1.0, 0.0) == 0


def test_a_backoff_of_nothing_waits_for_nothing() -> None:
    assert after_failure(Backoff(base=0, floor=0), 1, None, Highest()) == 0.0
