"""Letters that a person calls back, as the redriver's function is asked for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from deadletter.redrive.recall import MOST_RECALLED, RecallRefused, recall, to_request
from deadletter.redrive.waiting_room import RoomUnavailable, WaitingRoomEntry
from tests.each_row import each_row

T = TypeVar("T")

PLACE = json.dumps(["orders#message#a", "message"])
GROUP = json.dumps(["orders#group#dlq#0f", "0001#a", "waiting/orders/a"])


class Room:
    """A room that notes what is called back. Letters in lane "gone" have left it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, float]] = []

    def recall(self, entry: WaitingRoomEntry, due: float) -> bool:
        if entry.lane == "down":
            raise RoomUnavailable("dynamodb: ThrottlingException")
        self.asked.append((entry.place, entry.lane, due))
        return entry.lane != "gone"


def one_by_one(calls: Sequence[Callable[[], T]]) -> list[T]:
    return [call() for call in calls]


def ask(asked: Any, room: Room) -> Any:
    return recall(asked, "orders", room, clock=lambda: 100.0, in_parallel=one_by_one)


def test_letters_are_due_now_and_those_that_left_are_not_counted() -> None:
    entries = [
        WaitingRoomEntry("a", PLACE, "due", 3, 4e9),
        WaitingRoomEntry("b", GROUP, "gone", 0, 1),
    ]
    room = Room()
    assert ask(to_request(entries), room) == {"recalled": 1}
    assert room.asked == [(PLACE, "due", 100.0), (GROUP, "gone", 100.0)]


def test_what_a_table_does_not_answer_is_said_and_the_others_are_due() -> None:
    room = Room()
    assert ask([[PLACE, "down"], [PLACE, "due"]], room) == {
        "recalled": 1,
        "trouble": "dynamodb: ThrottlingException",
    }


@each_row(
    "asked",
    [
        *(None, [], {}, "due", 7),
        [[PLACE, "due"]] * (MOST_RECALLED + 1),
        *([[PLACE]], [[PLACE, 7]], [PLACE], [None]),
        # No letter of this pipeline.
        *(
            [[json.dumps([key, "x"]), "due"]]
            for key in ("theirs#message#a", "orders#ledger#a", "orders#runs")
        ),
        *(
            [[place, "due"]]
            for place in ("", "[", "{}", '["orders#message#a"]', "[1, 2]", "[" * 9_000)
        ),
        # No recall opens these.
        *([[PLACE, lane]] for lane in ("parked", "run:4f0c", "dedicated:slow")),
    ],
)
def test_a_request_that_is_none_changes_nothing(asked: Any) -> None:
    room = Room()
    with pytest.raises(RecallRefused):
        ask(asked, room)
    assert room.asked == []
