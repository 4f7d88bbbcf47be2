"""Which shards of the waiting room a run may empty."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from deadletter.contract import MAIN_DLQ, dedicated_lane
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.waiting_room import END_OF_TIME, FOREVER, SHARDS, Lane, is_shut
from deadletter.redrive.waiting_room_worker import OpenShard
from deadletter.routing.decision import DUE

LANES_A_MINUTE = 100
"""By how many lanes the start of the tour moves on each minute: about what a run has time for."""

LANE_TOUR_SECONDS = 10.0
"""Seconds of a run that go into looking for open shards; the next run starts with other lanes."""

QUIET_LANE = 86_400.0
"""Seconds after which a releasable lane that is empty is not looked into any more: far longer
than an index lags behind its table."""


def open_shards(setup: RedriverSetup) -> list[OpenShard]:
    """The shards with letters that may leave the waiting room now.

    The run of a dedicated DLQ opens the lane of the letters that were rescued from it. The
    rest of the room belongs to the runs of the main DLQ.
    """
    lanes = [lane for lane in setup.room.lanes() if _belongs_to(lane.name, setup.home)]
    kept = [lane.name for lane in lanes if lane.name.startswith(("circuit:", "rule:"))]
    releasable = set(setup.router.releasable_lanes(kept)) if kept else set()
    now = setup.clock()
    shards: list[OpenShard] = []
    for lane in _tour(lanes, now):
        if setup.clock() - now > LANE_TOUR_SECONDS:
            break
        until = _opens_until(lane.name, releasable, now)
        shards_of_lane = [
            OpenShard(lane.name, shard, until)
            for shard in range(SHARDS)
            if setup.room.due(lane.name, shard, until, 1)
        ]
        shards += shards_of_lane
        if until >= END_OF_TIME and not shards_of_lane and now - lane.touched > QUIET_LANE:
            setup.room.retire(lane)
    return shards


def _belongs_to(lane: str, home: str) -> bool:
    """Whether the runs of the source `home` may open a lane; the lane `parked` is no run's."""
    return not is_shut(lane) if home == MAIN_DLQ else lane == dedicated_lane(home)


def _opens_until(lane: str, releasable: Collection[str], now: float) -> float:
    """The latest due time with which a letter may leave the lane now."""
    if is_shut(lane):
        return FOREVER
    return END_OF_TIME if lane in releasable else now


def _tour(lanes: Sequence[Lane], now: float) -> list[Lane]:
    """The lanes in an order that starts elsewhere each minute, the lane of delays always first."""
    delays = [lane for lane in lanes if lane.name == DUE]
    others = [lane for lane in lanes if lane.name != DUE]
    start = int(now // 60) * LANES_A_MINUTE % len(others) if others else 0
    return [*delays, *others[start:], *others[:start]]
