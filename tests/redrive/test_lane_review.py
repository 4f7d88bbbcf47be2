"""When a lane is reviewed, from where on, and what becomes of the letters in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import Reason, delay_lane, rule_lane
from deadletter.redrive import lane_review
from deadletter.redrive.lane_review import (
    SETTLED,
    begin_review,
    due_after,
    end_review,
    pending_reviews,
)
from deadletter.redrive.waiting_room import (
    NOT_REVIEWED,
    SHARDS,
    Lane,
    LaneReview,
    RoomContents,
    WaitingRoomEntry,
)
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.router import LaneAnswer
from tests.each_row import each_row
from tests.simulation.long_lane import LANE, MINUTE, LongLane

NOW = 1e9
HELD, DELAYED = rule_lane("stop"), delay_lane("later")


def entry(shard: int, copy: str = "m", due: float = NOW + 10) -> WaitingRoomEntry:
    return WaitingRoomEntry(copy, copy, HELD, shard, due)


ALL_ENDED: dict[int, WaitingRoomEntry | None] = dict.fromkeys(range(SHARDS))
DONE = LaneReview("now", since=NOW - 500, is_done=True, at=NOW - 400)
UNDER_WAY = LaneReview(
    "now", since=NOW - 90, began=NOW - 60, finished=frozenset({1}), reached={0: entry(0)}, at=NOW
)


# Which lanes are reviewed.


def names(lanes: Sequence[Lane], answer: LaneAnswer) -> list[str]:
    return [lane.name for lane in pending_reviews(lanes, answer, NOW)]


@each_row(
    ("review", "is_pending"),
    [
        (NOT_REVIEWED, True),
        (DONE, False),
        (replace(DONE, edition="before"), True),
        (UNDER_WAY, True),
        (replace(UNDER_WAY, edition="before"), True),
        # Between two passes: the second begins when all routers have the rules.
        (LaneReview("now", since=NOW - SETTLED + 1, at=NOW), False),
        (LaneReview("now", since=NOW - SETTLED, at=NOW), True),
    ],
)
def test_a_lane_is_reviewed_until_a_pass_is_done_by_the_rules_of_now(
    review: LaneReview, is_pending: bool
) -> None:
    lanes = [Lane(HELD, NOW, review)]
    assert names(lanes, LaneAnswer((), edition="now")) == ([HELD] if is_pending else [])


def test_lanes_of_no_rule_open_lanes_and_lanes_of_invalid_rules_are_left_alone() -> None:
    lanes = [
        Lane(name, NOW) for name in ("due", "parked", "circuit:a", "rule:open", "rule:bad", HELD)
    ]
    answer = LaneAnswer(["rule:open"], ["rule:bad"], edition="now")
    assert names(lanes, answer) == [HELD]


def test_without_an_edition_no_lane_is_reviewed() -> None:
    assert names([Lane(HELD, NOW)], LaneAnswer(())) == []


# How a pass goes on and ends.


def test_a_first_review_begins_now() -> None:
    assert begin_review(NOT_REVIEWED, "now", NOW) == LaneReview("now", since=NOW, began=NOW)


def test_a_pass_under_way_goes_on_where_it_is_when_the_rules_change() -> None:
    assert begin_review(UNDER_WAY, "later", NOW) == replace(UNDER_WAY, edition="later", since=NOW)


def test_a_pass_under_way_goes_on_where_it_is() -> None:
    assert begin_review(UNDER_WAY, "now", NOW) == UNDER_WAY


def test_a_lane_that_was_done_begins_anew_with_other_rules() -> None:
    assert begin_review(DONE, "later", NOW) == LaneReview("later", since=NOW, began=NOW, at=DONE.at)


def test_a_pass_keeps_how_far_each_shard_is() -> None:
    after = end_review(UNDER_WAY, {0: entry(0, "further"), 2: entry(2), 3: None}, NOW + 5)
    assert after == replace(
        UNDER_WAY,
        finished=frozenset({1, 3}),
        reached={0: entry(0, "further"), 2: entry(2)},
        at=NOW + 5,
    )


def test_a_shard_that_ends_is_not_reached_any_more() -> None:
    after = end_review(UNDER_WAY, {0: None}, NOW)
    assert (after.finished, after.reached) == ({0, 1}, {})


@pytest.mark.parametrize(("age", "is_done"), [(0.0, False), (29.9, False), (30.0, True)])
def test_a_pass_is_the_last_if_it_began_when_all_routers_had_the_rules(
    age: float, is_done: bool
) -> None:
    review = LaneReview("now", since=NOW, began=NOW + age)
    after = end_review(review, ALL_ENDED, NOW + 40)
    assert after == LaneReview("now", since=NOW, is_done=is_done, at=NOW + 40)


def test_a_pass_that_began_before_an_edit_is_not_the_last() -> None:
    review = begin_review(replace(UNDER_WAY, began=NOW - 900), "later", NOW)
    assert not end_review(review, ALL_ENDED, NOW + 5).is_done


def test_a_pass_that_an_edit_has_overtaken_is_followed_by_another_in_the_same_run() -> None:
    lane = LongLane(80)
    lane.review = LaneReview("first", since=NOW - 300, began=NOW - 60)
    lane.edit("narrowed", frees=[3])
    lane.run()
    assert lane.judged == 2 * 80
    assert lane.review.since >= NOW
    assert not lane.review.began


# What is read, and what is written.


def test_a_run_that_has_no_time_reviews_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_review, "REVIEW_SECONDS", 0.0)
    lane = LongLane(80)
    lane.run()
    assert (lane.judged, lane.review) == (0, NOT_REVIEWED)


class LargeLetters(LongLane):
    """Letters of which the room reads ten at a time, each time for two seconds."""

    def read_in_parts(
        self, entries: Sequence[WaitingRoomEntry], locked_until: float, in_parallel: object
    ) -> Iterator[RoomContents]:
        for first in range(0, len(entries), 10):
            self.clock.now += 2.0
            yield from super().read_in_parts(entries[first : first + 10], locked_until, None)


def test_a_review_of_large_letters_keeps_its_time_and_goes_on_behind_the_last_one_read() -> None:
    lane = LargeLetters(8 * 200)
    took = lane.run()
    assert took < lane_review.REVIEW_SECONDS + 5
    read = lane.judged
    assert 0 < read < 1_600
    assert {shard: int(at.copy) for shard, at in lane.review.reached.items()} == {
        shard: shard + read - SHARDS for shard in range(SHARDS)
    }
    lane.run()
    assert lane.judged == 1_600
    assert not lane.review.began


def test_a_page_without_a_letter_that_can_be_read_does_not_stop_the_pass() -> None:
    class Broken(LongLane):
        def read_in_parts(self, *_: Any) -> Iterator[RoomContents]:
            yield RoomContents([], 100)

    lane = Broken(8 * 250)
    lane.run()
    assert lane.judged == 0
    assert lane.review.edition == "first"
    assert not lane.review.began


def test_only_letters_whose_due_time_changes_are_written() -> None:
    lane = LongLane(800)
    lane.edit("narrowed", frees=range(0, 800, 10))
    lane.run()
    assert sorted(lane.left_at) == [*range(0, 800, 10)]
    lane.clock.now += MINUTE
    lane.run()
    assert len(lane.left_at) == 80


def test_lanes_share_the_time_and_the_one_that_waits_longest_is_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane_review, "REVIEW_SECONDS", 4.0)
    lane, asked = LongLane(8_000), list[str]()
    reviews = {LANE: replace(NOT_REVIEWED, at=7.0), DELAYED: replace(NOT_REVIEWED, at=5.0)}

    def due(name: str, *options: Any) -> Sequence[WaitingRoomEntry]:
        asked.append(name)
        return LongLane.due(lane, name, *options)

    setup: Any = lane.setup()
    monkeypatch.setattr(lane, "due", due)
    monkeypatch.setattr(lane, "note_review", lambda *noted: asked.append("noted"))
    lanes = [Lane(name, NOW, review) for name, review in reviews.items()]
    lane_review.review_lanes(setup, lanes, LaneAnswer((), edition="first"), NOW + 100)
    assert [*dict.fromkeys(asked)] == [DELAYED, "noted", LANE]
    assert asked.count("noted") == 2
    assert lane.clock() - NOW < 6


# When a letter is due.

PARKED = Park(Reason.EXPIRED, "old")


@each_row(
    ("decision", "lane", "due", "expected"),
    [
        (Hold(HELD, NOW + 90, ""), HELD, NOW + 90, None),
        (Hold(HELD, NOW + 94, ""), HELD, NOW + 90, None),
        (Hold(HELD, NOW + 50, ""), HELD, NOW + 90, NOW + 50),
        (Hold(HELD, NOW + 500, ""), HELD, NOW + 90, None),
        (Hold(DELAYED, NOW + 500, ""), DELAYED, NOW + 90, NOW + 500),
        (Hold(DELAYED, NOW + 500, ""), DELAYED, NOW - 1, None),
        (Hold(DELAYED, NOW + 500, ""), HELD, NOW + 90, NOW),
        (Redrive(0, ""), HELD, NOW + 90, NOW),
        (Redrive(30, ""), HELD, NOW + 90, NOW + 30),
        (Redrive(300, ""), HELD, NOW + 90, None),
        (Divert("slow", ""), HELD, NOW + 90, NOW),
        (PARKED, HELD, NOW + 90, NOW),
        (PARKED, HELD, NOW - 5, None),
    ],
)
def test_a_letter_is_due_when_what_is_decided_now_says_so(
    decision: Decision, lane: str, due: float, expected: float | None
) -> None:
    assert due_after(decision, lane, due, NOW) == expected
