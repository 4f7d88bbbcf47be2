"""The rate that finds itself: it rises while the consumer keeps up, and falls at the first sign.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, 1989), after a start
that doubles. A letter that goes back may be delayed, so a rise is judged only when the letters
that it sent have arrived; and letters on their way cannot be called back, so the faster a deep
queue is drained, the shorter they are delayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from deadletter.circuit.state import Circuit, CircuitPolicy, OutcomeBucket, OutcomeCounts
from deadletter.contract import MINUTE
from deadletter.settings.backoff import Backoff

LOOK_SECONDS, QUICK_LOOK_SECONDS = 5.0, 2.0
"""Seconds between two looks at the consumer; the second above the first rate, where more letters
are sent between two looks."""

SETTLES = 5.0
"""Seconds until a change shows: the outcomes are a second or two old, SQS's counts a few."""

ONE_TROUBLE = 60.0
"""Seconds between two signs that are one trouble: it began at the first one's rate."""

RISE = 2.0
"""What a rise multiplies the rate by before the first sign of trouble."""

FALL, QUEUE_FALL = 0.5, 0.7
"""What a fall multiplies the rate by; the second if only the main queue grows, where nothing fails
and a consumer that is left without letters loses time."""

STEP, SMALL_STEP = 0.1, 0.04
"""A rise after a sign of trouble, as a share of the rate at which the trouble began: far below
that rate, and near it."""

NEAR_SHARE = 0.85
"""The share of the rate at which the trouble began from which a rise is small and slow."""

NEAR_SECONDS = 20.0
"""Seconds between two rises there: each may be the one too many."""

DEEP = 1_000
"""Visible letters from which a queue is deep: twenty seconds of the rate that it starts with."""

MOST_DELAYED = 500
"""Letters of a deep queue that are delayed at one time, about. They arrive whatever happens."""

LEAST_RATE = 5.0
"""Letters per second below which it does not fall: a tenth of the rate that it starts with."""

LONGEST_LAG = 2.0 * MINUTE
"""Seconds that a rise waits at most for delayed letters; later ones are few."""

FORGOTTEN_AFTER = 10.0 * MINUTE
"""Seconds without a look, or since a sign of trouble, after which they say nothing of now."""

FEW_FAILURES = 5
"""Failures that are no sign yet, whatever their share is."""

CALM_SHARE, TROUBLE_SHARE, SEVERE_SHARE = 0.02, 0.03, 0.25
"""Shares of failures: up to the first, the rate may rise; from the second, it falls down to the
rate it starts with; from the third, also below that. Some dependencies always fail a little."""

FRESH_SECONDS = 40.0
"""How far back outcomes are looked at."""

USED_SHARE = 0.7
"""The share of the rate that must have been sent: a rate nobody uses proves nothing."""

KEEPS_UP_SECONDS, OVERRUN_SECONDS = 3.0, 10.0
"""Growth of the main queue, in seconds of the rate: up to the first, the consumer keeps up;
beyond the second, it does not."""

KEEPS_UP_MESSAGES, OVERRUN_MESSAGES = 50, 200
"""The same in messages, for low rates: a queue in use is never quite empty."""

LEVEL_FOLLOWS = 0.004
"""The part of the way that the usual level of the main queue goes up to the present one in a
second: growth by less than a twenty-fifth of the rate is no sign."""

FULL_SHARE = 0.5
"""The share of the backlog limit from which the rate falls while the queue grows."""


class Direction(StrEnum):
    """What the rate does, as people read it."""

    STARTING = "starting"
    RISING = "rising"
    STEADY = "steady"
    FALLEN = "lowered"


@dataclass(frozen=True, slots=True)
class AutoRate:
    """A rate in letters per second, and what its next change depends on. Times are epoch seconds.

    direction  what it does, and `because` why
    changed_at when it last rose or fell
    looked_at  when the consumer was last looked at
    waiting    messages in the main queue then; None before the first look
    level      messages that usually wait there, which growth is measured from
    limit      the rate at which the last trouble began, until it is forgotten; 0 without one
    limit_at   when its last sign was seen
    """

    rate: float
    direction: Direction = Direction.STARTING
    because: str = ""
    changed_at: float = 0.0
    looked_at: float = 0.0
    waiting: int | None = None
    level: float = 0.0
    limit: float = 0.0
    limit_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateBounds:
    """The rate it starts with, the highest, and the main queue's backlog limit."""

    first: float
    most: float
    backlog: int

    @property
    def least(self) -> float:
        return min(LEAST_RATE, self.first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What is seen of the consumer at `now` (epoch seconds).

    waiting, delayed  messages in the main queue that are visible, and that are not yet
    sent       letters that went back in the last `seconds`; None at a run's first look
    outcomes   of calls, or of letters that came back, since the rate fell or of late
    latest     of calls since the last look: a dependency may break down from one to the next
    letters_own  the failures may be the letters' own: nobody reports what they failed for
    opened     the circuit is not closed, or was not since the last change
    """

    now: float
    waiting: int
    delayed: int = 0
    sent: int | None = None
    seconds: float = 0.0
    outcomes: OutcomeCounts = field(default_factory=OutcomeCounts)
    latest: OutcomeCounts = field(default_factory=OutcomeCounts)
    letters_own: bool = False
    opened: bool = False


def at_start(known: AutoRate | None, bounds: RateBounds, now: float) -> AutoRate:
    """The rate that a run begins with; one that no run has used for long starts again."""
    if known is None or is_forgotten(known, now):
        return AutoRate(bounds.first, because="no run has sent anything of late", changed_at=now)
    return replace(known, rate=max(bounds.least, min(bounds.most, known.rate)))


def is_forgotten(rate: AutoRate, now: float) -> bool:
    """Whether it was used so long ago that it says nothing of now."""
    return now - rate.looked_at > FORGOTTEN_AFTER


def seconds_to_next_look(rate: float, first: float) -> float:
    """Seconds until the consumer is looked at again, at a rate that began at `first`."""
    return QUICK_LOOK_SECONDS if rate > first else LOOK_SECONDS


def delay_share(rate: float) -> float:
    """The share of their first backoff that letters of a deep queue are delayed at this rate.

    It keeps those under way to MOST_DELAYED, as the mean of full jitter is half of the ceiling.
    Letters of a deep queue have waited in it already, and it is the rate that spreads them.
    """
    return min(1.0, MOST_DELAYED / (rate * Backoff().base / 2))


def next_rate(rate: AutoRate, signs: Signs, bounds: RateBounds) -> AutoRate:
    """The rate after one more look at the consumer."""
    level = _level(rate, signs)
    seen = replace(rate, looked_at=signs.now, waiting=signs.waiting, level=level)
    if trouble := _trouble(rate, signs, bounds):
        lower, why = trouble
        seen = _troubled(seen)
        just_fell = rate.direction is Direction.FALLEN and signs.now - rate.changed_at < SETTLES
        if just_fell and not signs.opened:
            return seen
        if lower >= rate.rate:
            return replace(_settled(seen), direction=Direction.STEADY, because=why)
        return replace(_settled(seen), rate=lower, direction=Direction.FALLEN, because=why)
    if doubt := next(_doubts(seen, signs, bounds), ""):
        if rate.direction is Direction.FALLEN:
            # Why it fell says more than why it does not rise yet.
            return seen
        return replace(seen, direction=Direction.STEADY, because=doubt)
    return seen if _is_too_early(seen, signs) else _risen(seen, bounds)


def fresh_outcomes(
    circuit: Circuit, policy: CircuitPolicy, rate: AutoRate, now: float
) -> OutcomeCounts:
    """The outcomes that speak of this rate: of late, and from the bucket on in which it fell."""
    since = now - FRESH_SECONDS
    if rate.direction is Direction.FALLEN:
        since = max(since, rate.changed_at - policy.bucket)
    return outcomes_since(circuit, policy, since, now)


def outcomes_since(
    circuit: Circuit, policy: CircuitPolicy, since: float, now: float
) -> OutcomeCounts:
    """The outcomes that a circuit has counted since a time (epoch seconds)."""
    window = circuit.in_window(policy, now)
    recent = [each for each in window if each.number * policy.bucket >= since]
    return OutcomeCounts(sum(each.good for each in recent), sum(each.bad for each in recent))


def latest_outcomes(
    circuit: Circuit, before: Circuit, policy: CircuitPolicy, now: float
) -> OutcomeCounts:
    """The outcomes that were counted since the circuit was `before`."""
    known = {bucket.number: bucket for bucket in before.buckets}
    good = bad = 0
    for bucket in circuit.in_window(policy, now):
        counted = known.get(bucket.number, OutcomeBucket(bucket.number))
        good += max(0, bucket.good - counted.good)
        bad += max(0, bucket.bad - counted.bad)
    return OutcomeCounts(good, bad)


def _trouble(rate: AutoRate, signs: Signs, bounds: RateBounds) -> tuple[float, str] | None:
    """The first sign that letters come too fast: what the rate falls to for it, and why."""
    half = rate.rate * FALL
    lowest = max(bounds.least, min(bounds.first, half))
    if signs.opened:
        return lowest, "the circuit was open"
    for outcomes in (signs.latest, signs.outcomes):
        if not signs.letters_own and _shows(outcomes, SEVERE_SHARE):
            return lowest, f"failures {_share(outcomes):.0%}"
    if _shows(signs.outcomes, TROUBLE_SHARE):
        what = "messages that came back" if signs.letters_own else "failures"
        return max(bounds.first, half), f"{what} {_share(signs.outcomes):.0%}"
    grows = rate.waiting is not None and signs.waiting >= rate.waiting
    too_many = signs.waiting > bounds.backlog * FULL_SHARE
    overrun = signs.waiting - rate.level > _messages(rate, OVERRUN_SECONDS, OVERRUN_MESSAGES)
    if rate.waiting is not None and grows and (overrun or too_many):
        return max(bounds.least, rate.rate * QUEUE_FALL), "the main queue grows"
    return None


def _doubts(rate: AutoRate, signs: Signs, bounds: RateBounds) -> Iterator[str]:
    """Why the rate does not rise."""
    if _shows(signs.outcomes, CALM_SHARE):
        yield f"failures {_share(signs.outcomes):.0%}"
    most = _messages(rate, KEEPS_UP_SECONDS, KEEPS_UP_MESSAGES)
    # Above the first rate, letters of ours may not lie behind a backlog, whoever made it.
    behind = signs.waiting > _messages(rate, OVERRUN_SECONDS, OVERRUN_MESSAGES)
    if signs.waiting - rate.level > most or (behind and rate.rate >= bounds.first):
        yield "the main queue is not worked off yet"
    if rate.rate >= bounds.most:
        yield "it is the highest that is allowed"
    if signs.sent is not None and signs.sent < USED_SHARE * rate.rate * signs.seconds:
        yield "fewer messages went back than it allows"


def _is_too_early(rate: AutoRate, signs: Signs) -> bool:
    """Whether the run has only begun, or letters of the last change have not arrived."""
    # Delays are drawn evenly: the longest is twice the mean, which is delayed letters by rate.
    # After a fall many of them were sent at the rate of before.
    sent_at = min(2 * rate.rate, max(rate.rate, rate.limit))
    lag = min(LONGEST_LAG, 2 * signs.delayed / sent_at)
    is_near = rate.limit > 0 and rate.rate >= NEAR_SHARE * rate.limit
    pause = max(SETTLES + lag, NEAR_SECONDS if is_near else 0.0)
    return signs.sent is None or signs.now - rate.changed_at < pause


def _risen(rate: AutoRate, bounds: RateBounds) -> AutoRate:
    now = rate.looked_at
    known = rate.limit > 0 and now - rate.limit_at <= FORGOTTEN_AFTER
    higher = _stepped(rate) if known else rate.rate * RISE
    return replace(
        rate,
        rate=min(bounds.most, higher),
        direction=Direction.RISING,
        because="the consumer keeps up",
        changed_at=now,
        limit=rate.limit if known else 0.0,
    )


def _stepped(rate: AutoRate) -> float:
    """A step up: to where the trouble was near, and from there on in small ones."""
    near = NEAR_SHARE * rate.limit
    small = rate.rate + max(1.0, rate.limit * SMALL_STEP)
    return min(rate.rate + max(1.0, rate.limit * STEP), max(near, small))


def _troubled(rate: AutoRate) -> AutoRate:
    """The rate with trouble noted; signs that follow one another are one trouble.

    So are those between which the rate has not risen: it fell for what they show.
    """
    now = rate.looked_at
    is_late = now - rate.limit_at > ONE_TROUBLE
    is_new = not rate.limit or (is_late and rate.changed_at > rate.limit_at)
    return replace(rate, limit=rate.rate if is_new else rate.limit, limit_at=now)


def _settled(rate: AutoRate) -> AutoRate:
    """From here on, growth of the queue and outcomes are counted anew."""
    return replace(rate, changed_at=rate.looked_at, level=float(rate.waiting or 0))


def _level(rate: AutoRate, signs: Signs) -> float:
    """The usual level: down with the queue at once, up slowly."""
    waiting = float(signs.waiting)
    if rate.waiting is None:
        return waiting
    # Between two runs nothing was seen.
    part = LEVEL_FOLLOWS * min(LOOK_SECONDS, max(0.0, signs.now - rate.looked_at))
    return min(waiting, rate.level + (waiting - rate.level) * part)


def _messages(rate: AutoRate, seconds: float, least: int) -> float:
    return max(float(least), rate.rate * seconds)


def _shows(outcomes: OutcomeCounts, share: float) -> bool:
    """Whether at least this share failed; few failures show nothing."""
    return outcomes.bad > FEW_FAILURES and _share(outcomes) >= share


def _share(outcomes: OutcomeCounts) -> float:
    return outcomes.bad / outcomes.total if outcomes.total else 0.0
