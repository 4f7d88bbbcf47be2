"""Which shards of the waiting room a run may empty."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from deadletter.contract import (
    END_OF_TIME,
    HOUR,
    JUDGED_LANES,
    MAIN_DLQ,
    MINUTE,
    dedicated_lane,
    delay_lane,
)
from deadletter.pace.lane import forget_savings
from deadletter.redrive.lane_review import REVIEWED_LANES, review_lanes
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.round_robin import LANES, NO_TURN, LastTurn, in_turn, kind_of
from deadletter.redrive.waiting_room import (
    FOREVER,
    SHARDS,
    Lane,
    LaneLook,
    OpenShard,
    is_of_run,
    is_shut,
)
from deadletter.routing.decision import DUE
from deadletter.routing.router import LaneAnswer

LANE_TOUR_SECONDS = 10.0
"""Seconds of a run that go into looking for open shards; the next run goes on from there."""

SETTLED = 6.0 * MINUTE
"""Seconds after a lane was touched from which a look is believed: its letters come within a minute
of that, and its index lags by seconds."""

LOOK_AGAIN = 4.0 * HOUR
"""Seconds that a look is believed at most: a row that is wrong hides no letter for longer."""

QUIET_LANE = 86_400.0
"""Seconds after which a releasable lane that is empty is not looked into any more: far longer
than an index lags behind its table."""


@dataclass(frozen=True, slots=True)
class Openings:
    """What a run has found in the waiting room.

    shards      the shards with letters that may leave now
    looked_upto  the last lane looked into, if there was no time for all of them
    """

    shards: Sequence[OpenShard]
    looked_upto: str | None = None

    def after(self, last: LastTurn, served: Collection[str] = ()) -> LastTurn:
        """Where the next run begins after one that gave turns to these lanes.

        If a run had time to look into some lanes only, and each of them that was due has had a
        turn, the next run looks into the others.
        """
        waiting = {shard.lane for shard in self.shards} - {DUE, *served}
        if self.looked_upto is None or waiting or kind_of(self.looked_upto) != LANES:
            return last
        return LastTurn(last.kind, self.looked_upto)


CLOSED = Openings(())
"""The waiting room of a run that takes no letter out of it."""


def open_shards(
    setup: RedriverSetup, deadline: float = math.inf, last: LastTurn = NO_TURN
) -> Openings:
    """Looks into the lanes of the waiting room, in the order of their turns.

    Before that, letters are judged again that wait for a rule, if other rules are in force than
    when they were judged; that ends before `deadline` (epoch seconds).

    The run of a dedicated DLQ opens the lane of the letters that were rescued from it. The
    rest of the room belongs to the runs of the main DLQ.
    """
    all_lanes = setup.room.lanes()
    names = frozenset(lane.name for lane in all_lanes if _belongs_to(lane.name, setup.home))
    now = setup.clock()
    # Nothing opens a lane that is known to be empty.
    lanes = [each for each in all_lanes if each.name in names and _first_due(each, now) != math.inf]
    kept = [lane.name for lane in lanes if lane.name.startswith((*JUDGED_LANES, *REVIEWED_LANES))]
    answer = setup.router.open_lanes(kept) if kept else LaneAnswer(())
    setup.tally.note_bad_rows(answer.bad_rows)
    review_lanes(setup, lanes, answer, deadline)
    releasable = set(answer.open)
    now = setup.clock()
    shards: list[OpenShard] = []
    looked_upto, has_time = "", True
    for lane in _tour(lanes, last):
        has_time = setup.clock() - now <= LANE_TOUR_SECONDS
        if not has_time:
            break
        looked_upto = lane.name
        until, rate = _opens_until(lane.name, releasable, now), answer.rates.get(lane.name)
        if rate is None and _first_due(lane, now) > until:
            continue
        due = _look_into(setup, lane.name)
        shards_of_lane = [
            OpenShard(lane.name, shard, until, rate)
            for shard, first_due in enumerate(due)
            if first_due <= until
        ]
        shards += shards_of_lane
        if rate is not None and not shards_of_lane:
            forget_savings(setup.room, lane.name, rate, now)
        if until >= END_OF_TIME and not shards_of_lane and now - lane.touched > QUIET_LANE:
            setup.room.retire(lane)
        elif rate is None and not shards_of_lane and now - lane.touched > SETTLED:
            setup.room.note_look(lane, LaneLook(now, min(due)))
    if setup.home == MAIN_DLQ and has_time:
        _retire_quiet_lane(setup, all_lanes, now)
    return Openings(shards, None if has_time else looked_upto)


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
    if min(_look_into(setup, lane.name)) == math.inf:
        setup.room.retire(lane)


def _look_into(setup: RedriverSetup, lane: str) -> Sequence[float]:
    """When the first letter of each shard of a lane is due; infinite in an empty one."""
    looks = [partial(setup.room.due, lane, shard, FOREVER, 1) for shard in range(SHARDS)]
    return [entries[0].due if entries else math.inf for entries in setup.in_parallel(looks)]


def _first_due(lane: Lane, now: float) -> float:
    """Before which time no letter of a lane is due, as far as a look is believed.

    It is for as long as the lane had been quiet, so that a letter which its index shows late
    leaves no later than that again; for half of that in some lanes, so that not all are looked
    into at once.
    """
    look = lane.look
    if look is None or not lane.touched + SETTLED < look.at <= now:
        return -math.inf
    share = 0.5 + hashlib.blake2b(lane.name.encode(), digest_size=1).digest()[0] / 512
    until = look.at + min(LOOK_AGAIN, share * (look.at - lane.touched))
    return look.first_due if now < until else -math.inf


def _belongs_to(lane: str, home: str) -> bool:
    """Whether the runs of the source `home` may open a lane; the lane `parked` is no run's."""
    return not is_shut(lane) if home == MAIN_DLQ else lane == dedicated_lane(home)


def _opens_until(lane: str, releasable: Collection[str], now: float) -> float:
    """The latest due time with which a letter may leave the lane now."""
    if is_shut(lane):
        return FOREVER
    return END_OF_TIME if lane in releasable else now


def _tour(lanes: Sequence[Lane], last: LastTurn) -> list[Lane]:
    """The lanes in the order of their turns, the lane of delays always first."""
    by_name = {lane.name: lane for lane in lanes}
    others = in_turn(last, by_name.keys() - {DUE})
    return [by_name[name] for name in (*(by_name.keys() & {DUE}), *others)]
