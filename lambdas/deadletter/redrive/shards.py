"""A drain of one queue by several runs: how many, who starts them, and the rate that they keep."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from deadletter.circuit.state import Circuit, Circuits, CircuitsUnavailable, OutcomeCounts
from deadletter.contract import MOST_SHARDS
from deadletter.message.queue import Depth
from deadletter.pace.auto_rate import (
    LOOK_SECONDS,
    AutoRate,
    RateBounds,
    Signs,
    at_start,
    delay_share,
    fresh_outcomes,
    latest_outcomes,
    next_rate,
    seconds_to_next_look,
)
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid, rate_of
from deadletter.redrive.lease import Lease, LeaseUnavailable
from deadletter.redrive.redriver_setup import RedriverSetup, RunNotStarted
from deadletter.redrive.report import Tally
from deadletter.redrive.source_memory import NO_DRAIN, OWNER, Drain
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count, Figure

ENOUGH_LETTERS = 5_000
"""Visible letters from which a drain has shards, and goes on without waiting for the schedule:
one run moves as many within minutes."""

LETTERS_A_SHARD = 2_500
"""Visible letters that are worth a start of a function."""

RATE_A_SHARD = 200.0
"""Letters a second that one run surely moves where the dependency is not the limit (ADR 30)."""

MOST_HOPS = 12
"""Runs in a row of which each starts the next. Lambda ends a chain of 16, because it could be a
loop; the schedule begins a new one within a minute."""


@dataclass(frozen=True, slots=True)
class DrainShard:
    """The shard that a run was started for: its number, from 2, and the id of its drain."""

    drain: str
    number: int

    def belongs_to(self, drain: Drain, now: float) -> bool:
        """Whether the drain is still on, and has this shard."""
        return self.drain == drain.id and self.number <= drain.of and drain.is_on(now)


def shards_for(letters: int, rate: float, *, fifo: bool = False) -> int:
    """How many shards a drain has, from 1 to 8.

    `letters` are visible, `rate` (letters a second) is the pipeline's. More shards than the rate
    needs would only wait for it. A FIFO queue has one: see ADR 30.
    """
    if fifo or letters < ENOUGH_LETTERS:
        return OWNER
    wanted = math.ceil(rate / RATE_A_SHARD)
    return max(OWNER, min(wanted, MOST_SHARDS, letters // LETTERS_A_SHARD))


def saved(paid: RunPaid, drain: Drain, rate: Rate, now: float) -> RunPaid:
    """What an owner at this rate finds saved at `now` after a drain: while its shards may still be
    sending, only the last owner's part of the rate was free.
    """
    if drain.of == OWNER or drain.until <= paid.paid:
        return paid.at(rate, now)
    # An owner that was killed has left the whole rate.
    part = Rate(min(paid.rate.limit, drain.rate), drain.burst)
    return RunPaid(part, paid.paid).at(rate, min(drain.until, now))


def shard_event(home: str, drain: Drain, number: int) -> dict[str, Any]:
    """The event of a run that is to work on the queue `home` as this shard of a drain."""
    return {"source": home, "drain": drain.id, "shard": number}


def next_event(home: str, hop: int) -> dict[str, Any]:
    """The event of a run that goes on with the queue `home`, the so-manieth of its chain."""
    return {"source": home, "hop": hop}


def shard_in(event: Mapping[str, Any]) -> DrainShard | None:
    """The shard that an event asks for; None for any other run."""
    drain, number = event.get("drain"), event.get("shard")
    if not isinstance(drain, str) or not isinstance(number, int) or number <= OWNER:
        return None
    return DrainShard(drain, number)


def hop_in(event: Mapping[str, Any]) -> int:
    """How many runs started one another before this one; 0 for a run of the schedule."""
    hop = event.get("hop")
    return hop if isinstance(hop, int) and hop > 0 else 0


class DrainOwner:
    """The part of one run in a drain; a run alone owns a drain of one shard."""

    def __init__(self, setup: RedriverSetup) -> None:
        self._setup = setup
        self._drain = NO_DRAIN

    @property
    def of(self) -> int:
        """How many shards there are, this run among them."""
        return self._drain.of

    def part(
        self, left: RunPaid, rate: Rate, letters: int, deadline: float, *, more: bool
    ) -> RunPaid:
        """What this run may send of the whole `rate`; starts other shards for a deep queue.

        `left` is what the last run has left, `letters` are visible. Without `more` no shard is
        started; but as long as those of the last drain may be sending, this run leaves them their
        part. The run has the lease: if an error ends it here, the lease is given back.
        """
        if self._setup.starter is None:
            return left.at(rate, self._setup.clock())
        try:
            return self._part(left, rate, letters, deadline, more=more)
        except BaseException:
            setup = self._setup
            report = setup.tally.report(setup.pipeline.name, setup.home, "")
            setup.lease.give_back(setup.owner, left, report, setup.clock())
            raise

    def _part(
        self, left: RunPaid, rate: Rate, letters: int, deadline: float, *, more: bool
    ) -> RunPaid:
        now = self._setup.clock()
        # Read under the lease: an owner may have begun and ended since this run began.
        before = self._setup.lease.read().drain
        whole = saved(left, before, rate, now)
        of = OWNER
        if more:
            of = shards_for(letters, rate.limit, fifo=self._setup.pipeline.fifo)
        starts = of > OWNER
        if before.is_on(now):
            of = before.of
        if of == OWNER:
            return whole
        part = whole.share(1 / of, now)
        self._drain = Drain(self._setup.owner, of, deadline, part.rate.limit, part.rate.burst)
        if starts:
            self._start()
        return part

    def keep_pace(self, part: Rate) -> None:
        """Have the other shards go on at the rate and burst of this run."""
        if self.of == OWNER or (part.limit, part.burst) == (self._drain.rate, self._drain.burst):
            return
        before = self._drain
        self._drain = replace(before, rate=part.limit, burst=part.burst)
        try:
            self._setup.lease.record_drain(self._drain)
        except LeaseUnavailable as error:
            # They end with this run, at the rate that they had.
            self._setup.tally.note_trouble(str(error))
            self._drain = before

    def _start(self) -> None:
        # A shard that finds no drain in the lease moves nothing.
        self._setup.lease.record_drain(self._drain)
        events = [
            shard_event(self._setup.home, self._drain, number)
            for number in range(OWNER + 1, self.of + 1)
        ]
        self._setup.in_parallel([partial(start_run, self._setup, event) for event in events])


def start_run(setup: RedriverSetup, event: Mapping[str, Any]) -> None:
    """Start a run beside this one. Without it the rest of the drain is slower, no more."""
    assert setup.starter is not None, "only a run that can start others asks for one"
    try:
        setup.starter.start(event)
    except RunNotStarted as error:
        setup.tally.note_trouble(str(error))


def following(lease: Lease, tally: Tally, first_rate: float) -> Callable[[Depth, RunPace], float]:
    """Keeps the pace of a shard as the owner sets it; `lease` is the owner's.

    The owner began at `first_rate`, that of all shards together, if no run had sent of late.
    """

    def look(_main: Depth, pace: RunPace) -> float:
        try:
            drain = lease.read().drain
        except LeaseUnavailable as error:
            tally.note_trouble(str(error))
            return LOOK_SECONDS
        whole = drain.rate * drain.of
        if whole > 0:
            pace.change(Rate(drain.rate, drain.burst))
            # Only a deep queue has shards.
            pace.delay_share = delay_share(whole)
        return seconds_to_next_look(whole, first_rate)

    return look


SAVED_SECONDS = 4.0
"""Seconds of the rate that may be saved up: letters of a deep queue are hardly delayed, and a burst
arrives as one. It is worth two chunks of a worker."""


class RateKeeper:
    """The rate of one run of a pipeline that finds its own, shared by its workers.

    `known` is what the run before has left, `circuit` the pipeline's own as the run has read it;
    `clock` gives epoch seconds. The run is the `owner` of a drain: what it sends is its part, and
    the other shards go on at its pace. Of a `deep` queue letters are delayed less, the higher the
    rate is.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        known: AutoRate | None,
        circuit: Circuit,
        circuits: Circuits,
        tally: Tally,
        clock: Callable[[], float],
        owner: DrainOwner,
        *,
        deep: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._circuit = circuit
        self._circuits = circuits
        self._tally = tally
        self._clock = clock
        self._lock = threading.Lock()
        self._bounds = RateBounds(
            first=pipeline.first_rate, most=pipeline.rate, backlog=pipeline.backlog_limit
        )
        self.rate = at_start(known, self._bounds, clock())
        self._looked_at: float | None = None
        self._since: tuple[float, int] | None = None
        self._owner = owner
        self._deep = deep

    @property
    def whole(self) -> Rate:
        """The present rate; a circuit that has just closed admits a share of it."""
        share = self._circuit.admitted_share(self._pipeline.circuit, self._clock())
        return rate_of(self.rate.rate, SAVED_SECONDS).share(share)

    def look(self, main: Depth, pace: RunPace) -> float:
        """Look at the consumer, given the main queue's depth, and pace what is sent from now on.

        Nothing is changed if the circuit cannot be read, or if the last look was just now.
        Returns the seconds until the next look.
        """
        with self._lock:
            self._look(main, pace, self._clock())
            return self._pause

    @property
    def _pause(self) -> float:
        return seconds_to_next_look(self.rate.rate, self._bounds.first)

    def _look(self, main: Depth, pace: RunPace, now: float) -> None:
        if self._looked_at is not None and now - self._looked_at < self._pause:
            return
        is_first, self._looked_at = self._looked_at is None, now
        seen = self._circuit
        if not is_first and not self._read_circuit():
            return
        before = self.rate
        self.rate = next_rate(before, self._signs(main, seen, now), self._bounds)
        if self._since is None or self.rate.changed_at != before.changed_at:
            self._since = (now, self._tally.count_of(Figure.REDRIVEN))
        part = self.whole.share(1 / self._owner.of)
        pace.change(part)
        if self._deep:
            pace.delay_share = delay_share(self.rate.rate)
        self._owner.keep_pace(part)

    def _read_circuit(self) -> bool:
        name = self._pipeline.name
        try:
            self._circuit = self._circuits.read([name])[name]
        except CircuitsUnavailable as error:
            self._tally.note_trouble(str(error))
            return False
        return True

    def _signs(self, main: Depth, seen: Circuit, now: float) -> Signs:
        """What is seen now, where the circuit was as `seen` at the last look."""
        circuit, redriven = self._circuit, self._tally.count_of(Figure.REDRIVEN)
        since, sent_before = self._since or (now, 0)
        outcomes = fresh_outcomes(circuit, self._pipeline.circuit, self.rate, now)
        is_reported = self._pipeline.consumer_library and outcomes.total > 0
        if not outcomes.total:
            bounced = self._tally.count_of(Count.REDRIVE_BOUNCED)
            outcomes = OutcomeCounts(good=max(0, redriven - bounced), bad=bounced)
        return Signs(
            now=now,
            waiting=main.visible,
            delayed=main.delayed,
            # The other shards send as much.
            sent=None if self._since is None else (redriven - sent_before) * self._owner.of,
            seconds=now - since,
            outcomes=outcomes,
            latest=latest_outcomes(circuit, seen, self._pipeline.circuit, now),
            letters_own=not is_reported,
            opened=not circuit.is_closed or circuit.closed_at > self.rate.changed_at,
        )
