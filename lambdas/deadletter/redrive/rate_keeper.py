"""Keeps the rate of one run: looks at the consumer while letters go back, and changes the pace."""

from __future__ import annotations

import threading
from collections.abc import Callable

from deadletter.circuit.state import Circuit, Circuits, CircuitsUnavailable, OutcomeCounts
from deadletter.message.queue import Depth
from deadletter.pace.auto_rate import (
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
from deadletter.pace.run import RunPace, rate_of
from deadletter.redrive.drain_owner import DrainOwner
from deadletter.redrive.report import Tally
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count, Figure

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
