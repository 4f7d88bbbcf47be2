"""The rate at which letters go back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deadletter.redrive.token_bucket import RateLimiter, TokenBucket
from deadletter.testing.clock import Clock
from tests.each_row import each_row


def limiter(
    rate: float, burst: float, tokens: float | None = None, at: float = 0.0
) -> tuple[RateLimiter, Clock]:
    clock = Clock(at)
    return RateLimiter(
        TokenBucket(rate, burst, burst if tokens is None else tokens, at), clock
    ), clock


@given(
    st.floats(0.1, 1_000),
    st.integers(1, 500),
    st.lists(st.tuples(st.floats(-2, 30), st.integers(1, 100)), max_size=15),
)
def test_in_any_period_no_more_letters_go_than_burst_and_rate_allow(
    rate: float, burst: int, steps: list[tuple[float, int]]
) -> None:
    # The clock steps back a little at times: that must never make anything faster.
    shared, clock = limiter(rate, burst)
    latest, grants = 0.0, []
    for passed, wanted in steps:
        clock.now = max(0.0, clock.now + passed)
        latest = max(latest, clock.now)
        grants.append((latest, shared.take(wanted)))
    for start in range(len(grants)):
        total = 0
        for moment, granted in grants[start:]:
            total += granted
            assert total <= burst + rate * (moment - grants[start][0]) + 1


@given(st.floats(0.1, 1_000), st.integers(1, 500), st.lists(st.floats(0, 30), max_size=20))
def test_as_many_letters_go_as_the_rate_allows(rate: float, burst: int, waits: list[float]) -> None:
    shared, clock = limiter(rate, burst)
    total = shared.take(10**6)
    for passed in waits:
        # Soon enough that the bucket, which keeps fractions of a letter, does not overflow.
        clock.now += min(passed, max(0.0, (burst - 1) / rate))
        total += shared.take(10**6)
    assert burst + rate * clock.now - 1.001 <= total <= burst + rate * clock.now + 0.001


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 200), st.integers(0, 200)), max_size=30))
def test_giving_back_never_makes_a_burst_larger(steps: list[tuple[float, int, int]]) -> None:
    shared, clock = limiter(rate=5, burst=50)
    for passed, wanted, unused in steps:
        clock.now += passed
        granted = shared.take(wanted)
        assert granted <= 50
        shared.give_back(min(unused, granted))
    clock.now += 0.001
    assert shared.take(10**6) <= 50


def test_a_token_that_was_given_back_can_be_taken_again() -> None:
    shared, _ = limiter(rate=1, burst=10)
    assert shared.take(8) == 8
    assert shared.take(8) == 2
    assert shared.take(8) == 0
    shared.give_back(5)
    assert shared.take(8) == 5


def test_fewer_tokens_than_are_worth_taking_stay() -> None:
    shared, clock = limiter(rate=1, burst=10, tokens=4)
    assert shared.take(8, least=5) == 0
    clock.now = 1
    assert shared.take(8, least=5) == 5


def test_a_run_goes_on_with_the_bucket_that_the_last_run_left() -> None:
    first, clock = limiter(rate=1, burst=10)
    clock.now = 100
    first.take(10)
    second = RateLimiter(first.bucket, clock)
    assert second.take(10) == 0
    clock.now = 103
    assert second.take(10) == 3


def test_a_clock_that_went_backwards_adds_nothing() -> None:
    shared, clock = limiter(rate=1, burst=10, tokens=0, at=100)
    clock.now = 50
    assert shared.take(10) == 0
    clock.now = 102
    assert shared.take(10) == 2


@each_row(
    ("tokens", "letters", "seconds"),
    [(0, 1, 0.5), (0, 10, 5), (0.5, 1, 0.25), (1, 1, 0), (10, 3, 0), (0, 1_000, 5)],
)
def test_seconds_until_letters_may_go_count_up_to_the_burst(
    tokens: float, letters: int, seconds: float
) -> None:
    shared, _ = limiter(rate=2, burst=10, tokens=tokens)
    assert shared.seconds_until(letters) == seconds


def test_a_slowed_bucket_has_a_share_of_rate_burst_and_tokens_and_room_for_one_letter() -> None:
    full = TokenBucket(rate=50.0, burst=100.0, tokens=80.0, at=7.0)
    assert full.slowed(1.0) == full
    assert full.slowed(0.2) == TokenBucket(rate=10.0, burst=20.0, tokens=20.0, at=7.0)
    # Tokens that the last run left are not multiplied too.
    assert full.less(75).slowed(0.2).tokens == 5.0
    assert full.slowed(0.001).burst == 1.0
    assert full.slowed(0.5).at_moment(8.0).tokens == 50.0


def test_a_bucket_gains_its_rate_each_second_and_no_second_twice() -> None:
    bucket = TokenBucket(rate=2.0, burst=10.0, tokens=1.0, at=100.0)
    assert bucket.at_moment(102.0) == TokenBucket(2.0, 10.0, 5.0, 102.0)
    assert bucket.at_moment(99.0) == bucket
    assert bucket.at_moment(1_000.0).tokens == 10.0


def test_one_letter_goes_for_one_token_and_none_for_less() -> None:
    shared, _ = limiter(rate=1, burst=10, tokens=1)
    assert shared.take(5) == 1
    shared, _ = limiter(rate=1, burst=10, tokens=0.99)
    assert shared.take(5) == 0
    assert shared.bucket.tokens == 0.99
