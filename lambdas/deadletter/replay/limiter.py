"""The pace of a replay run: one limiter for all its workers, in the run's item.

The pace is a bucket (`deadletter.pace.rate`) whose `paid` stands in the run's item: one conditional
write grants letters and pays for them. In any window the workers are granted at most rate x window
+ burst + rate x twice the clocks' skew, and each grant is used within two seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from deadletter.message.queue import MAX_BATCH
from deadletter.pace.rate import Rate
from deadletter.replay.run import ReplayRun, ReplayRuns, RunState, bad_run_row

GRANT_SECONDS = 2.0
"""Seconds from the request for a grant to the last moment at which a send or an invocation may
begin under it: a run that is held begins none later than this after its switch."""

MOST_GRANTED = MAX_BATCH
"""Letters of one grant: what one call sends."""

SLACK = 0.05
"""Seconds of the pace that a grant leaves of the burst: the time that a request takes. Without
it the pace would lie idle between two grants."""

LOOK_SECONDS = 1.0
"""Seconds that a worker waits for the pace before it looks at the run again."""

LONGEST_PAID = 3_600.0
"""Seconds that a run's letters may be paid for ahead. A grant pays up to the present, by the clock
of its worker: only a wrong row or a wrong clock says more, and the run would wait for as long."""

SHORTEST_WAIT = 0.005
"""Seconds: a clock that is exact to the millisecond must not ask at one moment twice."""


@dataclass(frozen=True, slots=True)
class SendGrant:
    """Permission to begin sends or invocations of `letters` letters before `until`.

    `until` is epoch seconds by the worker's own clock.
    """

    letters: int
    until: float


@dataclass(frozen=True, slots=True)
class Bid:
    """A request for letters, as one conditional write can grant it.

    token       a text that no other bid has: a repeated write knows its own first one
    generation  of the run as the bidder knows it
    allowance   letters that it takes from a canary step's allowance; 0 in other states
    now         the limiter's time (epoch seconds)
    latest      the write takes effect only while `paid` is at most this
    full        the `paid` of a full bucket: nothing further back counts
    is_idle     whether `paid` is at most that: it is set to `full + cost`, else it grows by `cost`
    """

    token: str
    letters: int
    generation: int
    allowance: int
    now: float
    latest: float
    full: float
    cost: float
    is_idle: bool


@dataclass(frozen=True, slots=True)
class BidAnswer:
    """Whether a bid took effect, the run as it is now, and the limiter's time in its item."""

    is_granted: bool
    run: ReplayRun
    at: float


class Bids(Protocol):
    """The limiter in the run's item. Raises RunsUnavailable."""

    def bid(self, run: ReplayRun, bid: Bid) -> BidAnswer | None:
        """One conditional write; None if the run does not exist (any more)."""


class SendingEnded(Exception):
    """The run allows no more sends now; the text says why."""


def most_letters(run: ReplayRun) -> int:
    """Letters of one grant at most: the rest of the burst covers the time of the requests."""
    return max(1, min(MOST_GRANTED, run.burst - math.ceil(run.rate * SLACK)))


def bid_for(run: ReplayRun, letters: int, now: float, token: str) -> Bid:
    """The bid for so many letters at `now`, by what is known of the run."""
    rate = rate_of(run)
    full = rate.full(now)
    is_idle = run.paid <= full
    return Bid(
        token=token,
        letters=letters,
        generation=run.generation,
        allowance=letters if run.state is RunState.CANARY else 0,
        now=now,
        latest=full if is_idle else rate.latest(letters, now),
        full=full,
        cost=rate.cost(letters),
        is_idle=is_idle,
    )


def rate_of(run: ReplayRun) -> Rate:
    """The rate of a run that has one."""
    return Rate(run.rate, max(1.0, run.burst))


def why_not(run: ReplayRun | None) -> str | None:
    """Why a run allows no sends now; None if it does."""
    if run is None:
        return "the run is unknown"
    if not run.may_send:
        because = f": {run.because}" if run.because else ""
        return f"the run is {run.state}{because}"
    if run.rate <= 0:
        return "the run has no rate yet"
    if run.state is RunState.CANARY and run.allowance <= 0:
        return "the canary step has sent its messages"
    return None


class RunLimiter:
    """Takes grants for one worker. Raises SendingEnded, RunsUnavailable and BadRunRow.

    `clock` gives epoch seconds, `wait` lets seconds pass, `new_token` returns a text that no
    other grant has. The limiter's time is the worker's clock, or the fastest clock that it has
    seen in the item: workers with slow clocks would never find the pace idle otherwise.
    """

    def __init__(
        self,
        *,
        bids: Bids,
        run: ReplayRun,
        clock: Callable[[], float],
        wait: Callable[[float], None],
        new_token: Callable[[], str],
    ) -> None:
        self.run = run
        self._bids = bids
        self._clock = clock
        self._wait = wait
        self._new_token = new_token
        self._ahead = 0.0
        self._kept: SendGrant | None = None
        self._seen_at = clock()

    @property
    def seen_at(self) -> float:
        """When the last request began that has seen the run's item (epoch seconds)."""
        return self._seen_at

    def saw(self, run: ReplayRun, began: float) -> None:
        """Note the run as it was read by a request that began then (epoch seconds).

        Raises BadRunRow.
        """
        if run.paid > began + LONGEST_PAID:
            raise bad_run_row(f"{run.id}: its messages are paid for until {run.paid:.0f}")
        self.run, self._seen_at = run, began

    def look(self, runs: ReplayRuns) -> ReplayRun:
        """The run as it is now. Raises SendingEnded if it is unknown or may not send, BadRunRow."""
        began = self._clock()
        run = runs.read(self.run.id)
        if run is None or not run.may_send:
            raise SendingEnded(why_not(run) or "")
        self.saw(run, began)
        return run

    def seconds_until(self, letters: int) -> float:
        """Seconds until so many letters may probably go; 0 if they may go now."""
        if self.run.rate <= 0:
            return 0.0
        letters = min(letters, most_letters(self.run)) - self._kept_letters()
        if letters <= 0:
            return 0.0
        # By the row as it stands, however far ahead it is: the write compares it too.
        return max(0.0, self.run.paid - rate_of(self.run).latest(letters, self._now()))

    def take(self, letters: int, until: float, *, further: int = 0) -> SendGrant | None:
        """A grant of at least one and at most `letters` letters, or None.

        None if the pace allows no letter that could still be sent before `until` (epoch
        seconds), or if it does not within LOOK_SECONDS. Raises SendingEnded if the run is not
        being sent (any more).

        So many `further` letters are ready as well: they are granted by the same write if the
        pace allows it now, and kept for the next grants, which they last as long as this one.
        """
        kept, self._kept = self._kept, None
        if kept is None or kept.until <= self._clock():
            return self._new_grant(letters, until, further)
        reason = why_not(self.run)
        if reason is not None:
            raise SendingEnded(reason)
        if kept.letters < letters:
            new = self._new_grant(letters - kept.letters, until, further)
            if new is not None:
                return SendGrant(kept.letters + new.letters, min(kept.until, new.until))
        used = min(letters, kept.letters)
        if used < kept.letters:
            self._kept = replace(kept, letters=kept.letters - used)
        return SendGrant(used, min(until, kept.until))

    def _kept_letters(self) -> int:
        """Letters of an earlier grant that may still be sent."""
        kept = self._kept
        return kept.letters if kept is not None and kept.until > self._clock() else 0

    def _new_grant(self, letters: int, until: float, further: int) -> SendGrant | None:
        """A grant by a write of its own, with what is kept of it."""
        give_up = min(until, self._clock() + LOOK_SECONDS)
        while True:
            reason = why_not(self.run)
            if reason is not None:
                raise SendingEnded(reason)
            asked = self._most(letters)
            began = self._clock()
            pause = self.seconds_until(asked)
            if began + pause >= give_up:
                return None
            if pause:
                self._wait(max(pause, SHORTEST_WAIT))
                continue
            more = self._further(asked, further)
            if self._bid(asked + more):
                ends = began + GRANT_SECONDS
                self._kept = SendGrant(more, ends) if more else None
                return SendGrant(asked, min(until, ends))
            # What is stored is rounded: at the very moment the row may still refuse.
            self._wait(SHORTEST_WAIT)

    def _further(self, asked: int, further: int) -> int:
        """Letters beyond those that are asked for which one write may pay as well."""
        if self.run.state is RunState.CANARY:
            # What is not used of a canary's allowance would be missing in its verdict.
            return 0
        more = min(further, most_letters(self.run) - asked)
        while more > 0 and self.seconds_until(asked + more):
            more -= 1
        return max(0, more)

    def _most(self, letters: int) -> int:
        most = min(letters, most_letters(self.run))
        return min(most, self.run.allowance) if self.run.state is RunState.CANARY else most

    def _bid(self, letters: int) -> bool:
        run, began = self.run, self._clock()
        bid = bid_for(run, letters, self._now(), self._new_token())
        answer = self._bids.bid(run, bid)
        if answer is None:
            raise SendingEnded("the run is unknown")
        self.saw(answer.run, began)
        self._ahead = max(self._ahead, answer.at - self._clock())
        return answer.is_granted

    def _now(self) -> float:
        return self._clock() + self._ahead


def granted(run: ReplayRun, bid: Bid) -> ReplayRun:
    """The run after a bid took effect."""
    return replace(
        run,
        paid=bid.full + bid.cost if bid.is_idle else run.paid + bid.cost,
        allowance=run.allowance - bid.allowance,
    )
