"""How fast calls may go to one dependency that is neither well nor dead: the one law of rates.

A pace begins when a circuit closes after an outage, or when a dependency throttles. It is the
bucket of `rate.py`: `utat` is when all calls let through so far are paid for. A message that finds
no call left has a place in the row of those that wait: `ptat` is when all places promised so far
have passed.

The limit changes each CHANGE_SECONDS at most, by what all calls of the last SIGN_SECONDS showed:

    over 20 % throttled            limit = 1.1 x accepted a second; not below the limit
                                   x the share accepted, nor below half
    over 40 % failed, 3 or more    limit = 0.7 x limit, not below 0.2 x normal
    8 to 20 % throttled            limit stays
    60 % of the limit used, or     limit = 1.25 x limit, to the cap (1.06 x soon after a fall)
      places 15 seconds away

In any window the processes are granted at most limit x (window + the clocks' skew) + burst;
the burst is BURST_SECONDS of the limit, one call at least, and AHEAD_SECONDS more for whole groups.
A grant whose answer is lost, or that is not used within TOKEN_SECONDS, is wasted. A pace ends when
no message has waited for IDLE_SECONDS.

All times are epoch seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from deadletter.pace.rate import SKEW_SECONDS, Rate

BURST_SECONDS = 1.0
CHANGE_SECONDS = 5.0
SIGN_SECONDS = 15.0
TOKEN_SECONDS = 3.0
IDLE_SECONDS = 90.0

WHOLE_SECONDS = 30.0
"""For which the calls of a whole group are good: they are made one after the other."""

AHEAD_SECONDS = 5.0
"""For which they are paid for ahead at most: further ahead a clock that is behind takes it for a
wrong row's."""

CALLS_SECONDS = 5.0
"""Seconds that one count of calls covers."""

REPORT_SECONDS = 2.0
"""Until most processes have reported a call."""

KEPT_CALLS = 4
"""Counts that are kept: those behind them are in no decision."""

FEW, MANY = 0.08, 0.2
"""Shares of throttled calls between which the limit stays. A dependency that counts whole seconds
throttles some at any limit near its own: with fewer, a sixth of what it accepts lay idle."""

ABOVE = 1.1
"""A dependency that throttles is asked so much more than it accepts: else nothing would show that
it accepts more by now."""

LEAST_OF_FALL = 0.5
"""Of the limit before, where calls are throttled."""

FLOOR = 0.2
"""Calls a second that are let through at the least: else nothing would show that it is well."""

MOST = 1_000_000.0
"""Calls a second: a row that says more is wrong."""

LEAST_SHARE = 0.2
"""Of the normal rate; failures alone bring the limit no lower."""

FIRST_SHARE = 0.5
"""Of the normal rate: the limit with which a dependency comes back."""

CATCH_UP, TOP = 1.8, 3.75
"""The cap after an outage, in normal rates: at first, and at last while nothing fails."""

CAP_STEP, FIRST_STEP_SECONDS, STEP_SECONDS = 1.15, 60.0, 20.0
"""How the cap rises from one to the other. Small steps: one that is too high is noticed within
seconds, and twice the normal rate is hardly passed meanwhile."""

HOLD_SECONDS = 60.0
"""After a step that was too high."""

REMEMBERED_SECONDS = 600.0
"""A pace that a trip has ended begins again where it was, if that was so recently."""

NOTED_SECONDS = 20.0
"""That messages wait is noted so often at most."""

KEPT_BURST = 0.25
"""Of the burst, for messages that return. More would lie idle: no batch asks before it is full."""

WORTH_ASKING = 0.25
"""Of the burst: as many calls as a batch wants, or these, are free before it asks."""

LONGEST_PLACE, SHORTEST_LONG_PLACE = 240.0, 96.0
"""Seconds that a message is hidden at most. Longer waits are drawn from between the two: equal
ones would return in one heap, while the dependency idles before."""

THROTTLED, CLOSED = "it throttles", "it comes back"


@dataclass(frozen=True, slots=True)
class CallCount:
    """The calls of CALLS_SECONDS, retries too: load is load."""

    number: int
    ok: int = 0
    failed: int = 0
    throttled: int = 0

    @property
    def total(self) -> int:
        return self.ok + self.failed + self.throttled

    def and_also(self, other: CallCount) -> CallCount:
        """The sum of two counts of the same seconds."""
        return CallCount(
            self.number,
            self.ok + other.ok,
            self.failed + other.failed,
            self.throttled + other.throttled,
        )


def calls_number(moment: float) -> int:
    """The number of the count that a moment belongs to."""
    return int(moment // CALLS_SECONDS)


@dataclass(frozen=True, slots=True)
class CallPace:
    """The pace of one dependency, as its row has it.

    limit    calls a second
    normal   calls a second in quiet times; 0 if unknown
    since    when it began, and `because` why
    changed  when the limit was last changed
    turn     grows with each write: a write is for one turn alone
    cap      the most that the limit rises to; None without one
    utat     when all calls let through so far are paid for
    ptat     when all places promised so far have passed
    fell     when the limit last fell, 0 if it has not
    stepped  when the cap last changed; in the future while it is held
    waited   when a message last had to wait
    """

    limit: float
    normal: float
    since: float
    changed: float
    turn: int = 1
    cap: float | None = None
    utat: float = 0.0
    ptat: float = 0.0
    fell: float = 0.0
    stepped: float = 0.0
    waited: float = 0.0
    because: str = CLOSED

    def is_on(self, now: float) -> bool:
        """Whether it limits calls: messages wait or have lately, or it has just begun."""
        began = max(_past(self.since, now), _past(self.waited, now))
        return began + IDLE_SECONDS > now or self.waits_long(now)

    def waiting(self, now: float) -> int:
        """About how many messages have a place in the row of those that wait."""
        ahead = min(max(0.0, self.ptat - now), _LONGEST_PROMISE)
        return round(ahead * self._planned)

    def waits_long(self, now: float, seconds: float = LONGEST_PLACE) -> bool:
        """Whether the next place is further away than so many seconds, and calls go on."""
        is_long = seconds < self.ptat - now <= _LONGEST_PROMISE
        return is_long and _past(self.utat, now) > now - LONGEST_PLACE

    @property
    def _planned(self) -> float:
        """Calls a second that places are promised for."""
        return max(self.limit, 0.8 * self.cap) if self.cap and not self.fell else self.limit

    @property
    def burst(self) -> float:
        """Calls that may be let through at once."""
        return max(1.0, BURST_SECONDS * self.limit)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a batch asks of a pace: so many calls, and so many places for those that go back.

    `returning` says that the first of the messages had a place before; `whole` that it is one of
    a group that comes back as a whole, at the place of its last: as many as can be paid for ahead
    are granted, because the rest is received once more.
    """

    calls: int = 0
    places: int = 0
    returning: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class PaceGrant:
    """What a batch gets: calls that may begin until `until`, and seconds until each place."""

    pace: CallPace
    calls: int
    waits: tuple[float, ...]
    until: float


def after_outage(normal: float, last: CallPace | None, now: float) -> CallPace | None:
    """The pace of a dependency that comes back; None if its normal rate is unknown.

    It begins with half of the normal rate, or where a pace was that an outage has just ended.
    """
    if not normal > 0:
        return None
    limit = FIRST_SHARE * normal
    if last is not None and now - _past(last.changed, now) < REMEMBERED_SECONDS:
        limit = min(max(limit, last.limit), CATCH_UP * normal)
    return CallPace(
        limit=_bounded(limit),
        normal=normal,
        since=now,
        changed=now,
        turn=1 if last is None else last.turn + 1,
        cap=max(FLOOR, CATCH_UP * normal),
        utat=now,
        stepped=now + FIRST_STEP_SECONDS - STEP_SECONDS,
    )


def after_throttling(normal: float, accepted: float, last: CallPace | None, now: float) -> CallPace:
    """The pace of a dependency that throttles: a little above what it accepted a second."""
    return CallPace(
        limit=_bounded(ABOVE * accepted),
        normal=normal,
        since=now,
        changed=now,
        turn=1 if last is None else last.turn + 1,
        utat=now,
        because=THROTTLED,
    )


def next_pace(pace: CallPace, calls: Sequence[CallCount], now: float) -> CallPace:
    """The pace after what its calls have shown; the same one if nothing changes."""
    if now - _past(pace.changed, now) < CHANGE_SECONDS:
        return pace
    since = max(_past(pace.fell, now), _past(pace.since, now) - CALLS_SECONDS)
    seen, seconds = _seen(calls, now, since)
    # Hidden messages don't use it, and of a thousand processes many report too late: where messages
    # wait it is too low all the same.
    waits_long = pace.waits_long(now, SIGN_SECONDS)
    if not seen.total and not waits_long:
        return pace
    if seen.throttled >= 2 and seen.throttled > MANY * seen.total:
        rate = _accepted(calls, now, max(since, _past(pace.since, now)))
        # So soon after a fall not all have reported: the sum would be too low, and the next fall
        # one too many.
        if rate is None:
            return pace
        # What was not asked was not accepted either: of few calls the share says more.
        share = max(LEAST_OF_FALL, seen.ok / seen.total)
        limit = max(ABOVE * rate, share * pace.limit)
        return _fallen(pace, min(pace.limit, limit), now)
    if seen.failed >= 3 and seen.failed > 0.4 * seen.total:
        limit = min(pace.limit, max(0.7 * pace.limit, LEAST_SHARE * pace.normal))
        return _fallen(pace, limit, now)
    cap, stepped = _stepped(pace, seen, now)
    limit = pace.limit
    is_used = seen.total >= 0.6 * limit * seconds or waits_long
    if seen.throttled <= FEW * seen.total and is_used:
        soon = _past(pace.fell, now) + 60 > now
        limit *= 1.06 if soon else 1.25
    limit = _bounded(limit if cap is None else min(limit, cap))
    if (limit, cap, stepped) == (pace.limit, pace.cap, pace.stepped):
        return pace
    return replace(pace, limit=limit, cap=cap, stepped=stepped, changed=now, turn=pace.turn + 1)


def _fallen(pace: CallPace, limit: float, now: float) -> CallPace:
    limit = _bounded(limit)
    cap = None if pace.cap is None else max(FLOOR, min(pace.cap, CATCH_UP * pace.normal))
    return replace(
        pace,
        limit=limit,
        cap=cap,
        changed=now,
        fell=now,
        stepped=now + HOLD_SECONDS,
        turn=pace.turn + 1,
    )


def _stepped(pace: CallPace, seen: CallCount, now: float) -> tuple[float | None, float]:
    """The cap after its next step, and when it last changed."""
    if pace.cap is None or not pace.normal:
        return pace.cap, pace.stepped
    least, most = CATCH_UP * pace.normal, TOP * pace.normal
    bad = seen.failed + seen.throttled
    fails = bad >= 3 and bad > 0.02 * seen.total
    if fails and pace.cap > least:
        return max(least, pace.cap / CAP_STEP), now + HOLD_SECONDS
    is_due = now - min(pace.stepped, now + HOLD_SECONDS) >= STEP_SECONDS
    if is_due and not fails and pace.limit >= pace.cap < most:
        return min(most, pace.cap * CAP_STEP), now
    return pace.cap, pace.stepped


def take(pace: CallPace, wish: Wish, now: float) -> PaceGrant:
    """What the pace grants of a wish, and the pace with that granted.

    While places are promised, the last of the burst is for messages that return.
    """
    calls, utat = 0, pace.utat
    if now - pace.utat >= pace.burst / pace.limit:
        # Calls lie idle: all messages that wait are hidden, and for so long at most.
        pace = replace(pace, ptat=min(pace.ptat, now + LONGEST_PLACE))
    if wish.calls:
        calls = max(0, min(wish.calls, math.floor(_free(pace, wish, now) + _ROUNDING)))
    if calls:
        # Rounded up to what is stored: a row that rounds down would grant too much.
        utat = math.ceil((_utat(pace, now) + calls / pace.limit) * 1_000) / 1_000
    ptat, waits = _promised(pace, wish.places, now)
    waits_now = calls < wish.calls or wish.places > 0
    waited = now if waits_now and now - _past(pace.waited, now) >= NOTED_SECONDS else pace.waited
    after = replace(pace, utat=utat, ptat=ptat, waited=waited)
    if after != pace:
        after = replace(after, turn=pace.turn + 1)
    lasts = WHOLE_SECONDS if wish.whole else TOKEN_SECONDS
    return PaceGrant(after, calls, waits, now + lasts)


_ROUNDING = 1e-6


def is_worth_asking(pace: CallPace, wish: Wish, now: float) -> bool:
    """Whether a wish would be granted anything, or has to be noted."""
    unnoted = now - _past(pace.waited, now) >= NOTED_SECONDS
    # Not for single calls of many: each request costs a write of one row.
    few = min(wish.calls, math.ceil(pace.burst * WORTH_ASKING))
    return wish.places > 0 or unnoted or _free(pace, wish, now) + _ROUNDING >= few


def _free(pace: CallPace, wish: Wish, now: float) -> float:
    """Calls that are free now for this wish."""
    free = Rate(pace.limit, pace.burst).free(pace.utat, now)
    if wish.whole:
        return free + AHEAD_SECONDS * pace.limit
    is_kept = not wish.returning and pace.burst >= 2 and pace.ptat > now
    return free - pace.burst * KEPT_BURST if is_kept else free


def _utat(pace: CallPace, now: float) -> float:
    """When all calls are paid for, no longer ago than the burst; of a wrong row: now."""
    return Rate(pace.limit, pace.burst).start(pace.utat, now)


def _promised(pace: CallPace, places: int, now: float) -> tuple[float, tuple[float, ...]]:
    """When all places have passed after so many more, and the seconds until each."""
    if not places:
        return pace.ptat, ()
    planned = pace._planned
    start = min(max(now, pace.ptat), now + _LONGEST_PROMISE)
    waits = tuple(start - now + number / planned for number in range(1, places + 1))
    return start + places / planned, waits


def hidden_for(wait: float, random: Random) -> float:
    """Seconds that a message is hidden whose place comes after this wait."""
    if wait <= LONGEST_PLACE:
        return wait
    return random.uniform(SHORTEST_LONG_PLACE, LONGEST_PLACE)


_LONGEST_PROMISE = 12 * 3_600.0


def failed_lately(calls: Sequence[CallCount], now: float) -> bool:
    """Whether at least half of the calls of the last ten seconds failed."""
    recent = [count for count in calls if 0 <= calls_number(now) - count.number <= 1]
    failed = sum(count.failed for count in recent)
    return failed > 0 and failed >= sum(count.ok for count in recent)


def throttled_lately(calls: Sequence[CallCount], now: float) -> bool:
    """Whether two calls were throttled within the last fifteen seconds."""
    return _seen(calls, now)[0].throttled >= 2


def accepted(calls: Sequence[CallCount], now: float) -> float:
    """Calls a second that succeeded lately."""
    rate = _accepted(calls, now)
    if rate is not None:
        return rate
    seen, seconds = _seen(calls, now)
    return seen.ok / seconds


def _seen(
    calls: Sequence[CallCount], now: float, since: float = -math.inf
) -> tuple[CallCount, float]:
    """All calls of the last SIGN_SECONDS that began at `since` or later, and their seconds."""
    present = calls_number(now)
    first = present - int(SIGN_SECONDS // CALLS_SECONDS)
    recent = [count for count in calls if first <= count.number <= present]
    counted = [count for count in recent if since <= count.number * CALLS_SECONDS]
    total = CallCount(present)
    for count in counted:
        total = total.and_also(count)
    start = min((count.number for count in counted), default=present) * CALLS_SECONDS
    return total, max(1.0, now - start)


def _accepted(calls: Sequence[CallCount], now: float, since: float = -math.inf) -> float | None:
    """Calls a second that succeeded since a moment, in whole counts; None if there are none yet.

    Of the present seconds not all processes have reported.
    """
    present = calls_number(now - REPORT_SECONDS)
    whole = [count for count in calls if since <= count.number * CALLS_SECONDS]
    recent = [count for count in whole if 0 < present - count.number <= 3]
    if not recent:
        return None
    first = min(count.number for count in recent)
    return sum(count.ok for count in recent) / ((present - first) * CALLS_SECONDS)


def _bounded(limit: float) -> float:
    return min(MOST, max(FLOOR, round(limit, 3)))


def _past(moment: float, now: float) -> float:
    """A moment, or 0 if it lies so far ahead that only a wrong row says so."""
    return moment if moment <= now + SKEW_SECONDS else 0.0
