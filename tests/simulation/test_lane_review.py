"""Letters that an edit sets free leave a long lane, however often rules are edited meanwhile."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from deadletter.redrive import lane_review
from deadletter.redrive.waiting_room import LaneReview
from tests.simulation.long_lane import MINUTE, RUN_SECONDS, LongLane

LETTERS = 100_000
IN_TIME = 5 * MINUTE
"""Seconds after an edit within which the letters have left that it sets free."""


def some_of(letters: int) -> list[int]:
    """The first and the last letter of each shard of so many, and others between them."""
    return [*range(8), *range(500, letters, letters // 84), *range(letters - 8, letters)]


def minutes(lane: LongLane, runs: int, *, edits: bool = True) -> float:
    """So many runs, one a minute, with an edit of another rule between two of them.

    Returns the seconds of the longest review.
    """
    took = 0.0
    for _ in range(runs):
        began = lane.clock()
        took = max(took, lane.run())
        if edits:
            lane.edit(f"edit at {began}", at=began + MINUTE / 2)
        lane.clock.now = began + MINUTE
    return took


@pytest.mark.parametrize(
    ("letters", "delay"),
    [
        pytest.param(LETTERS // 5, 0.1, id="by day"),
        pytest.param(LETTERS, 0.1, id="just after a run began", marks=pytest.mark.nightly),
        pytest.param(LETTERS, 59.0, id="just before a run", marks=pytest.mark.nightly),
    ],
)
def test_freed_letters_leave_a_long_lane_within_five_minutes_with_an_edit_each_minute(
    letters: int, delay: float
) -> None:
    freed = some_of(letters)
    lane = LongLane(letters, lag=15)
    # The review is somewhere in the lane.
    minutes(lane, 1)
    edit = lane.clock() + delay
    lane.edit("the hold is narrowed", frees=freed, at=edit)
    took = minutes(lane, 5)
    assert max(lane.left_at.get(number, float("inf")) for number in freed) - edit <= IN_TIME
    assert len(lane.left_at) == len(freed)
    # The other half of each run is for the letters that move.
    assert took <= RUN_SECONDS / 2


@pytest.mark.nightly
def test_a_review_that_each_edit_begins_anew_would_not_reach_them() -> None:
    def anew(_review: LaneReview, edition: str, now: float) -> LaneReview:
        return LaneReview(edition, since=now, began=now)

    lane = LongLane(LETTERS // 4)
    with (
        patch.object(lane_review, "begin_review", anew),
        patch.object(lane_review, "REVIEW_SECONDS", 5.0),
    ):
        edit = lane.clock()
        lane.edit("the hold is narrowed", frees=range(0, LETTERS // 4, 2_000))
        minutes(lane, 10)
    assert len(lane.left_at) < LETTERS / 4 / 2_000
    assert all(at - edit <= MINUTE for at in lane.left_at.values())


def test_a_lane_without_edits_is_gone_through_twice_and_then_left_alone() -> None:
    lane = LongLane(LETTERS // 10)
    judged = []
    for _ in range(4):
        minutes(lane, 1, edits=False)
        judged.append(lane.judged)
    assert judged == [LETTERS // 10, *[LETTERS // 5] * 3]
    assert lane.review.is_done
