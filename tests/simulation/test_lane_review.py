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

FREED = [*range(8), *range(500, LETTERS, LETTERS // 84), *range(LETTERS - 8, LETTERS)]
"""The first and the last letter of each shard, and others between them."""


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


def left_after(lane: LongLane, edit: float) -> list[float]:
    """How long after an edit each freed letter left; those that stay have left never."""
    return sorted(lane.left_at.get(number, float("inf")) - edit for number in FREED)


@pytest.mark.slow_because("a lane of 100,000 letters")
@pytest.mark.parametrize(
    "delay",
    [
        pytest.param(0.1, id="just after a run began"),
        pytest.param(59.0, id="just before a run", marks=pytest.mark.nightly),
    ],
)
def test_freed_letters_leave_a_long_lane_within_five_minutes_with_an_edit_each_minute(
    delay: float,
) -> None:
    lane = LongLane(LETTERS, lag=15)
    # The review is somewhere in the lane.
    minutes(lane, 1)
    edit = lane.clock() + delay
    lane.edit("the hold is narrowed", frees=FREED, at=edit)
    took = minutes(lane, 5)
    assert left_after(lane, edit)[-1] <= IN_TIME
    assert len(lane.left_at) == len(FREED)
    # The other half of each run is for the letters that move.
    assert took <= RUN_SECONDS / 2


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
