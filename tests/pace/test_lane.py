"""The rate of a THROTTLE rule's lane: how fast, how much is saved, and for whom."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.pace.lane import (
    CATCH_UP,
    GRANT_SECONDS,
    LONGEST_REST,
    SAVED_SECONDS,
    LanePace,
    LanePaid,
    forget_savings,
)
from deadletter.testing.clock import Clock
from tests.each_row import each_row


class OneLane:
    """The row of one lane, which others may change first, or whose answers may get lost."""

    def __init__(self) -> None:
        self.row: LanePaid | None = None
        self.conflicts = 0
        self.lost = False

    def paid(self, lane: str) -> LanePaid | None:
        return self.row

    def note_paid(self, lane: str, before: LanePaid | None, after: LanePaid) -> bool:
        if self.conflicts:
            self.conflicts -= 1
            return False
        if before != self.row:
            return False
        self.row = after
        if self.lost:
            # The write took effect, and its repetition finds another row.
            self.lost = False
            return False
        return True


def paces(rate: float, workers: int = 1) -> tuple[list[LanePace], OneLane, Clock]:
    clock, lane = Clock(), OneLane()
    return [LanePace(lane, "rule:slow", rate, clock) for _ in range(workers)], lane, clock


@given(
    st.floats(0.05, 200),
    st.lists(
        st.tuples(st.floats(0, 400), st.integers(1, 100), st.integers(0, 3), st.booleans()),
        max_size=40,
    ),
)
def test_in_any_window_no_more_letters_go_than_rate_savings_and_catching_up_allow(
    rate: float, steps: list[tuple[float, int, int, bool]]
) -> None:
    """Workers take turns, give back what they did not send, and lose answers."""
    workers, lane, clock = paces(rate, workers=4)
    sent: list[tuple[float, int]] = []
    for number, (passed, wanted, unused, is_lost) in enumerate(steps):
        clock.advance(passed)
        lane.lost = is_lost
        worker = workers[number % 4]
        granted = worker.take(wanted)
        assert granted <= max(1, rate * GRANT_SECONDS)
        unused = min(unused, granted)
        worker.give_back(unused)
        sent.append((clock(), granted - unused))
    for start in range(len(sent)):
        total = 0
        for moment, letters in sent[start:]:
            total += letters
            seconds = moment - sent[start][0]
            assert total <= rate * (seconds + SAVED_SECONDS) + 1.01
            assert total <= CATCH_UP * rate * (seconds + GRANT_SECONDS) + 1.01


@pytest.mark.parametrize("rate", [1.0, 7.0])
def test_a_lane_saves_up_five_minutes(rate: float) -> None:
    [worker], _, clock = paces(rate)
    worker.take(1)
    clock.advance(3_600)
    sent = 0
    for _ in range(600):
        sent += worker.take(100)
        clock.advance(1)
    # What it saved is gone within these ten minutes.
    assert sent == pytest.approx(rate * (300 + 600), abs=2 + 2 * rate)


@pytest.mark.parametrize("rate", [0.1, 1.0, 7.0])
def test_after_a_pause_the_lane_catches_up_and_not_at_once(rate: float) -> None:
    (pace,), _, clock = paces(rate)
    assert pace.take(1) == 1
    clock.advance(100)
    sent = 0
    for _ in range(1_500):
        sent += pace.take(10)
        clock.advance(0.1)
        if clock() < pace.rests_until:
            clock.now = pace.rests_until
    assert sent == pytest.approx(rate * (clock() - Clock()()), abs=3 * rate + 2)


def test_the_first_letter_need_not_wait_and_the_second_does() -> None:
    (pace,), _, clock = paces(2.0)
    assert pace.take(5) == 1
    assert pace.take(5) == 0
    assert pace.rests_until == pytest.approx(clock() + 0.5)
    clock.now = pace.rests_until
    assert pace.take(5) == 1


def test_a_worker_looks_again_within_a_second_however_slow_the_lane_is() -> None:
    (pace,), _, clock = paces(0.001)
    assert (pace.take(1), pace.take(1)) == (1, 0)
    assert pace.rests_until == clock() + LONGEST_REST


@each_row(
    ("rate", "grants", "rest"),
    [(1.0, [2, 2, 2, 0], 1 / 3), (0.4, [1, 1, 0], 0.5), (0.1, [1, 0], 1.0), (0.001, [1, 0], 1.0)],
)
def test_what_was_saved_goes_at_three_times_the_rate(
    rate: float, grants: list[int], rest: float
) -> None:
    (pace,), _, clock = paces(rate)
    pace.take(1)
    clock.advance(86_400)
    assert [pace.take(9) for _ in grants] == grants
    assert pace.rests_until == pytest.approx(clock() + rest, abs=1e-3)


def test_a_lane_that_is_slower_than_a_letter_in_five_minutes_saves_one() -> None:
    (pace,), _, clock = paces(0.001)
    pace.take(1)
    clock.advance(86_400)
    assert pace.take(9) == 1
    clock.advance(999)
    assert pace.take(9) == 0
    clock.advance(0.98)
    assert pace.take(9) == 0
    # A worker does not look again at once.
    assert pace.rests_until == pytest.approx(clock() + 0.05, abs=1e-3)


def test_workers_share_the_rate() -> None:
    (one, other), _, clock = paces(1.0, workers=2)
    assert (one.take(9), other.take(9)) == (1, 0)
    clock.advance(2)
    assert (other.take(1), one.take(9), other.take(9)) == (1, 1, 0)


def test_a_lost_answer_only_wastes() -> None:
    (pace,), lane, clock = paces(1.0)
    pace.take(1)
    clock.advance(4)
    lane.lost = True
    assert pace.take(2) == 2
    # Four were free, and two of them are lost.
    assert pace.take(2) == 0


def test_a_worker_that_others_are_always_ahead_of_rests() -> None:
    (pace,), lane, clock = paces(1.0)
    lane.conflicts = 5
    assert pace.take(1) == 0
    assert pace.rests_until == clock() + LONGEST_REST
    lane.conflicts = 4
    assert pace.take(1) == 1


def test_what_is_given_back_may_go_again() -> None:
    (pace,), _, clock = paces(1.0)
    pace.take(1)
    clock.advance(2)
    assert pace.take(9) == 2
    pace.give_back(1)
    assert pace.take(9) == 1
    pace.give_back(0)
    assert pace.take(9) == 0


def test_to_give_back_nothing_writes_nothing() -> None:
    (pace,), lane, clock = paces(1.0)
    pace.take(1)
    clock.advance(400)
    before = lane.row
    pace.give_back(0)
    assert lane.row is before


def test_a_lane_without_letters_saves_nothing_and_goes_on_at_once() -> None:
    (pace,), lane, clock = paces(1.0)
    forget_savings(lane, "rule:slow", 1.0, clock())
    assert lane.row is None
    pace.take(1)
    clock.advance(200)
    forget_savings(lane, "rule:slow", 1.0, clock())
    assert (pace.take(9), pace.take(9)) == (1, 0)
    # What was not paid yet is not forgiven.
    forget_savings(lane, "rule:slow", 1.0, clock())
    assert pace.take(9) == 0


@pytest.mark.parametrize("far", [1e10, 1e12])
def test_a_row_that_is_far_ahead_does_not_stop_the_lane(far: float) -> None:
    (pace,), lane, clock = paces(1.0)
    lane.row = LanePaid(far, far)
    assert (pace.take(9), pace.take(9)) == (1, 0)
    clock.advance(1)
    assert pace.take(9) == 1


def test_what_is_paid_is_the_same_after_it_was_stored() -> None:
    (pace,), lane, clock = paces(1.0)
    pace.take(1)
    assert lane.row is not None
    assert json.loads(json.dumps([lane.row.saved, lane.row.quick])) == [clock(), clock()]
