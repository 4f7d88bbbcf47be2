"""Which shards of the waiting room a run may empty."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from deadletter.contract import JUDGED_LANES, MAIN_DLQ, MINUTE, dedicated_lane, delay_lane
from deadletter.pace.lane import forget_savings
from deadletter.redrive.fair_shares import NO_SHARES, Shares, after_turns, in_turn, without_lost
from deadletter.redrive.lane_review import REVIEWED_LANES, review_lanes
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.waiting_room import (
    END_OF_TIME,
    FOREVER,
    SHARDS,
    Lane,
    OpenShard,
    is_of_run,
    is_shut,
)
from deadletter.routing.decision import DUE
from deadletter.routing.router import LaneAnswer

LANE_TOUR_SECONDS = 10.0
"""Seconds of a run that go into looking for open shards; the next run goes on from there."""

QUIET_LANE = 86_400.0
"""Seconds after which a releasable lane that is empty is not looked into any more: far longer
than an index lags behind its table."""


@dataclass(frozen=True, slots=True)
class Openings:
    """What a run has found in the waiting room.

    shards      the shards with letters that may leave now
    lanes       the names of all lanes that the run may open
    looked_upto  the last lane looked into, if there was no time for all of them
    """

    shards: Sequence[OpenShard]
    lanes: frozenset[str]
    looked_upto: str | None = None

    def next_shares(self, shares: Shares, served: Collection[str] = ()) -> Shares:
        """Where the next run begins after one that gave turns to these lanes."""
        due = {shard.lane for shard in self.shards}
        after = after_turns(shares, served=served, due=due, looked_upto=self.looked_upto)
        return without_lost(after, self.lanes)


CLOSED = Openings((), frozenset())
"""The waiting room of a run that takes no letter out of it."""


def open_shards(
    setup: RedriverSetup, deadline: float = math.inf, shares: Shares = NO_SHARES
) -> Openings:
    """Looks into the lanes of the waiting room, in the order of their turns.

    Before that, letters are judged again that wait for a rule, if other rules are in force than
    when they were judged; that ends before `deadline` (epoch seconds).

    The run of a dedicated DLQ opens the lane of the letters that were rescued from it. The
    rest of the room belongs to the runs of the main DLQ.
    """
    all_lanes = setup.room.lanes()
    lanes = [lane for lane in all_lanes if _belongs_to(lane.name, setup.home)]
    kept = [lane.name for lane in lanes if lane.name.startswith((*JUDGED_LANES, *REVIEWED_LANES))]
    answer = setup.router.open_lanes(kept) if kept else LaneAnswer(())
    setup.tally.note_bad_rows(answer.bad_rows)
    review_lanes(setup, lanes, answer, deadline)
    releasable = set(answer.open)
    now = setup.clock()
    shards: list[OpenShard] = []
    looked_upto, has_time = "", True
    for lane in _tour(lanes, shares):
        has_time = setup.clock() - now <= LANE_TOUR_SECONDS
        if not has_time:
            break
        looked_upto = lane.name
        until = _opens_until(lane.name, releasable, now)
        rate = answer.rates.get(lane.name)
        looks = [partial(setup.room.due, lane.name, shard, until, 1) for shard in range(SHARDS)]
        shards_of_lane = [
            OpenShard(lane.name, shard, until, rate)
            for shard, entries in enumerate(setup.in_parallel(looks))
            if entries
        ]
        shards += shards_of_lane
        if rate is not None and not shards_of_lane:
            forget_savings(setup.room, lane.name, rate, now)
        if until >= END_OF_TIME and not shards_of_lane and now - lane.touched > QUIET_LANE:
            setup.room.retire(lane)
    if setup.home == MAIN_DLQ and has_time:
        _retire_quiet_lane(setup, all_lanes, now)
    names = frozenset(lane.name for lane in lanes)
    return Openings(shards, names, None if has_time else looked_upto)


def _retire_quiet_lane(setup: RedriverSetup, lanes: Sequence[Lane], now: float) -> None:
    """Retire the lane of one replay run or of a rule's delays that has been empty for long.

    One at each run: those that still hold letters are not looked into by all runs at once.
    """
    quiet = [
        lane
        for lane in lanes
        if (is_of_run(lane.name) or lane.name.startswith(delay_lane("")))
        and now - lane.touched > QUIET_LANE
    ]
    if not quiet:
        return
    lane = quiet[int(now // MINUTE) % len(quiet)]
    looks = [partial(setup.room.due, lane.name, shard, FOREVER, 1) for shard in range(SHARDS)]
    if not any(setup.in_parallel(looks)):
        setup.room.retire(lane)


def _belongs_to(lane: str, home: str) -> bool:
    """Whether the runs of the source `home` may open a lane; the lane `parked` is no run's."""
    return not is_shut(lane) if home == MAIN_DLQ else lane == dedicated_lane(home)


def _opens_until(lane: str, releasable: Collection[str], now: float) -> float:
    """The latest due time with which a letter may leave the lane now."""
    if is_shut(lane):
        return FOREVER
    return END_OF_TIME if lane in releasable else now


def _tour(lanes: Sequence[Lane], shares: Shares) -> list[Lane]:
    """The lanes in the order of their turns, the lane of delays always first."""
    by_name = {lane.name: lane for lane in lanes}
    others = in_turn(shares, by_name.keys() - {DUE})
    return [by_name[name] for name in (*(by_name.keys() & {DUE}), *others)]
