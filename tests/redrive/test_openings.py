"""Which lanes of the waiting room open for which run, and until when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.wiring.moving import redriver_for
from deadletter.contract import END_OF_TIME, PARKED_LANE, dedicated_lane, parking_source, run_lane
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.openings import LOOK_AGAIN, QUIET_LANE, SETTLED, Openings, open_shards
from deadletter.redrive.order import Order
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.round_robin import NO_TURN, LastTurn
from deadletter.redrive.waiting_room import (
    FOREVER,
    Lane,
    LaneLook,
    OpenShard,
    WaitingRoomEntry,
    never,
)
from deadletter.routing.decision import DUE, Hold
from deadletter.routing.router import LaneAnswer
from deadletter.testing.clock import Clock
from tests.each_row import each_row
from tests.samples import letter, verdict
from tests.samples import received as taken
from tests.simulation.stage import Stage, in_turn

SLOW_LANE = dedicated_lane("slow")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def setup_of(stage: Stage, home: str = "dlq") -> RedriverSetup:
    redriver = redriver_for(
        stage.pipeline, stage.resources, stage.clients, stage.world, home=home, router=stage.router
    )
    return redriver._setup


def rescued(lane: str, home: str, copy: str = "m1", group: str | None = None) -> Order:
    """The order of a letter that goes from its queue into a lane that no time opens."""
    system = {} if group is None else {"MessageGroupId": group, "SequenceNumber": copy}
    mail = letter(message_id=copy, **system)
    received: ReceivedLetter = taken(mail, home)
    return Order(
        received, Hold(lane, never(mail), "rescued"), verdict(copy, Hold(lane, 0, "")).stamp
    )


def opened(stage: Stage, home: str) -> Sequence[str]:
    return sorted({shard.lane for shard in open_shards(setup_of(stage, home)).shards})


def test_the_lane_of_a_dedicated_dlq_opens_for_the_runs_of_that_dlq_alone(stage: Stage) -> None:
    setup_of(stage).room.admit([rescued(SLOW_LANE, "slow")])
    assert opened(stage, "dlq") == []
    [shard] = open_shards(setup_of(stage, "slow")).shards
    assert (shard.lane, shard.until) == (SLOW_LANE, FOREVER)


def test_the_lane_parked_opens_for_no_run(stage: Stage) -> None:
    setup_of(stage).room.admit([rescued(PARKED_LANE, parking_source("default"))])
    stage.clock.advance(40 * QUIET_LANE)
    for home in ("dlq", "slow"):
        assert opened(stage, home) == []
    assert PARKED_LANE in {lane.name for lane in setup_of(stage).room.lanes()}


def test_a_lane_that_a_router_calls_releasable_stays_shut(stage: Stage) -> None:
    room = setup_of(stage).room
    room.admit([rescued(PARKED_LANE, "parking:default"), rescued(SLOW_LANE, "slow", "m2")])

    class Releasing:
        def decide(self, questions: object) -> object:
            raise AssertionError("no message is judged")

        def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
            return LaneAnswer([*lanes, PARKED_LANE, SLOW_LANE])

    redriver = redriver_for(
        stage.pipeline,
        stage.resources,
        stage.clients,
        stage.world,
        router=Releasing(),  # type: ignore[arg-type]  # only what the openings ask for
    )
    assert open_shards(redriver._setup).shards == []


def test_a_run_of_a_dedicated_dlq_opens_no_other_lane(stage: Stage) -> None:
    late = Hold(DUE, 1.0, "waits")
    order = rescued(SLOW_LANE, "slow")
    setup_of(stage).room.admit([Order(order.received, late, order.stamp)])
    assert opened(stage, "slow") == []
    assert opened(stage, "dlq") == [DUE]


def test_the_empty_lane_of_a_dedicated_dlq_is_retired_after_a_day_and_a_full_one_is_not(
    stage: Stage,
) -> None:
    room = setup_of(stage).room
    room.admit([rescued(SLOW_LANE, "slow")])
    stage.clock.advance(2 * QUIET_LANE)
    assert opened(stage, "slow") == [SLOW_LANE]
    stage.run(home="slow")
    assert len(stage.bodies(stage.main)) == 1
    assert opened(stage, "slow") == []
    assert list(room.lanes()) == []


def test_the_lane_of_a_replay_run_opens_for_no_run_and_is_retired_when_it_is_long_empty(
    stage: Stage,
) -> None:
    room = setup_of(stage).room
    room.admit([rescued(run_lane("a"), "dlq"), rescued(run_lane("b"), "dlq", "m2")])
    contents = room.read([each for s in range(8) for each in room.due("run:b", s, FOREVER, 9)], 1)
    room.delete([(taken, Confirmation("m2", "test")) for taken in contents.letters])
    for _ in range(4):
        assert opened(stage, "dlq") == []
        stage.clock.advance(60)
    assert {lane.name for lane in room.lanes()} == {"run:a", "run:b"}
    stage.clock.advance(QUIET_LANE)
    for _ in range(4):
        assert opened(stage, "dlq") == []
        stage.clock.advance(60)
    assert {lane.name for lane in room.lanes()} == {"run:a"}


def test_letters_that_are_never_due_are_kept_by_age(stage: Stage) -> None:
    young, old = letter(SentTimestamp="2000"), letter(SentTimestamp="1000")
    assert END_OF_TIME < never(old) < never(young) < FOREVER


# A room with many lanes, or slow ones.


class Room:
    """A waiting room whose lanes hold one letter each; each look takes so many seconds."""

    def __init__(self, lanes: Sequence[Lane], clock: Clock, seconds: float = 0.0) -> None:
        self._lanes = lanes
        self._clock = clock
        self._seconds = seconds
        self.empty = False
        self.first_due = 0.0
        self.looked: list[tuple[str, int]] = []
        self.retired: list[str] = []

    def lanes(self) -> Sequence[Lane]:
        return self._lanes

    def due(self, lane: str, shard: int, until: float, most: int) -> Sequence[WaitingRoomEntry]:
        assert (most, until) == (1, FOREVER)
        self.looked.append((lane, shard))
        self._clock.advance(self._seconds)
        entry = WaitingRoomEntry("copy", "place", lane, shard, self.first_due)
        return [] if self.empty or shard != 3 else [entry]

    def note_look(self, lane: Lane, look: LaneLook) -> None:
        self._lanes = [replace(each, look=look) if each == lane else each for each in self._lanes]

    def touch(self, lane: str) -> None:
        """Put a letter into a lane."""
        now = self._clock()
        self._lanes = [
            replace(each, touched=now) if each.name == lane else each for each in self._lanes
        ]

    def retire(self, lane: Lane) -> None:
        self.retired.append(lane.name)


class Releases:
    """A router that calls some lanes releasable, and keeps what it was asked about."""

    def __init__(self, *releasable: str) -> None:
        self._releasable = releasable
        self.asked: list[Sequence[str]] = []

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        self.asked.append(lanes)
        return LaneAnswer(self._releasable)


def openings_of(
    room: Room, clock: Clock, router: Releases | None = None, last: LastTurn = NO_TURN
) -> Openings:
    given: Any = {"room": room, "router": router or Releases(), "clock": clock}
    setup = replace(setup_of(Stage()), in_parallel=in_turn, **given)
    return open_shards(setup, last=last)


def lanes(*names: str, touched: float = 1_000.0) -> list[Lane]:
    return [Lane(name, touched) for name in names]


def test_each_of_the_eight_shards_is_looked_into_and_those_with_letters_open() -> None:
    clock = Clock(1_000.0)
    room = Room(lanes(DUE), clock)
    found = openings_of(room, clock)
    assert room.looked == [(DUE, shard) for shard in range(8)]
    assert found == Openings([OpenShard(DUE, 3, 1_000.0)])


def test_a_lane_opens_for_good_when_it_is_releasable_and_until_now_otherwise() -> None:
    clock = Clock(1_000.0)
    router = Releases("circuit:a", "rule:b")
    names = ("circuit:a", "circuit:c", DUE, "rule:b")
    found = openings_of(Room(lanes(*names), clock), clock, router)
    assert [(shard.lane, shard.until) for shard in found.shards] == [
        (DUE, 1_000.0),
        ("circuit:a", END_OF_TIME),
        ("circuit:c", 1_000.0),
        ("rule:b", END_OF_TIME),
    ]
    # The lane of delays is no router's.
    assert router.asked == [["circuit:a", "circuit:c", "rule:b"]]


def test_the_router_is_not_asked_where_only_delays_are_served() -> None:
    clock, router = Clock(1_000.0), Releases()
    openings_of(Room(lanes(DUE), clock), clock, router)
    assert router.asked == []


@pytest.mark.parametrize(
    ("seconds", "looked", "upto"),
    [
        # Eight looks into a lane: after ten seconds one more lane is begun, later none.
        (1.0, [DUE, "circuit:a"], "circuit:a"),
        (1.25, [DUE, "circuit:a"], "circuit:a"),
        (1.26, [DUE], DUE),
        (0.1, [DUE, "circuit:a", "circuit:b", "circuit:c"], None),
    ],
)
def test_ten_seconds_of_a_run_go_into_looking(
    seconds: float, looked: list[str], upto: str | None
) -> None:
    clock = Clock(1_000.0)
    room = Room(lanes("circuit:b", "circuit:c", DUE, "circuit:a"), clock, seconds)
    found = openings_of(room, clock)
    assert list(dict.fromkeys(lane for lane, _ in room.looked)) == looked
    assert found.looked_upto == upto


def test_lanes_are_looked_into_from_the_one_whose_turn_it_is() -> None:
    clock = Clock(1_000.0)
    room = Room(lanes("circuit:a", "circuit:b", DUE, "circuit:c"), clock)
    found = openings_of(room, clock, last=LastTurn(lane="circuit:a"))
    expected = [DUE, "circuit:b", "circuit:c", "circuit:a"]
    assert [shard.lane for shard in found.shards] == expected


@each_row(
    ("lane", "age", "empty", "retired"),
    [
        ("circuit:a", 86_401.0, True, True),
        ("circuit:a", 86_400.0, True, False),
        ("circuit:a", 86_401.0, False, False),
        # It may hold letters that are not due yet.
        ("circuit:shut", 86_401.0, True, False),
        (DUE, 86_401.0, True, False),
    ],
)
def test_a_lane_that_was_empty_for_a_day_is_not_looked_into_any_more(
    lane: str, age: float, empty: bool, retired: bool
) -> None:
    clock = Clock(1_000_000.0)
    room = Room(lanes(lane, touched=1_000_000.0 - age), clock)
    room.empty = empty
    openings_of(room, clock, Releases("circuit:a"))
    assert room.retired == ([lane] if retired else [])


def test_the_next_run_goes_on_where_there_was_no_time() -> None:
    last = LastTurn(lane="circuit:a")
    found = Openings([OpenShard("circuit:b", 0, 1.0)], "circuit:b")
    # A lane that is due and had no turn comes first.
    assert found.after(last).lane == "circuit:a"
    assert found.after(last, {"circuit:b"}).lane == "circuit:b"


def test_a_room_without_lanes_was_looked_into_to_its_end() -> None:
    clock = Clock(1_000.0)
    assert openings_of(Room([], clock), clock).looked_upto is None


NOW = 1_000_000.0


def many_lanes(clock: Clock, number: int = 1_000) -> Room:
    """A room of so many lanes of circuits that were used an hour ago."""
    names = [f"circuit:{each}" for each in range(number)]
    return Room(lanes(*names, touched=clock() - 3_600), clock)


def test_a_thousand_empty_lanes_cost_a_run_nothing_after_the_first_that_has_seen_them() -> None:
    clock = Clock(NOW)
    room, router = many_lanes(clock), Releases("circuit:7")
    room.empty = True
    openings_of(room, clock, router)
    assert len(room.looked) == 8_000
    for _ in range(10):
        room.looked.clear()
        router.asked.clear()
        clock.advance(60)
        openings_of(room, clock, router)
        assert (room.looked, router.asked) == ([], [])
    room.touch("circuit:7")
    room.empty = False
    assert openings_of(room, clock, router).shards == [OpenShard("circuit:7", 3, END_OF_TIME)]
    assert len(room.looked) == 8


def test_a_lane_whose_letters_wait_is_looked_into_when_they_are_due_or_it_opens() -> None:
    clock = Clock(NOW)
    room = Room(lanes("circuit:a", touched=NOW - 3_600), clock)
    room.first_due = NOW + 600
    assert openings_of(room, clock).shards == []
    room.looked.clear()
    clock.advance(599)
    assert (openings_of(room, clock).shards, room.looked) == ([], [])
    released = [OpenShard("circuit:a", 3, END_OF_TIME)]
    assert openings_of(room, clock, Releases("circuit:a")).shards == released
    clock.advance(1)
    assert openings_of(room, clock).shards == [OpenShard("circuit:a", 3, NOW + 600)]


@each_row(
    ("touched", "look"),
    [
        # Letters may have come that its index did not show.
        (NOW - SETTLED, LaneLook(NOW, math.inf)),
        (NOW - 60, LaneLook(NOW - 3_600, math.inf)),
        # Its row may be wrong: no letter is hidden for longer.
        (0.0, LaneLook(NOW - LOOK_AGAIN, math.inf)),
        (NOW - 1_000, LaneLook(NOW - 500, math.inf)),
        (0.0, LaneLook(NOW + 1, math.inf)),
        (0.0, LaneLook(math.nan, math.inf)),
        (0.0, LaneLook(NOW - 60, math.nan)),
        (math.inf, LaneLook(NOW - 60, math.inf)),
    ],
)
def test_a_look_that_may_be_wrong_is_not_believed(touched: float, look: LaneLook) -> None:
    clock = Clock(NOW)
    room = Room([Lane("circuit:a", touched, look=look)], clock)
    assert openings_of(room, clock, Releases("circuit:a")).shards != []


def test_lanes_that_were_used_together_are_looked_into_one_after_the_other() -> None:
    clock = Clock(NOW)
    room = many_lanes(clock, 250)
    room.empty = True
    looks = []
    for _ in range(12 * 60):
        room.looked.clear()
        openings_of(room, clock)
        looks.append(len(room.looked))
        clock.advance(60)
    # A letter that the index shows late is found: each lane is looked into several times.
    assert looks[0] == 2_000
    assert 4 * 2_000 <= sum(looks[1:]) <= 6 * 2_000
    assert max(looks[1:]) <= 200
    assert sum(looks[-240:]) <= 240 * 50 / 4


def test_a_lane_that_was_just_used_keeps_no_look() -> None:
    clock = Clock(NOW)
    room = Room(lanes("circuit:a", touched=NOW - SETTLED), clock)
    room.empty = True
    openings_of(room, clock)
    [lane] = room.lanes()
    assert lane.look is None
