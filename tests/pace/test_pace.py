"""The law of a pace: what it grants, how its limit follows, and when it begins and ends."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.pace.pace import (
    ABOVE,
    AHEAD_SECONDS,
    CATCH_UP,
    FLOOR,
    IDLE_SECONDS,
    LONGEST_PLACE,
    MOST,
    TOP,
    CallCount,
    CallPace,
    Wish,
    accepted,
    after_outage,
    after_throttling,
    calls_number,
    failed_lately,
    hidden_for,
    is_worth_asking,
    next_pace,
    take,
    throttled_lately,
)
from deadletter.pace.rate import SKEW_SECONDS
from tests.each_row import each_row

NOW = 1_800_000_000.0
BACK = CallPace(limit=4.0, normal=8.0, since=NOW, changed=NOW, cap=14.4, utat=NOW)
RATES = st.floats(FLOOR, 2_000)


def counted(now: float = NOW, **counts: int) -> tuple[CallCount, ...]:
    return (CallCount(calls_number(now), **counts),)


def later(pace: CallPace, seconds: float, **counts: int) -> CallPace:
    """The pace after so many seconds in which its calls went so."""
    now = NOW + seconds
    return next_pace(pace, counted(now - 1, **counts), now)


ASKS = st.tuples(
    st.sampled_from([0.0, 0.0005, 0.2, 2.0]), st.floats(0, 1), st.integers(1, 10), st.booleans()
)
"""Seconds after the one before, share of the clocks' skew, calls wanted, answer lost."""


# What is granted.


@given(
    RATES,
    st.lists(ASKS, min_size=1, max_size=60),
    st.floats(0.01, 20),
    st.sampled_from([0.0, 1.0, SKEW_SECONDS]),
)
def test_never_more_than_the_limit_allows_is_granted_whatever_the_clocks(
    limit: float, asks: list[tuple[float, float, int, bool]], window: float, skew: float
) -> None:
    """Processes ask one after the other; a lost answer only wastes."""
    pace = replace(BACK, limit=limit, cap=None)
    now, granted = NOW, deque[tuple[float, int]]()
    for gap, share, wanted, is_lost in asks:
        now += gap
        grant = take(pace, Wish(wanted), now + share * skew)
        assert 0 <= grant.calls <= wanted
        pace = grant.pace
        if not is_lost:
            granted.append((now, grant.calls))
        while granted and granted[0][0] < now - window:
            granted.popleft()
        most = limit * (window + skew) + pace.burst
        assert sum(calls for _, calls in granted) <= most + 1e-3


def test_calls_that_cost_less_than_a_stored_millisecond_are_paid_for() -> None:
    pace, granted = replace(BACK, limit=2_000.0, cap=None), 0
    for turn in range(10_000):
        grant = take(pace, Wish(1), NOW + turn * 0.0003)
        pace, granted = grant.pace, granted + grant.calls
    assert granted <= 2_000 * 3 + 2_000


@given(RATES, st.integers(2, 40))
def test_who_asks_often_enough_gets_the_whole_limit(limit: float, seconds: int) -> None:
    pace, granted = replace(BACK, limit=limit), 0
    for turn in range(1, seconds * 20 + 1):
        grant = take(pace, Wish(1_000), NOW + turn / 20)
        pace, granted = grant.pace, granted + grant.calls
    # A time is stored in milliseconds, rounded up.
    assert granted >= math.floor(limit * seconds * (1 - 0.02)) - 1


def test_a_burst_is_a_second_of_the_limit_and_one_call_at_least() -> None:
    idle = replace(BACK, utat=NOW - 100)
    assert take(idle, Wish(10), NOW).calls == 4
    slow = replace(idle, limit=0.5)
    assert take(slow, Wish(10), NOW).calls == 1


def test_while_places_are_promised_a_quarter_of_the_burst_is_for_messages_that_return() -> None:
    pace = replace(BACK, utat=NOW - 100, ptat=NOW + 60)
    assert take(pace, Wish(10), NOW).calls == 3
    assert take(pace, Wish(10, returning=True), NOW).calls == 4
    assert take(replace(pace, limit=2.0), Wish(10), NOW).calls == 1
    assert take(replace(pace, ptat=NOW), Wish(10), NOW).calls == 4
    # A pace of one call at a time keeps none for later: first receives would starve.
    slow = replace(pace, limit=1.0)
    assert take(slow, Wish(10), NOW).calls == 1


def test_a_group_that_comes_back_as_a_whole_goes_on_as_a_whole() -> None:
    """Its place was that of its last message. What it takes is paid for, not too far ahead."""
    wish = Wish(10, returning=True, whole=True)
    grant = take(BACK, wish, NOW)
    assert (grant.calls, grant.until) == (10, NOW + 30)
    assert grant.pace.utat == pytest.approx(NOW + 10 / BACK.limit, abs=0.01)
    assert take(grant.pace, Wish(1), NOW + 1).calls == 0
    assert is_worth_asking(grant.pace, wish, NOW)
    pace, calls = BACK, 0
    for _ in range(100):
        grant = take(pace, wish, NOW)
        pace, calls = grant.pace, calls + grant.calls
    assert calls == AHEAD_SECONDS * BACK.limit
    assert NOW < pace.utat <= NOW + AHEAD_SECONDS


def test_a_row_that_is_far_ahead_grants_again_within_a_second() -> None:
    wrong = replace(BACK, utat=NOW + 1e9)
    grant = take(wrong, Wish(9), NOW)
    # One call, and with it the row is right again.
    assert (grant.calls, grant.pace.utat) == (1, NOW)
    assert take(grant.pace, Wish(9), NOW + 1).calls == 4
    behind = replace(BACK, utat=NOW + SKEW_SECONDS)
    assert take(behind, Wish(1), NOW + SKEW_SECONDS + 1).calls == 1


# Places.


def test_places_need_no_call() -> None:
    grant = take(BACK, Wish(places=2), NOW)
    assert (grant.calls, len(grant.waits), grant.pace.utat) == (0, 2, BACK.utat)


def test_places_follow_one_another_at_the_planned_rate() -> None:
    grant = take(BACK, Wish(places=3), NOW)
    assert grant.waits == pytest.approx([number / 11.52 for number in (1, 2, 3)])
    again = take(grant.pace, Wish(places=1), NOW)
    assert again.waits == pytest.approx([4 / 11.52])
    fallen = replace(BACK, fell=NOW - 10)
    assert take(fallen, Wish(places=1), NOW).waits == (0.25,)


@given(st.floats(0, 1e12), st.integers(1, 10))
def test_no_place_is_hidden_for_longer_than_four_minutes(ptat: float, places: int) -> None:
    pace = replace(BACK, ptat=ptat)
    grant = take(pace, Wish(places=places), NOW)
    assert all(0 <= hidden_for(wait, Random(1)) <= LONGEST_PLACE for wait in grant.waits)
    assert grant.pace.ptat <= max(ptat, NOW + 13 * 3_600)


def test_who_waits_is_hidden_no_longer_than_a_place_once_calls_lie_idle() -> None:
    """What was promised to messages that are gone holds no others back."""
    idle = replace(BACK, utat=NOW - 1, ptat=NOW + 3_600)
    assert take(idle, Wish(1), NOW).pace.ptat == NOW + LONGEST_PLACE
    assert take(replace(idle, ptat=NOW + 60), Wish(1), NOW).pace.ptat == NOW + 60
    used = replace(idle, utat=NOW - 0.9)
    assert take(used, Wish(1, returning=True), NOW).pace.ptat == NOW + 3_600


@pytest.mark.parametrize(
    ("more", "waits_long"),
    [
        ({}, True),
        ({"ptat": NOW + LONGEST_PLACE}, False),
        ({"ptat": NOW + LONGEST_PLACE + 1}, True),
        # Only a wrong row says so.
        ({"ptat": NOW + 12 * 3_600}, True),
        ({"ptat": NOW + 13 * 3_600}, False),
        # No call was made for minutes: what waited is gone.
        ({"utat": NOW - LONGEST_PLACE}, False),
        ({"utat": NOW - LONGEST_PLACE + 1}, True),
        ({"utat": NOW + 1e9}, False),
    ],
)
def test_messages_wait_long_while_places_are_far_away_and_calls_go_on(
    more: dict[str, float], waits_long: bool
) -> None:
    pace = replace(BACK, **{"ptat": NOW + 600, **more})
    assert pace.waits_long(NOW) is waits_long


def test_long_waits_are_spread() -> None:
    random = Random(1)
    grant = take(replace(BACK, ptat=NOW + 3_600), Wish(places=10), NOW)
    waits = [hidden_for(wait, random) for wait in grant.waits]
    assert len(set(waits)) == 10
    assert all(96 <= wait <= 240 for wait in waits)
    assert min(waits) < 130
    assert hidden_for(240.0, random) == 240.0


def test_a_row_says_about_how_many_wait() -> None:
    assert replace(BACK, ptat=NOW + 100).waiting(NOW) == round(100 * 0.8 * 14.4)
    assert replace(BACK, ptat=NOW + 100, fell=NOW).waiting(NOW) == 400
    assert replace(BACK, ptat=NOW - 100).waiting(NOW) == 0
    assert replace(BACK, ptat=NOW + 1e9, cap=None).waiting(NOW) == 12 * 3_600 * 4


# How it begins.


def test_it_begins_with_half_of_the_normal_rate() -> None:
    pace = after_outage(10.0, None, NOW)
    assert pace is not None
    assert (pace.limit, pace.cap, pace.turn) == (5.0, CATCH_UP * 10, 1)


def test_it_begins_where_an_outage_has_ended_it_a_moment_ago() -> None:
    last = replace(BACK, limit=7.0, changed=NOW - 60, turn=9)
    pace = after_outage(8.0, last, NOW)
    assert pace is not None
    assert (pace.limit, pace.turn, pace.ptat, pace.utat) == (7.0, 10, 0.0, NOW)
    older = after_outage(8.0, replace(last, changed=NOW - 600), NOW)
    assert older is not None
    assert older.limit == 4.0


def test_without_a_normal_rate_there_is_no_pace() -> None:
    assert after_outage(0.0, None, NOW) is None
    assert after_outage(0.5, None, NOW) is not None


def test_what_throttles_is_asked_a_little_more_than_it_accepted() -> None:
    pace = after_throttling(5.0, 4.0, None, NOW)
    assert (pace.limit, pace.cap, pace.turn) == (4.4, None, 1)
    assert after_throttling(5.0, 4.0, replace(BACK, turn=9), NOW).turn == 10
    assert after_throttling(5.0, 0.0, None, NOW).limit == FLOOR


# How it changes.


def test_nothing_changes_within_five_seconds() -> None:
    assert later(BACK, 4.9, failed=9) is BACK
    assert later(BACK, 5, failed=9).turn == 2


def test_without_calls_nothing_changes() -> None:
    assert next_pace(BACK, (), NOW + 60) is BACK


def test_what_throttles_brings_it_to_what_was_accepted() -> None:
    fast, calls = replace(BACK, limit=8.0), counted(NOW + 5, ok=20, throttled=20)
    pace = next_pace(fast, calls, NOW + 12)
    assert pace.limit == pytest.approx(ABOVE * 20 / 5)
    assert (pace.fell, pace.turn) == (NOW + 12, 2)
    # While some have not reported, the sum is too low.
    assert next_pace(fast, calls, NOW + 11) is fast
    # Calls that began when it did are its own.
    assert next_pace(replace(fast, since=NOW + 5, fell=NOW + 5), calls, NOW + 12).limit == 4.4
    fallen = replace(fast, fell=NOW + 6, changed=NOW + 6)
    assert next_pace(fallen, counted(NOW + 10, ok=4, throttled=4), NOW + 16.9) is fallen


def test_it_falls_by_half_at_most() -> None:
    """What was hidden was not accepted either: else a limit that few use falls to the floor."""
    fast, calls = replace(BACK, limit=40.0), counted(NOW + 5, ok=20, throttled=20)
    pace = next_pace(fast, calls, NOW + 12)
    assert pace.limit == 20.0
    assert next_pace(pace, counted(NOW + 15, ok=20, throttled=20), NOW + 22).limit == 10.0


def test_of_few_calls_the_share_that_is_accepted_counts() -> None:
    """Messages were hidden, so little was asked: that is no sign that less is borne."""
    calls = counted(NOW + 5, ok=8, throttled=4)
    assert next_pace(BACK, calls, NOW + 12).limit == pytest.approx(8 / 12 * 4.0, abs=1e-3)
    assert next_pace(BACK, counted(NOW + 5, ok=15, throttled=7), NOW + 12).limit == 3.3


def test_while_messages_wait_long_it_rises_though_hardly_a_call_is_made() -> None:
    long = replace(BACK, ptat=NOW + 600)
    assert next_pace(long, (), NOW + 10).limit == 5.0
    assert later(long, 10, ok=1).limit == 5.0
    assert later(long, 10, ok=1, throttled=1).limit == 4.0
    # A place that far away only a wrong row has.
    assert next_pace(replace(BACK, ptat=1e12), (), NOW + 10).limit == BACK.limit
    assert next_pace(replace(BACK, ptat=NOW + 26), (), NOW + 10).limit == 5.0
    short = replace(BACK, ptat=NOW + 25)
    assert next_pace(short, (), NOW + 10) is short
    assert later(short, 10, ok=1).limit == 4.0


def test_a_few_throttled_calls_leave_it_where_it_is() -> None:
    fast = replace(BACK, limit=9.0)
    assert later(fast, 10, ok=85, throttled=15).limit == 9.0
    assert later(fast, 10, ok=92, throttled=8).limit > 9.0
    assert next_pace(BACK, counted(NOW + 5, ok=8, throttled=2), NOW + 12) is BACK


def test_one_throttled_call_or_two_failures_show_nothing_yet() -> None:
    fast = replace(BACK, limit=9.0)
    assert next_pace(fast, counted(NOW + 5, ok=1, throttled=1), NOW + 12) is fast
    assert next_pace(fast, counted(NOW + 5, ok=1, throttled=2), NOW + 12).limit == 4.5
    assert later(BACK, 10, failed=2) is BACK
    assert later(BACK, 10, failed=3).limit < BACK.limit


def test_failures_bring_it_down_and_not_below_a_fifth_of_the_normal_rate() -> None:
    assert later(BACK, 10, ok=5, failed=5).limit == pytest.approx(2.8)
    assert later(replace(BACK, limit=1.7), 10, failed=5).limit == pytest.approx(1.6)
    assert later(BACK, 10, ok=6, failed=4).limit >= 4.0


def test_a_limit_that_is_used_rises_to_the_cap() -> None:
    assert later(BACK, 10, ok=20).limit == 5.0
    assert later(BACK, 10, ok=12).limit == 5.0
    assert later(BACK, 10, ok=11).limit == 4.0
    assert later(BACK, 10, ok=20).turn == 2
    assert later(replace(BACK, limit=14.0), 10, ok=70).limit == 14.4
    assert later(replace(BACK, fell=NOW), 10, ok=20).limit == pytest.approx(4.24)
    # A fall is soon forgotten.
    assert later(replace(BACK, fell=NOW - 49.5), 10, ok=20).limit == pytest.approx(4.24)
    assert later(replace(BACK, fell=NOW - 50), 10, ok=20).limit == 5.0


def test_calls_of_before_a_fall_are_no_signs_any_more() -> None:
    fallen = replace(BACK, fell=NOW + 2)
    calls = counted(NOW, failed=50)
    assert next_pace(fallen, calls, NOW + 8) is fallen
    # Those of the seconds in which it began are.
    begun = replace(BACK, since=NOW + 3, changed=NOW + 3)
    assert next_pace(begun, calls, NOW + 8).limit == pytest.approx(2.8)


def test_the_cap_rises_in_steps_while_nothing_fails() -> None:
    pace = after_outage(8.0, None, NOW)
    assert pace is not None
    caps = []
    for turn in range(1, 60):
        now = NOW + 5 * turn
        used = math.ceil(pace.limit * 5)
        pace = next_pace(pace, (CallCount(calls_number(now - 5), ok=used),), now)
        caps.append(pace.cap)
    assert caps[10] == CATCH_UP * 8
    assert caps[12] == pytest.approx(CATCH_UP * 8 * 1.15)
    assert caps[-1] == TOP * 8


def test_the_cap_rises_twenty_seconds_after_its_last_step() -> None:
    pace = replace(BACK, limit=14.4, stepped=NOW)
    assert later(pace, 19.5, ok=140).cap == 14.4
    assert later(pace, 20, ok=140).cap == pytest.approx(1.15 * 14.4)


def test_without_a_cap_or_a_normal_rate_no_step_is_taken() -> None:
    free = after_throttling(5.0, 4.0, None, NOW)
    assert later(free, 20, ok=80).cap is None
    assert later(free, 20, ok=80).limit == pytest.approx(5.5)
    unknown = replace(BACK, normal=0.0, limit=14.4)
    assert later(unknown, 20, ok=97, failed=3).cap == 14.4


def test_the_cap_is_held_for_a_minute_after_a_fall() -> None:
    fallen = later(BACK, 10, ok=5, failed=5)
    assert fallen.cap == 14.4
    for seconds, cap in ((60.0, 14.4), (90.0, 14.4 * 1.15)):
        ready = replace(fallen, limit=14.4, fell=0.0)
        now = NOW + 10 + seconds
        assert next_pace(ready, counted(now - 1, ok=72), now).cap == pytest.approx(cap)


@each_row(
    ("cap", "calls", "after"),
    [
        (16.56, {"ok": 147, "failed": 3}, 16.56 * 1.15),
        (16.56, {"ok": 146, "failed": 4}, 14.4),
        (16.56, {"ok": 97, "failed": 2, "throttled": 1}, 14.4),
        # Two are no sign, however few the others are.
        (16.56, {"ok": 48, "failed": 2}, 16.56 * 1.15),
        # It stays between the first cap and the last one.
        (15.0, {"ok": 75, "failed": 3}, 14.4),
        (14.4, {"ok": 75, "failed": 3}, None),
        (29.0, {"ok": 150}, 30.0),
        (30.0, {"ok": 150}, None),
    ],
)
def test_the_cap_takes_steps_between_its_first_and_its_last(
    cap: float, calls: dict[str, int], after: float | None
) -> None:
    pace = replace(BACK, limit=cap, cap=cap)
    stepped = later(pace, 10, **calls)
    if after is None:
        assert stepped is pace
    else:
        assert stepped.cap == pytest.approx(after)


def test_a_step_that_was_too_high_is_taken_back_and_held() -> None:
    pace = replace(BACK, limit=16.56, cap=16.56)
    back = later(pace, 10, ok=75, failed=3)
    assert (back.cap, back.limit) == (pytest.approx(14.4), pytest.approx(14.4))
    held = next_pace(back, counted(NOW + 40, ok=72), NOW + 45)
    assert held.cap == pytest.approx(14.4)


COUNTS = st.integers(0, 200)


@given(
    st.sampled_from([None, 0.0, 0.5, 8.0, 900.0]),
    st.lists(st.tuples(st.floats(0, 20), COUNTS, COUNTS, COUNTS), max_size=40),
)
def test_the_limit_stays_between_floor_and_cap(
    normal: float | None, seconds: list[tuple[float, int, int, int]]
) -> None:
    begun = (
        after_throttling(0.0, 9.0, None, NOW) if normal is None else after_outage(normal, None, NOW)
    )
    if begun is None:
        return
    pace, now = begun, NOW
    for gap, ok, failed, throttled in seconds:
        now += gap
        pace = next_pace(pace, (CallCount(calls_number(now), ok, failed, throttled),), now)
        assert FLOOR <= pace.limit <= MOST
        if pace.cap is not None:
            assert pace.limit <= max(FLOOR, pace.cap) + 1e-3
            assert pace.cap <= max(FLOOR, TOP * pace.normal)
        assert pace.turn >= begun.turn


# How it ends.


def test_it_ends_when_nobody_has_waited_for_a_while() -> None:
    assert BACK.is_on(NOW + IDLE_SECONDS - 1)
    assert not BACK.is_on(NOW + IDLE_SECONDS)
    waits = take(BACK, Wish(10), NOW + 60).pace
    assert waits.is_on(NOW + 60 + IDLE_SECONDS - 1)
    assert not waits.is_on(NOW + 60 + IDLE_SECONDS)
    # By a clock that is ten seconds ahead.
    assert replace(BACK, since=NOW + 10).is_on(NOW)


def test_it_goes_on_while_messages_wait_long() -> None:
    """They are hidden, and nobody asks: without a limit their letters would return in one heap."""
    later = NOW + 3 * IDLE_SECONDS
    assert replace(BACK, utat=later, ptat=later + 600).is_on(later)
    assert not replace(BACK, utat=later, ptat=later + 60).is_on(later)


def test_a_call_that_is_granted_is_good_for_three_seconds() -> None:
    assert take(BACK, Wish(1), NOW).until == NOW + 3


def test_that_messages_wait_is_noted_once_in_twenty_seconds() -> None:
    noted = take(BACK, Wish(10), NOW).pace
    assert noted.waited == take(BACK, Wish(places=1), NOW).pace.waited == NOW
    assert take(noted, Wish(10), NOW + 19).pace.waited == NOW
    assert take(noted, Wish(10), NOW + 20).pace.waited == NOW + 20


def test_each_change_of_the_row_has_a_turn_of_its_own() -> None:
    granted = take(replace(BACK, utat=NOW - 9), Wish(1), NOW).pace
    assert granted.turn == BACK.turn + 1
    assert take(granted, Wish(), NOW).pace == granted


def test_who_gets_all_that_is_wanted_does_not_wait() -> None:
    grant = take(replace(BACK, utat=NOW - 9), Wish(4), NOW + 60)
    assert (grant.calls, grant.pace.waited) == (4, 0.0)


def test_a_row_that_says_it_begins_far_ahead_is_over() -> None:
    wrong = replace(BACK, since=NOW + 1e9, waited=NOW + 1e9)
    assert not wrong.is_on(NOW)


def test_it_is_asked_for_what_is_worth_a_write() -> None:
    noted = replace(BACK, limit=12.0, waited=NOW)
    assert not is_worth_asking(noted, Wish(10), NOW + 0.2)
    assert is_worth_asking(noted, Wish(10), NOW + 0.25)
    assert is_worth_asking(noted, Wish(1), NOW + 0.1)
    # That it waits has to be noted, and a place is always there.
    assert is_worth_asking(replace(noted, waited=NOW - 20), Wish(10), NOW)
    assert is_worth_asking(replace(noted, utat=NOW + 1), Wish(places=1), NOW)


# What the last calls show.


def test_two_throttled_calls_of_the_last_fifteen_seconds_begin_a_pace() -> None:
    assert throttled_lately(counted(throttled=2), NOW)
    assert not throttled_lately(counted(throttled=1, ok=9), NOW)
    apart = (*counted(NOW - 10, throttled=1), *counted(throttled=1))
    assert throttled_lately(apart, NOW)
    assert not throttled_lately(counted(NOW - 20, throttled=9), NOW)


def test_what_was_accepted_is_a_rate_of_whole_counts_where_there_are_some() -> None:
    calls = tuple(CallCount(calls_number(NOW) - ago, ok=10) for ago in (0, 1, 2))
    assert accepted(calls, NOW + 3) == 2.0
    older = (CallCount(calls_number(NOW) - 3, ok=40), CallCount(calls_number(NOW) - 4, ok=90))
    assert accepted((*calls, *older), NOW + 7) == pytest.approx((10 + 10 + 10) / 15)
    assert accepted((*calls[1:], *older), NOW + 2) == pytest.approx((10 + 10 + 40) / 15)
    # Else it is that of the seconds since it began.
    assert accepted(calls[:1], NOW + 4) == 2.5
    assert accepted(calls[:1], NOW) == 10.0
    assert accepted((), NOW) == 0.0


# Whether it is dead.


def test_half_of_the_last_calls_is_what_a_trip_takes_while_it_is_paced() -> None:
    assert failed_lately(counted(ok=5, failed=5), NOW)
    assert not failed_lately(counted(ok=6, failed=5), NOW)
    assert failed_lately(counted(NOW - 5, failed=1), NOW)
    assert not failed_lately(counted(NOW - 10, failed=9) + counted(NOW + 5, failed=9), NOW)
    assert not failed_lately((), NOW)
