"""When a cause of failure suddenly dominates, and when it was always there."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadletter.contract import Blame
from deadletter.failure.causes import (
    BEFORE,
    BUCKET,
    BUCKETS,
    HOLD,
    LEAST_LETTERS,
    MEMORY,
    MOST_CAUSES,
    MOST_LETTERS,
    NO_CAUSES,
    WINDOW,
    CauseHold,
    Causes,
    FailedTry,
    Second,
    bucket_of,
    cause_of,
    seconds_of,
)
from tests.each_row import each_row
from tests.samples import failed

START = 1_800_000_000
CAUSE = "f00d"


class Traffic:
    """Outcomes second by second, each of another letter, and what becomes of the causes."""

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)
        self.causes = NO_CAUSES
        self.now = START
        self.letters = 0
        self.parked = 0

    def run(self, seconds: float, *, share: float = 0.0, a_second: int = 5, **one: Any) -> Traffic:
        """Let time pass with a share (0 to 1) of failures for one cause."""
        for _ in range(int(seconds)):
            failures = []
            for _ in range(a_second):
                self.letters += 1
                if self.random.random() < share:
                    failures.append(FailedTry(one.get("cause", CAUSE), "KeyError", self.letters))
            # Each failure is parked when it is written, and counts with it.
            self.parked += len(failures) if self.hold is None else 0
            second = Second(self.now, a_second, tuple(failures))
            self.causes = self.causes.counting([second], self.now).judged(self.now)
            self.now += 1
        return self

    @property
    def hold(self) -> Any:
        return self.causes.hold_of(CAUSE, self.now)


@cache
def _an_hour(seed: int) -> Traffic:
    return Traffic(seed).run(3_600)


def an_hour(seed: int = 1) -> Traffic:
    """Traffic after its first hour, in which no letter failed."""
    return deepcopy(_an_hour(seed))


@each_row(("share", "most"), [(1.0, 25), (0.9, 30), (0.75, 45)])
@each_row("healthy", [0, 100, 299])
def test_a_cause_that_begins_to_fail_most_letters_is_held_before_many_are_parked(
    share: float, most: int, healthy: int
) -> None:
    traffic = an_hour().run(healthy).run(60, share=share)
    assert traffic.hold is not None
    assert LEAST_LETTERS <= traffic.parked <= most


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_cause_that_was_always_there_is_not_held(share: float, seed: int) -> None:
    traffic = Traffic(seed).run(600, share=share)
    # Where nothing is known of an hour before, none is sudden either.
    assert traffic.causes.holds == {}
    assert traffic.run(6_600, share=share).causes.holds == {}


@pytest.mark.parametrize("seed", range(3))
def test_a_cause_that_becomes_a_third_of_the_outcomes_is_not_held(seed: int) -> None:
    assert an_hour(seed).run(1_200, share=0.3).causes.holds == {}


def test_many_failures_of_few_letters_are_no_sudden_cause() -> None:
    causes = an_hour().causes
    now = START + 3_600
    same = tuple(FailedTry(CAUSE, "KeyError", letter % 19) for letter in range(200))
    assert causes.counting([Second(now, 200, same)], now).judged(now).holds == {}


def test_without_enough_outcomes_in_the_hour_before_no_cause_is_sudden() -> None:
    quiet = Traffic().run(19, a_second=1)
    quiet.now += 1_800
    assert quiet.run(60, share=1.0).causes.holds == {}
    enough = Traffic().run(20, a_second=1)
    enough.now += 1_800
    assert enough.run(60, share=1.0).hold is not None


def test_letters_have_to_gather_within_the_window() -> None:
    slow = an_hour()
    for _ in range(60):
        slow.run(1, share=1.0, a_second=1)
        slow.now += int(WINDOW / LEAST_LETTERS) + 1
    assert slow.causes.holds == {}


def test_successes_that_are_reported_late_count_against_the_lead() -> None:
    traffic = an_hour().run(3, share=1.0)
    stretch = traffic.causes.stretch
    assert stretch is not None
    assert (stretch.failures, stretch.others) == (15, 0)
    first = traffic.causes.counting([Second(int(stretch.since), 3)], traffic.now)
    assert first.stretch == replace(stretch, others=3)
    # What was before the first failure does not.
    before = traffic.causes.counting([Second(traffic.now - 10, 50)], traffic.now)
    assert before.stretch == stretch
    late = traffic.causes.counting([Second(traffic.now - 2, 15)], traffic.now)
    assert late.stretch is None


@each_row("share", [1.0, 0.5, 0.15])
def test_a_hold_ends_ten_minutes_after_the_last_failure_of_its_cause(share: float) -> None:
    traffic = an_hour().run(5, share=1.0)
    begun = traffic.hold.since
    traffic.run(7_200, share=share)
    assert traffic.hold.since == begun
    assert traffic.now - 60 <= traffic.hold.until - HOLD <= traffic.now
    traffic.run(HOLD - 60)
    assert traffic.hold is not None
    traffic.run(61)
    assert traffic.hold is None
    assert traffic.causes.holds


def test_a_few_poisonous_letters_a_minute_keep_no_hold_alive() -> None:
    """A producer sends nothing but poison, and afterwards a little of it for ever."""
    traffic = an_hour().run(300, share=1.0)
    assert traffic.hold is not None
    traffic.run(2 * BUCKET + HOLD + 60, share=0.05)
    assert traffic.hold is None
    parked = traffic.parked
    traffic.run(600, share=0.05)
    assert traffic.hold is None
    assert traffic.parked > parked


def test_letters_that_no_fix_brings_back_keep_no_hold_alive_beside_healthy_ones() -> None:
    """A producer has sent poison for a while: it goes round, and its failures are most of all."""
    traffic = an_hour().run(300, share=1.0)
    for _ in range(int((2 * BUCKET + HOLD) / 60) + 1):
        traffic.run(60)
        goes_round = Second(traffic.now, 0, again=frozenset({CAUSE}))
        traffic.causes = traffic.causes.counting([goes_round], traffic.now)
    assert traffic.hold is None


def test_at_night_letters_that_fail_again_keep_the_hold_of_their_cause() -> None:
    traffic = an_hour().run(300, share=1.0)
    for _ in range(24):
        traffic.now += 300
        # Hardly anything else comes, and that little goes well.
        goes_round = Second(traffic.now, 1, again=frozenset({CAUSE, "another"}))
        traffic.causes = traffic.causes.counting([goes_round], traffic.now)
        assert traffic.hold is not None
    assert set(traffic.causes.holds) == {CAUSE}


def test_a_bucket_that_has_just_begun_says_nothing_alone() -> None:
    last = bucket_of(START)
    causes = Causes(
        totals={last - 1: 100, last: 25},
        counts={CAUSE: {last - 1: 50, last: 1}},
        holds={CAUSE: CauseHold(START - 60.0, START + 10.0)},
    )
    failure = Second(START, 1, (FailedTry(CAUSE, "KeyError", 1),))
    assert causes.counting([failure], START).holds[CAUSE].until == START + HOLD


def test_a_failure_after_the_end_of_its_hold_does_not_renew_it() -> None:
    hold = CauseHold(START - 900.0, START - 1.0)
    causes = Causes(holds={CAUSE: hold})
    late = Second(START, 1, (FailedTry(CAUSE, "KeyError", 1),))
    assert causes.counting([late], START).holds == {CAUSE: hold}


def test_a_clock_that_is_ahead_keeps_no_hold_alive() -> None:
    causes = Causes(holds={CAUSE: CauseHold(START - 60.0, START + 10.0)})
    ahead = Second(START + 9, 1, (FailedTry(CAUSE, "KeyError", 1),))
    assert causes.counting([ahead], START + 5).holds[CAUSE].until == START + 5 + HOLD


def test_a_cause_held_within_a_day_is_held_again_whatever_was_in_the_hour_before() -> None:
    traffic = an_hour().run(5, share=1.0)
    # A night without a message: the letters leave at its end, and fail again.
    traffic.now += int(HOLD + MEMORY) - 100
    assert traffic.run(5, share=1.0).hold is not None
    assert traffic.hold.since > START + HOLD + MEMORY
    traffic.now += int(HOLD + MEMORY) + 1
    assert traffic.run(5, share=1.0).hold is None


def test_a_cause_that_a_person_mended_is_counted_anew() -> None:
    traffic = an_hour().run(120, share=1.0)
    mended = traffic.causes.mending(CAUSE, "arn:me", "fixed", traffic.now)
    assert (mended.counts, mended.stretch, mended.held(traffic.now)) == ({}, None, {})
    assert mended.totals == traffic.causes.totals
    traffic.causes, traffic.parked = mended, 0
    assert traffic.run(5, share=1.0).hold is not None
    assert traffic.parked <= 25
    # What its failures were before says nothing of a day with next to no message.
    traffic.causes = traffic.causes.mending(CAUSE, "arn:me", "fixed", traffic.now)
    traffic.now += 7_200
    assert traffic.run(5, share=1.0).hold is None


def test_mending_one_cause_keeps_the_others() -> None:
    traffic = an_hour().run(30, share=1.0).run(200).run(30, share=1.0, cause="b")
    assert set(traffic.causes.holds) == {CAUSE, "b"}
    mended = traffic.causes.mending(CAUSE, "arn:me", "fixed", traffic.now)
    assert mended.held(traffic.now).keys() == {"b"}


@pytest.mark.parametrize(
    ("at", "excused"),
    [(999.0 - WINDOW, False), (1_000.0 - WINDOW, True), (2_000.0, True), (2_001.0, False)],
)
def test_a_failure_while_its_cause_dominated_is_excused_later_too(at: float, excused: bool) -> None:
    causes = Causes(holds={"f1": CauseHold(1_000.0, 2_000.0), "f2": CauseHold(0.0, 9_999.0)})
    assert causes.excuses(failed(at=at), 3_000.0) is excused
    # While it is held, it excuses older failures too.
    assert causes.excuses(failed(at=at), 1_999.0)
    assert not causes.excuses(failed(at=at, fingerprint="f3"), 1_999.0)


@pytest.mark.parametrize(
    ("healthy", "share", "settled"), [(0, 1.0, True), (3_600, 0.05, False), (3_600, 1.0, True)]
)
def test_a_cause_is_settled_if_no_more_failures_can_change_what_becomes_of_its_letters(
    healthy: int, share: float, settled: bool
) -> None:
    traffic = Traffic().run(healthy).run(60, share=share)
    assert traffic.causes.is_settled(CAUSE, traffic.now) is settled


def test_the_row_is_bounded() -> None:
    traffic = Traffic()
    for number in range(40):
        traffic.run(300, share=1.0, cause=f"cause {number}")
    assert len(traffic.causes.totals) <= BUCKETS
    assert len(traffic.causes.counts) <= MOST_CAUSES
    assert traffic.causes.stretch is not None
    assert len(traffic.causes.stretch.messages) == MOST_LETTERS
    assert f"cause {number}" in traffic.causes.counts


def test_a_cause_beside_many_larger_ones_is_counted_while_it_is_in_the_lead() -> None:
    traffic = an_hour()
    for number in range(MOST_CAUSES):
        traffic.run(10, share=1.0, cause=f"cause {number}").run(60)
    assert CAUSE not in traffic.causes.counts
    traffic.run(3, share=1.0)
    assert sum(traffic.causes.counts[CAUSE].values()) == 15


second = st.builds(
    lambda at, others, failed: Second(at, others + len(failed), tuple(failed)),
    st.integers(START - 100, START + 100),
    st.integers(0, 50),
    st.lists(
        st.builds(FailedTry, st.sampled_from("abc"), st.just("E"), st.integers(0, 99)), max_size=30
    ),
)


@settings(max_examples=200)
@given(st.lists(second, max_size=30))
def test_whatever_is_counted_a_cause_in_the_lead_has_more_than_half(seconds: list[Second]) -> None:
    causes = Causes(totals={bucket_of(START) - 5: 1_000})
    for each in seconds:
        causes = causes.counting([each], START + 100).judged(START + 100)
        stretch = causes.stretch
        assert stretch is None or stretch.failures > stretch.others
        assert stretch is None or len(stretch.messages) <= MOST_LETTERS


@each_row(
    ("change", "cause"),
    [
        ({}, "f1"),
        ({"blame": Blame.NEITHER}, "f1"),
        ({"blame": Blame.DEPENDENCY}, ""),
        ({"blame": Blame.CONFIGURATION}, ""),
        ({"fingerprint": ""}, ""),
    ],
)
def test_only_a_failure_that_speaks_of_nothing_else_has_a_cause(
    change: dict[str, Any], cause: str
) -> None:
    assert cause_of(failed(**change)) == cause
    assert cause_of(None) == ""


def test_outcomes_are_gathered_second_by_second() -> None:
    bad = FailedTry("a", "E", 1)
    outcomes = [
        *((START + 1.9, None), (START + 0.5, bad), (START + 1.0, bad), (START + 0.1, None)),
        *((START + 1.5, "b"), (START + 1.7, "b")),
    ]
    assert seconds_of(outcomes) == [
        Second(START, 2, (bad,)),
        Second(START + 1, 2, (bad,), frozenset({"b"})),
    ]


def test_the_history_reaches_an_hour_before_the_window() -> None:
    assert (BUCKETS - 1) * BUCKET >= BEFORE + WINDOW
    causes = replace(NO_CAUSES, totals={bucket_of(START) - BUCKETS: 7})
    assert causes.counting([Second(START, 1)], START).totals == {bucket_of(START): 1}
