"""How long a message stays hidden between two receives."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.circuit.state import NO_END, Circuit, Override, State
from deadletter.processing.visibility import (
    GATHERING_SECONDS,
    LONGEST_SECONDS,
    after_failure,
    in_reach,
    while_open,
)
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import RETRY
from tests.each_row import each_row


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


@pytest.mark.parametrize("retry_after", [901.0, 86_400.0, 1e12, math.inf])
def test_a_retry_after_hides_no_message_beyond_the_pipelines_longest_delay(
    retry_after: float,
) -> None:
    assert after_failure(RETRY, 1, retry_after, Random(1)) == RETRY.cap == 900
    assert after_failure(Backoff(cap=7200), 1, retry_after, Random(1)) == min(retry_after, 7200)


@given(st.integers(1, 100), st.integers(0, 1000))
def test_every_delay_lies_between_the_floor_and_the_ceiling(receive: int, seed: int) -> None:
    delay = after_failure(RETRY, receive, None, Random(seed))
    assert RETRY.floor <= delay <= RETRY.ceiling(receive)


@each_row(
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


def opened(until: float, **fields: Any) -> Circuit:
    return Circuit("orders", State.OPEN, open_until=until, **fields)


def test_a_refused_letter_comes_back_just_after_the_next_probe() -> None:
    assert while_open([opened(130.0)], 100.0, Random(1)) == pytest.approx(30 + 11.34, abs=0.01)
    waits = {while_open([opened(130.0)], 100.0, Random(seed)) for seed in range(100)}
    assert 40 <= min(waits) < 42 < 48 < max(waits) <= 50
    assert len(waits) == 100


def test_while_a_probe_is_under_way_a_refused_letter_waits_for_its_end() -> None:
    assert 10 <= while_open([opened(100.0)], 130.0, Random(1)) <= 20
    assert 10 <= while_open([opened(0.0)], 130.0, Random(1)) <= 20


def test_of_two_open_circuits_the_one_that_opens_later_is_waited_for() -> None:
    assert 40 <= while_open([opened(130.0), opened(110.0)], 100.0, Random(1)) <= 50


def test_a_refused_letter_asks_again_within_a_minute() -> None:
    override = Override(State.OPEN, "ada", "until I say so", NO_END, begun=0.0)
    assert while_open([opened(1e9)], 100.0, Random(1)) == 60
    assert while_open([opened(0.0, forced=override)], 100.0, Random(1)) == 60
    assert while_open([opened(0.0, unreadable=True)], 100.0, Random(1)) == 60


def test_the_longest_wait_is_twelve_hours_less_ten_minutes() -> None:
    """SQS refuses a longer one, counted from a receive up to ten minutes before the batch."""
    assert in_reach(43_200.0, 0.0) == 42_600
    assert in_reach(43_200.0, 30.0) == 42_570
    assert in_reach(42_600.0, 0.5) == 42_600
    assert in_reach(-1.0, 0.0) == 0


def test_a_backoff_of_nothing_waits_for_nothing() -> None:
    assert after_failure(Backoff(base=0, floor=0), 1, None, Highest()) == 0.0
