"""The rate that finds itself: what it does for each sign of the consumer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.circuit.state import Circuit, CircuitPolicy, OutcomeBucket, OutcomeCounts
from deadletter.pace.auto_rate import (
    AutoRate,
    Direction,
    RateBounds,
    Signs,
    at_start,
    delay_share,
    fresh_outcomes,
    latest_outcomes,
    next_rate,
    seconds_to_next_look,
)
from tests.each_row import each_row

NOW = 100_000.0
BOUNDS = RateBounds(first=50.0, most=500.0, backlog=10_000)
# Used in full for a minute, with an empty main queue.
KNOWN = AutoRate(
    100.0, Direction.STEADY, "x", changed_at=NOW - 60, looked_at=NOW - 5, waiting=0, level=0.0
)


def signs(**changes: Any) -> Signs:
    return Signs(**{"now": NOW, "waiting": 0, "sent": 6_000, "seconds": 60.0, **changes})


def failing(share: float, of: int = 1_000) -> OutcomeCounts:
    bad = round(of * share)
    return OutcomeCounts(good=of - bad, bad=bad)


def after(known: AutoRate = KNOWN, bounds: RateBounds = BOUNDS, **changes: Any) -> AutoRate:
    return next_rate(known, signs(**changes), bounds)


def test_it_doubles_while_the_consumer_keeps_up() -> None:
    rate = after()
    assert (rate.rate, rate.direction) == (200.0, Direction.RISING)
    assert (rate.because, rate.changed_at) == ("the consumer keeps up", NOW)
    assert after(replace(KNOWN, rate=300.0), sent=18_000).rate == 500.0


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"outcomes": failing(0.02)}, "failures 2%"),
        ({"waiting": 400}, "the main queue is not worked off yet"),
        ({"sent": 4_100}, "fewer messages went back than it allows"),
    ],
)
def test_it_stays_while_a_sign_is_in_doubt(changes: dict[str, Any], because: str) -> None:
    rate = after(**changes)
    assert (rate.rate, rate.direction, rate.because) == (100.0, Direction.STEADY, because)


def test_it_stays_at_the_highest() -> None:
    rate = after(replace(KNOWN, rate=500.0), sent=30_000)
    assert (rate.rate, rate.because) == (500.0, "it is the highest that is allowed")


def test_a_rise_waits_until_the_letters_of_the_last_one_have_arrived() -> None:
    risen = replace(KNOWN, direction=Direction.RISING, because="the consumer keeps up")
    # 3,000 delayed letters at 100 a second: they arrive within a minute.
    early = after(risen, delayed=3_000)
    assert (early.rate, early.direction) == (100.0, Direction.RISING)
    assert after(replace(risen, changed_at=NOW - 70), delayed=3_000).rate == 200.0
    assert after(replace(risen, changed_at=NOW - 4)).rate == 100.0
    # Producers delay messages too: it does not wait for ever.
    assert after(replace(risen, changed_at=NOW - 130), delayed=9**9).rate == 200.0


def test_the_first_look_of_a_run_raises_nothing() -> None:
    assert after(sent=None, seconds=0.0).rate == 100.0


@each_row(
    ("known", "changes", "lower", "because"),
    [
        (400.0, {"outcomes": failing(0.07)}, 200.0, "failures 7%"),
        # It broke down since the last look; before, all was well.
        (400.0, {"outcomes": failing(0.01), "latest": failing(0.3, 100)}, 50.0, "failures 30%"),
        (60.0, {"outcomes": failing(0.07)}, 50.0, "failures 7%"),
        (400.0, {"outcomes": failing(0.3)}, 50.0, "failures 30%"),
        (50.0, {"outcomes": failing(0.3)}, 25.0, "failures 30%"),
        (400.0, {"outcomes": failing(0.3), "letters_own": True}, 200.0,
         "messages that came back 30%"),
        (100.0, {"waiting": 1_001}, 70.0, "the main queue grows"),
        (50.0, {"waiting": 501}, 35.0, "the main queue grows"),
        (400.0, {"waiting": 5_001}, 280.0, "the main queue grows"),
        (400.0, {"opened": True}, 50.0, "the circuit was open"),
        (8.0, {"opened": True}, 5.0, "the circuit was open"),
    ],
)  # fmt: skip
def test_it_falls_at_the_first_sign(
    known: float, changes: dict[str, Any], lower: float, because: str
) -> None:
    rate = after(replace(KNOWN, rate=known), **changes)
    assert (rate.rate, rate.direction, rate.because) == (lower, Direction.FALLEN, because)
    assert (rate.changed_at, rate.limit, rate.limit_at) == (NOW, known, NOW)
    # It says so until it rises again.
    later = next_rate(rate, signs(now=NOW + 4, waiting=changes.get("waiting", 0)), BOUNDS)
    assert (later.rate, later.direction, later.because) == (lower, Direction.FALLEN, because)


@each_row(
    ("known", "changes"),
    [
        # What always fails a little, or fails for its own fault, is no slower than a fixed rate.
        (50.0, {"outcomes": failing(0.2)}),
        (50.0, {"outcomes": failing(0.9), "letters_own": True}),
        (5.0, {"outcomes": failing(0.9)}),
        (5.0, {"waiting": 900}),
        # Few failures are no sign.
        (100.0, {"outcomes": OutcomeCounts(good=0, bad=5), "sent": None}),
        (100.0, {"latest": OutcomeCounts(good=0, bad=5), "sent": None}),
        # Without the consumer's library nobody reports outcomes of the last seconds.
        (100.0, {"latest": failing(0.9), "letters_own": True, "sent": None}),
        # Growth by less than ten seconds of the rate.
        (100.0, {"waiting": 1_000}),
    ],
)
def test_it_does_not_fall_without_a_sign(known: float, changes: dict[str, Any]) -> None:
    assert after(replace(KNOWN, rate=known), **changes).rate == known


def test_a_queue_that_shrinks_is_no_sign() -> None:
    known = replace(KNOWN, waiting=6_000, level=6_000.0)
    rate = after(known, waiting=5_900)
    assert (rate.rate, rate.because) == (100.0, "the main queue is not worked off yet")
    assert after(known, waiting=6_000).rate == 70.0


def test_the_usual_level_of_the_queue_follows_slow_growth() -> None:
    rate = KNOWN
    for look in range(1, 60):
        # 3 a second more: less than a twenty-fifth of the rate.
        now = NOW + 5 * look
        rate = after(replace(rate, changed_at=now), now=now, waiting=15 * look)
    assert rate.rate == 100.0
    assert rate.level > 300
    assert after(rate, waiting=0).level == 0.0


def test_after_a_sign_it_rises_by_tenths_and_doubles_again_when_that_is_long_ago() -> None:
    fallen = after(replace(KNOWN, rate=400.0), outcomes=failing(0.07))
    again = next_rate(fallen, signs(now=NOW + 30, sent=6_000, seconds=30.0), BOUNDS)
    assert (again.rate, again.direction) == (240.0, Direction.RISING)
    late = next_rate(fallen, signs(now=NOW + 601, sent=6_000, seconds=30.0), BOUNDS)
    assert (late.rate, late.limit) == (400.0, 0.0)


def test_near_the_rate_at_which_the_trouble_began_it_rises_slowly_and_little() -> None:
    known = replace(KNOWN, rate=200.0, limit=400.0, limit_at=NOW - 100, changed_at=NOW - 30)
    seen = {"sent": 12_000, "seconds": 30.0}
    assert after(replace(known, rate=320.0), **seen).rate == 340.0
    near = replace(known, rate=340.0)
    assert after(near, **seen).rate == 356.0
    assert after(replace(near, changed_at=NOW - 19), **seen).rate == 340.0
    assert after(replace(known, changed_at=NOW - 19), **seen).rate == 240.0


def test_after_a_fall_delayed_letters_of_the_rate_before_put_off_a_rise_less() -> None:
    fallen = replace(KNOWN, rate=50.0, limit=400.0, limit_at=NOW - 30, changed_at=NOW - 20)
    seen = {"sent": 1_000, "seconds": 20.0, "delayed": 750}
    assert after(fallen, **seen).rate == 90.0
    assert after(replace(fallen, limit=50.0), **seen).rate == 50.0


def test_a_rate_that_has_not_risen_meanwhile_is_in_the_same_trouble() -> None:
    fallen = after(replace(KNOWN, rate=400.0), outcomes=failing(0.3))
    much_later = NOW + 300
    again = next_rate(
        replace(fallen, direction=Direction.STEADY), signs(now=much_later, opened=True), BOUNDS
    )
    assert (again.rate, again.limit) == (25.0, 400.0)
    risen = replace(fallen, rate=90.0, direction=Direction.RISING, changed_at=NOW + 30)
    assert next_rate(risen, signs(now=much_later, opened=True), BOUNDS).limit == 90.0


def test_it_is_looked_at_more_often_while_more_is_sent() -> None:
    assert [seconds_to_next_look(rate, 50.0) for rate in (5.0, 50.0, 51.0)] == [5.0, 5.0, 2.0]


def test_letters_of_a_deep_queue_are_delayed_less_the_higher_the_rate() -> None:
    assert [delay_share(rate) for rate in (5.0, 50.0, 500.0)] == [1.0, 1 / 3, 1 / 30]


def test_the_latest_outcomes_are_those_since_the_last_look() -> None:
    policy = CircuitPolicy(window=120)
    last = policy.bucket_of(NOW)
    before = Circuit("orders", buckets=(OutcomeBucket(last - 1, 90, 1), OutcomeBucket(last, 10, 2)))
    now = replace(before, buckets=(OutcomeBucket(last, 12, 9), OutcomeBucket(last + 1, 3, 4)))
    assert latest_outcomes(now, before, policy, NOW) == OutcomeCounts(good=5, bad=11)
    assert latest_outcomes(before, before, policy, NOW) == OutcomeCounts()
    # A circuit that closed meanwhile counts anew.
    closed = replace(now, closed_at=NOW, buckets=(OutcomeBucket(last, 1, 0),))
    assert latest_outcomes(closed, before, policy, NOW) == OutcomeCounts()


def test_signs_that_follow_one_another_are_one_trouble() -> None:
    rate = replace(KNOWN, rate=400.0)
    for look in range(12):
        rate = next_rate(rate, signs(now=NOW + 15 * look, outcomes=failing(0.3)), BOUNDS)
    assert (rate.rate, rate.limit, rate.direction) == (5.0, 400.0, Direction.STEADY)
    assert rate.because == "failures 30%"
    risen = replace(rate, rate=80.0, changed_at=NOW + 200)
    later = next_rate(risen, signs(now=NOW + 300, opened=True), BOUNDS)
    assert later.limit == 80.0


def test_a_fall_is_given_some_seconds_to_show() -> None:
    fallen = after(outcomes=failing(0.3))
    soon = next_rate(fallen, signs(now=NOW + 4, outcomes=failing(0.3)), BOUNDS)
    assert soon.rate == fallen.rate
    assert next_rate(fallen, signs(now=NOW + 5, outcomes=failing(0.3)), BOUNDS).rate == 25.0


def test_a_rate_that_no_run_has_used_for_long_starts_again() -> None:
    known = replace(KNOWN, rate=400.0)
    assert at_start(known, BOUNDS, NOW).rate == 400.0
    assert at_start(None, BOUNDS, NOW).rate == 50.0
    assert at_start(known, BOUNDS, NOW + 596).rate == 50.0
    # Other settings hold at once.
    assert at_start(known, replace(BOUNDS, most=300.0), NOW).rate == 300.0


def test_outcomes_are_those_of_late_and_from_the_fall_on() -> None:
    policy = CircuitPolicy(window=120)
    last = policy.bucket_of(NOW)
    buckets = tuple(OutcomeBucket(last - ago, good=10**ago, bad=1) for ago in range(5))
    circuit = Circuit("orders", buckets=buckets)
    assert fresh_outcomes(circuit, policy, KNOWN, NOW) == OutcomeCounts(good=111, bad=3)
    fallen = replace(KNOWN, direction=Direction.FALLEN, changed_at=NOW)
    assert fresh_outcomes(circuit, policy, fallen, NOW + 15) == OutcomeCounts(good=11, bad=2)


@given(
    st.lists(
        st.builds(
            Signs,
            now=st.floats(0, 1e6),
            waiting=st.integers(0, 20_000),
            delayed=st.integers(0, 100_000),
            sent=st.none() | st.integers(0, 100_000),
            seconds=st.floats(0, 60),
            outcomes=st.builds(OutcomeCounts, st.integers(0, 10_000), st.integers(0, 10_000)),
            latest=st.builds(OutcomeCounts, st.integers(0, 10_000), st.integers(0, 10_000)),
            letters_own=st.booleans(),
            opened=st.booleans(),
        ),
        max_size=50,
    ),
    st.floats(0.5, 50),
    st.floats(50, 10_000),
)
def test_it_never_leaves_its_bounds(seen: list[Signs], first: float, most: float) -> None:
    bounds = RateBounds(first=first, most=most, backlog=10_000)
    rate = at_start(None, bounds, 0.0)
    for each in seen:
        before, rate = rate, next_rate(rate, each, bounds)
        assert bounds.least <= rate.rate <= most
        assert rate.rate <= max(2 * before.rate, before.rate + most / 10)
        if rate.rate != before.rate:
            rising = rate.rate > before.rate
            assert rate.direction is (Direction.RISING if rising else Direction.FALLEN)
