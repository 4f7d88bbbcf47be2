"""What is remembered of a queue of ours from run to run: a look costs, and a letter ages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deadletter.circuit.state import OutcomeCounts
from deadletter.contract import DAY, HOUR, MINUTE
from deadletter.pace.auto_rate import AutoRate
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPaid
from deadletter.redrive.report import MOST_BAD_ROWS, Report
from deadletter.redrive.round_robin import NO_TURN, LastTurn
from deadletter.signals.figures import Count

FIRST_STEPS = (1, 2, 5, 20)
"""Letters that each of the first runs moves at most."""

PAST = len(FIRST_STEPS)
"""The step of a run that moves as many as its pace allows."""

MANY = 100
"""Letters up to which there are no steps: so few are soon tried, and soon counted."""


def first_step(known: int | None, letters: int, outcomes: OutcomeCounts) -> int:
    """The step of this run, of a queue with so many letters, in hand or not.

    `known` is what the last run has left, None before the first one: what is there then is older
    than the deployment. A step is made again if of the calls since it more failed than went well.
    """
    if letters <= MANY or known == PAST:
        return PAST
    if known is None:
        return 0
    return max(0, known - 1) if outcomes.bad > outcomes.good else known


def after_step(step: int, moved: int) -> int:
    """The step that the next run begins with."""
    return step + 1 if step < PAST and moved >= FIRST_STEPS[step] else step


BAD_ROW_KEPT = 1.0 * DAY
"""Seconds for which they are: a row that a rare run reads is named until the next one."""


LONGEST_DRAIN = 1.0 * HOUR
"""Seconds from now after which no drain ends: it lasts no longer than its owner's function."""

OWNER = 1
"""The number of the shard that is the owner's own run."""


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain as its owner has recorded it.

    `id` is the owner's; `of` is how many shards there are, the owner among them; each sends at
    most `rate` letters a second, `burst` at once, and none after `until` (epoch seconds).
    """

    id: str = ""
    of: int = 1
    until: float = 0.0
    rate: float = 0.0
    burst: float = 0.0

    def is_on(self, now: float) -> bool:
        """Whether other shards than the owner's may still be sending at `now`."""
        return self.of > OWNER and now < self.until <= now + LONGEST_DRAIN

    def paid(self, now: float) -> RunPaid:
        """What a shard may send that begins at `now`: the owner has what had been saved."""
        return RunPaid(Rate(self.rate, self.burst), now)


NO_DRAIN = Drain()
"""What is recorded before the first drain in shards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMemory:
    """What the runs of one source have left in its lease item. All times are epoch seconds.

    emptied_at     when a run last received everything that the queue held
    oldest         SentTimestamp of the oldest letter that was seen and left since then
    looks          letters that were received and given back since then
    looked_at      when the last of them was
    ended_at       when the last run ended, whatever it did
    ended_well_at  when the last run ended that could do its work
    stopped        why the last run ended
    held_until     when the lease ends that a run took and has not given back; 0 if it has
    trouble        what kept the last run that did not end well from its work
    fruitless      runs in a row that received letters and moved none of them
    fruitless_at   when the last of them ended
    troubles       when a run last counted a metric that needs a person, by its name
    bad_rows       when a run last met a row that cannot be read, by the row's name
    last_turn      where the turns of the queue and the lanes go on
    auto_rate      the rate that the last run kept, if it chose its own
    drain          the last drain in shards
    wanted_until   until when a rescue or a replay waits for the lease; 0 if none has
    first_step     which of the first runs is next (see first_steps); None before the first one
    """

    emptied_at: float | None = None
    oldest: float | None = None
    looks: int = 0
    looked_at: float | None = None
    ended_at: float | None = None
    ended_well_at: float | None = None
    stopped: str = ""
    held_until: float = 0.0
    trouble: str = ""
    fruitless: int = 0
    fruitless_at: float | None = None
    troubles: Mapping[str, float] = field(default_factory=dict)
    bad_rows: Mapping[str, float] = field(default_factory=dict)
    last_turn: LastTurn = NO_TURN
    auto_rate: AutoRate | None = None
    drain: Drain = NO_DRAIN
    wanted_until: float = 0.0
    first_step: int | None = None

    @property
    def last_ended_well(self) -> bool:
        """Whether the last run could do its work; True before the first one."""
        return self.ended_at is None or self.ended_well_at == self.ended_at


UNKNOWN = SourceMemory()
"""The memory of a source that no run has seen yet."""


INTENTS_END = 15.0
"""Seconds beyond two minutes after which the intents of a run have ended, however short it was:
before that its letters would be received in vain once more."""


def with_lost_run(memory: SourceMemory, now: float) -> SourceMemory:
    """The memory, with a run counted as fruitless that was cut off before it could record its end.

    It took the lease and never gave it back: its function ran out of time or memory, or failed.
    """
    # Its lease was to end with its intents: the pause need not be longer for their sake.
    ended = memory.held_until - INTENTS_END
    is_counted = memory.fruitless_at is not None and memory.fruitless_at >= ended
    if not 0 < memory.held_until <= now or is_counted:
        return memory
    return replace(
        memory,
        ended_at=memory.held_until,
        trouble="the last run was cut off before its end",
        fruitless=memory.fruitless + 1,
        fruitless_at=ended,
    )


LONGEST_PAUSE = 15 * MINUTE
"""Seconds between two tries at most, however many runs were fruitless."""


def seconds_until_next_try(memory: SourceMemory, now: float) -> float:
    """How long letters are left alone after fruitless runs: 2, 4, 8 minutes and a quarter, then 15.

    Each receive costs a letter: SQS leaves one that was received three times out of the
    age of its queue.
    """
    # No run has left a time that is yet to come: its pause would never end.
    if not memory.fruitless or memory.fruitless_at is None or memory.fruitless_at > now:
        return 0.0
    pause = min(LONGEST_PAUSE, MINUTE * 2.0 ** min(memory.fruitless, 4) + INTENTS_END)
    return max(0.0, memory.fruitless_at + pause - now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """What one run has to add to the memory. All times are epoch seconds.

    ended       when it ended
    report      what it says of itself
    fruitless   whether it received letters and moved none; None if it tried none
    oldest      SentTimestamp of the oldest letter that it received and left
    pass_began  when the pass began in which it received every visible letter, if it made one
    emptied     whether that pass left the queue without a letter of ours
    last_turn   where the turns of the next run go on; None if it gave none
    auto_rate   the rate that it kept; None if the rate is fixed, or nothing was sent
    first_step  the first step of the next run; None if it was not known what lies in the queue
    """

    ended: float
    report: Report
    fruitless: bool | None = None
    oldest: float | None = None
    pass_began: float | None = None
    emptied: bool = False
    last_turn: LastTurn | None = None
    auto_rate: AutoRate | None = None
    first_step: int | None = None


BRIEF_FOR = 10.0 * MINUTE
"""Seconds after a long poll that found nothing in which runs of an empty queue make short ones. A
second of waiting each minute costs $0.29 a month."""


def was_just_empty(memory: SourceMemory, now: float) -> bool:
    """Whether a short poll is enough for a run if the queue's depth is zero.

    A short poll asks some of SQS's servers only, and the depth lags: a letter that both miss is
    found by the next run, or the one after it.
    """
    emptied = memory.emptied_at
    return memory.oldest is None and emptied is not None and 0 <= now - emptied < BRIEF_FOR


def after_run(memory: SourceMemory, end: RunEnd) -> SourceMemory:
    """The memory of a source after one more run."""
    report = end.report
    return replace(
        after_rescue(memory, end),
        ended_at=end.ended,
        ended_well_at=end.ended if report.ended_well else memory.ended_well_at,
        stopped=report.stopped,
        trouble="" if report.ended_well else report.trouble or memory.trouble,
        fruitless=_fruitless(memory.fruitless, end.fruitless),
        fruitless_at=end.ended if end.fruitless else memory.fruitless_at,
        last_turn=memory.last_turn if end.last_turn is None else end.last_turn,
        auto_rate=memory.auto_rate if end.auto_rate is None else end.auto_rate,
        first_step=memory.first_step if end.first_step is None else end.first_step,
    )


def after_look(memory: SourceMemory, end: RunEnd) -> SourceMemory:
    """The memory after a run that could move nothing because a person asked only to judge."""
    saw_all, looks = end.pass_began is not None, end.report.counts.get(Count.LOOKED_AT, 0)
    known = [sent for sent in (None if saw_all else memory.oldest, end.oldest) if sent is not None]
    return replace(
        memory,
        emptied_at=end.pass_began if end.emptied else memory.emptied_at,
        oldest=min(known, default=None),
        looks=0 if end.emptied else memory.looks + looks,
        looked_at=end.ended if looks else memory.looked_at,
    )


def after_rescue(memory: SourceMemory, end: RunEnd) -> SourceMemory:
    """The memory after a rescue. It says nothing of whether ordinary runs can do their work."""
    return replace(
        after_look(memory, end),
        troubles={**memory.troubles, **dict.fromkeys(end.report.troubles, end.ended)},
        bad_rows=_bad_rows(memory, end),
    )


def _bad_rows(memory: SourceMemory, end: RunEnd) -> Mapping[str, float]:
    """The rows that runs could not read of late, the newest MOST_BAD_ROWS of them."""
    recent = {row: at for row, at in memory.bad_rows.items() if end.ended - at < BAD_ROW_KEPT}
    rows = {**recent, **dict.fromkeys(end.report.bad_rows, end.ended)}
    newest = sorted(rows, key=lambda row: rows[row], reverse=True)[:MOST_BAD_ROWS]
    return {row: rows[row] for row in newest}


def _fruitless(so_far: int, fruitless: bool | None) -> int:
    if fruitless is None:
        return so_far
    return so_far + 1 if fruitless else 0
