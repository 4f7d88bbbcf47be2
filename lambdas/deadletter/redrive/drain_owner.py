"""The owner of a drain in shards: it records the drain, starts other runs, and sets the pace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from deadletter.message.queue import Depth
from deadletter.pace.auto_rate import LOOK_SECONDS, delay_share, seconds_to_next_look
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid
from deadletter.redrive.lease import Lease, LeaseUnavailable
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.report import Tally
from deadletter.redrive.shards import RunNotStarted, saved, shard_event, shards_for
from deadletter.redrive.source_memory import NO_DRAIN, OWNER, Drain


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
