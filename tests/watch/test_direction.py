"""Whether the letters become more or fewer, over the last ten looks."""

from __future__ import annotations

from deadletter.watch.observation import LaneState
from deadletter.watch.queues import direction, with_depth
from tests.each_row import each_row
from tests.watch.minutes import BEGIN, Minutes


@each_row(
    ("depths", "expected"),
    [
        ([], ""),
        (range(9), ""),
        ([100] * 10, "flat"),
        ([0] * 10, "flat"),
        ([0] * 9 + [1], "rising"),
        ([1] + [0] * 9, "falling"),
        ([100] * 5 + [120] * 5, "flat"),
        ([100] * 5 + [121] * 5, "rising"),
        ([100] * 5 + [80] * 5, "flat"),
        ([100] * 5 + [79] * 5, "falling"),
        ([0, 200] * 5, "rising"),
    ],
)
def test_the_last_five_looks_are_compared_with_the_five_before(
    depths: list[int], expected: str
) -> None:
    assert direction(depths) == expected


def test_ten_looks_are_remembered() -> None:
    depths: tuple[int, ...] = ()
    for depth in range(30):
        depths = with_depth(depths, depth)
    assert depths == tuple(range(20, 30))


def test_the_direction_follows_the_letters() -> None:
    minutes = Minutes()
    minutes.pass_minutes(20)
    for depth in (10, 20, 40, 80):
        minutes.letters["dlq"] = depth
        minutes.pass_minutes(1)
    assert minutes.row is not None
    assert minutes.row.direction == "rising"
    minutes.pass_minutes(10)
    assert minutes.row.direction == "flat"
    minutes.letters["dlq"] = 3
    minutes.pass_minutes(3)
    assert minutes.row.direction == "falling"


def test_letters_of_the_room_count_and_a_queue_that_was_not_read_does_not() -> None:
    minutes = Minutes(letters={"dlq": 10})
    minutes.lanes = {"due": LaneState(5, BEGIN + 1e6), "parked": LaneState(99, 1e18)}
    minutes.pass_minutes(2)
    assert minutes.row is not None
    assert minutes.row.depths == (15, 15)
    minutes.unreadable = {"dlq"}
    minutes.pass_minutes(3)
    assert minutes.row.depths == (15, 15)
