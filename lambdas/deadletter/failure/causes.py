"""Causes of failure: whether one of them suddenly dominates, so that parking for it stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from random import Random
from typing import Protocol

from deadletter.contract import DAY, HOUR, MINUTE, Blame
from deadletter.failure.failure import Failure

LEAST_LETTERS = 20
"""Distinct letters of one cause without which it cannot dominate."""

LEAST_LEAD = LEAST_LETTERS // 2
"""Failures of the cause that are more than all other outcomes: with 30 % of poison, a majority
among the last 40 outcomes is a chance of once in hours, and with this lead of once in years."""

WINDOW = 5.0 * MINUTE
"""Seconds in which it has to gather them."""

BEFORE = 1.0 * HOUR
"""Seconds before that in which it must have been rare."""

LEAST_BEFORE = 20
"""Outcomes without which nothing is known: then no cause is sudden, and no held one is over."""

RARE = 0.1
"""The share of all outcomes from which on a cause was there before."""

HOLD = 10.0 * MINUTE
"""Seconds that a hold lasts after the last failure of its cause, as long as the cause is no less
than RARE of what is tried for the first time: of a deployment that is half mended no letter is
parked, and a little poison keeps no hold alive."""

AGAIN = (150.0, 210.0)
"""Seconds after its last failure in which a letter of a held cause is tried again: about as often
as plain SQS does with a visibility timeout of six times a function's 30 seconds, and no two heaps
of letters at one moment."""

MEMORY = 1.0 * DAY
"""Seconds after a hold in which its cause is held again as soon as it dominates: the hour before
says nothing of it then, since it was not parked for."""

MOST_CAUSES = 8
"""Causes that are counted at once; a cause with a tenth of all outcomes is among the largest."""

MOST_LETTERS = 32
"""Distinct letters that are remembered of the cause that may dominate."""

BUCKET = 5.0 * MINUTE
"""Seconds of one bucket of the history."""

BUCKETS = int(BEFORE / BUCKET) + 2
"""Buckets that are kept: the hour before, the present one, and the one in which WINDOW began."""


class CausesUnavailable(Exception):
    """The causes could not be read or written."""


@dataclass(frozen=True, slots=True)
class FailedTry:
    """One letter that failed when it was first tried, by its own fault or the code's.

    `letter` is a hash of its origin id.
    """

    cause: str
    error_type: str
    letter: int


@dataclass(frozen=True, slots=True)
class Second:
    """The first tries that ended in one second (epoch): how many, and those that failed.

    `again` are the held causes for which letters failed that were tried again.
    """

    at: int
    total: int
    failed: tuple[FailedTry, ...] = ()
    again: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Stretch:
    """The outcomes since `since` (epoch seconds), among which one cause has been in the lead."""

    cause: str
    since: float
    failures: int = 0
    others: int = 0
    messages: frozenset[int] = frozenset()
    error_type: str = ""

    @property
    def dominates(self) -> bool:
        """Whether enough letters failed for the cause, and more often than all else happened."""
        return len(self.messages) >= LEAST_LETTERS and self.failures - self.others >= LEAST_LEAD


@dataclass(frozen=True, slots=True)
class CauseHold:
    """From `since` until `until` (epoch seconds) no letter is parked for a cause.

    `mended_by` is the person who ended it and `reason` why: then the cause is counted anew.
    """

    since: float
    until: float
    error_type: str = ""
    mended_by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Causes:
    """What is known of the causes of failure in one pipeline.

    totals   letters that were tried for the first time, by bucket
    counts   those that failed, by cause and bucket
    stretch  the outcomes that one cause leads, if any does
    holds    the causes for which parking has stopped, and those of the day before
    """

    totals: Mapping[int, int] = field(default_factory=dict)
    counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    stretch: Stretch | None = None
    holds: Mapping[str, CauseHold] = field(default_factory=dict)

    def hold_of(self, cause: str, now: float) -> CauseHold | None:
        """The hold of a cause that suddenly dominates; None if its letters are parked as ever."""
        hold = self.holds.get(cause)
        return None if hold is None or now >= hold.until else hold

    def held(self, now: float) -> dict[str, CauseHold]:
        """All causes that are held now."""
        return {
            cause: hold for cause in self.holds if (hold := self.hold_of(cause, now)) is not None
        }

    def is_new(self, cause: str, now: float) -> bool:
        """Whether the cause is not known from before the last five to ten minutes.

        Such a one may be about to dominate.
        """
        count = self.counts.get(cause, {})
        return not any(n for number, n in count.items() if number < bucket_of(now) - 1)

    def is_settled(self, cause: str, now: float) -> bool:
        """Whether the next failures cannot change how letters of the cause are treated."""
        return self.hold_of(cause, now) is not None or not self._may_be_sudden(cause, now, now)

    def excuses(self, failure: Failure, now: float) -> bool:
        """Whether a failure happened while its cause dominated: it parks no letter later either.

        While the cause is held it excuses older failures too.
        """
        hold = self.holds.get(failure.fingerprint)
        if hold is None:
            return False
        return now < hold.until or hold.since - WINDOW <= failure.at <= hold.until

    def counting(self, seconds: Sequence[Second], now: float) -> Causes:
        """The causes with more outcomes, in the order of their time; a hold lasts longer with each
        failure of its cause.
        """
        totals, counts = Counter(self.totals), {k: Counter(v) for k, v in self.counts.items()}
        stretch = self.stretch
        for second in seconds:
            number = bucket_of(second.at)
            totals[number] += second.total
            for failed in second.failed:
                counts.setdefault(failed.cause, Counter())[number] += 1
            stretch = _after(stretch, second)
        first = bucket_of(now) - BUCKETS + 1
        counted = replace(
            self,
            totals=_since(totals, first),
            counts=_largest(
                {cause: _since(count, first) for cause, count in counts.items()},
                stretch.cause if stretch else "",
            ),
            stretch=stretch,
            holds={k: hold for k, hold in self.holds.items() if now < hold.until + MEMORY},
        )
        return counted._renewed(seconds, now)

    def judged(self, now: float) -> Causes:
        """The causes with a hold for the one that suddenly dominates."""
        stretch = self.stretch
        if stretch is None or not stretch.dominates:
            return self
        if not self._may_be_sudden(stretch.cause, stretch.since, now):
            return self
        if self.hold_of(stretch.cause, now) is not None:
            return self
        begun = CauseHold(now, now + HOLD, stretch.error_type)
        return replace(self, holds={**self.holds, stretch.cause: begun})

    def mending(self, cause: str, by: str, reason: str, now: float) -> Causes:
        """The causes after a person mended this one: its letters are tried, it is counted anew."""
        hold = self.holds.get(cause, CauseHold(now, now))
        until = min(now, hold.until)
        mended = {cause: replace(hold, until=until, mended_by=by, reason=reason)}
        return replace(
            self,
            counts={key: count for key, count in self.counts.items() if key != cause},
            stretch=None if self.stretch and self.stretch.cause == cause else self.stretch,
            holds={**self.holds, **mended},
        )

    def _renewed(self, seconds: Sequence[Second], now: float) -> Causes:
        """The causes with holds that last until HOLD after the last of these failures."""
        last = {
            cause: min(second.at, now)
            for second in seconds
            for cause in (*second.again, *(failed.cause for failed in second.failed))
        }
        holds = {
            cause: replace(hold, until=max(hold.until, last[cause] + HOLD))
            if last.get(cause, hold.until) < hold.until and self._is_common(cause, last[cause])
            else hold
            for cause, hold in self.holds.items()
        }
        return replace(self, holds=holds)

    def _is_common(self, cause: str, at: float) -> bool:
        """Whether the cause is no less than RARE of what was first tried in the last minutes.

        Letters that are tried again say nothing here: of those that no fix brings back, each fails
        every time. The minutes are at least five, and as many as have outcomes enough.
        """
        total, failed, last = 0, 0, bucket_of(at)
        for number in range(last, last - BUCKETS, -1):
            total += self.totals.get(number, 0)
            failed += self.counts.get(cause, {}).get(number, 0)
            if number < last and total >= LEAST_BEFORE:
                break
        return total < LEAST_BEFORE or failed >= RARE * total

    def _may_be_sudden(self, cause: str, since: float, now: float) -> bool:
        """Whether the cause was rare in the hour before `since`, as far as that is known."""
        hold = self.holds.get(cause)
        if hold is not None and not hold.mended_by and now < hold.until + MEMORY:
            return True
        last = bucket_of(since) - 1
        hour = range(last - int(BEFORE / BUCKET) + 1, last + 1)
        total = sum(self.totals.get(number, 0) for number in hour)
        failed = sum(self.counts.get(cause, {}).get(number, 0) for number in hour)
        return total >= LEAST_BEFORE and failed < RARE * total


NO_CAUSES = Causes()


def again(random: Random) -> float:
    """Seconds after its last failure when a letter of a held cause is tried again."""
    return random.uniform(*AGAIN)


def cause_of(failure: Failure | None) -> str:
    """The cause of a failure that is the letter's or the code's; empty for any other."""
    if failure is None or failure.blame is not Blame.NEITHER:
        return ""
    return failure.fingerprint


def bucket_of(moment: float) -> int:
    """The number of the bucket for a moment (epoch seconds)."""
    return int(moment // BUCKET)


def _after(stretch: Stretch | None, second: Second) -> Stretch | None:
    """The stretch after one more second: it ends when its cause has lost the lead.

    This is the majority vote of Boyer and Moore: a cause of more than half of the outcomes
    stays in the lead from its first failure on, whatever was before.
    """
    if stretch is not None and second.at - stretch.since > WINDOW:
        stretch = None
    if stretch is None:
        stretch = _begun(second)
        if stretch is None:
            return None
    letters = [failed.letter for failed in second.failed if failed.cause == stretch.cause]
    others = second.total - len(letters) if second.at >= int(stretch.since) else 0
    known = sorted({*stretch.messages, *letters})[:MOST_LETTERS]
    stretch = replace(
        stretch,
        failures=stretch.failures + len(letters),
        others=stretch.others + others,
        messages=frozenset(known),
    )
    return stretch if stretch.failures > stretch.others else None


def _begun(second: Second) -> Stretch | None:
    """A stretch that begins in this second with its commonest cause; None without a failure."""
    if not second.failed:
        return None
    [(cause, _)] = Counter(failed.cause for failed in second.failed).most_common(1)
    error_type = next(failed.error_type for failed in second.failed if failed.cause == cause)
    return Stretch(cause, second.at, error_type=error_type)


def _since(count: Mapping[int, int], first: int) -> dict[int, int]:
    return {number: n for number, n in count.items() if number >= first and n}


def _largest(counts: Mapping[str, dict[int, int]], leader: str) -> dict[str, dict[int, int]]:
    """The causes with the most failures, and the one in the lead, without those that have none."""
    ordered = sorted(
        counts.items(), key=lambda item: (item[0] != leader, -sum(item[1].values()), item[0])
    )
    return {cause: count for cause, count in ordered[:MOST_CAUSES] if count}


def seconds_of(tries: Iterable[tuple[float, FailedTry | str | None]]) -> list[Second]:
    """Outcomes with their times (epoch seconds), second by second.

    None is no such failure, and a text the held cause of a letter that was tried again.
    """
    ordered = sorted(tries, key=lambda outcome: outcome[0])
    seconds = []
    for at, group in groupby(ordered, key=lambda outcome: int(outcome[0])):
        outcomes = [outcome for _, outcome in group]
        again = frozenset(each for each in outcomes if isinstance(each, str))
        first = [each for each in outcomes if not isinstance(each, str)]
        failed = tuple(each for each in first if each is not None)
        seconds.append(Second(at, len(first), failed, again))
    return seconds


class CausesReader(Protocol):
    """The store of causes, for reading; raises CausesUnavailable."""

    def read(self) -> Causes: ...


class CauseCounts(CausesReader, Protocol):
    """The store of causes, as consumers count in it."""

    def count(self, seconds: Sequence[Second], now: float) -> tuple[Causes, tuple[str, ...]]:
        """Add outcomes, and begin or renew the hold of a cause that suddenly dominates.

        Returns the causes as they are then, and the causes whose hold this write began. Raises
        CausesUnavailable if the outcomes were not stored.
        """
