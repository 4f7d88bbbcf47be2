"""Gives the workers of a run their turns, each at the queue or in a lane of the waiting room."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from deadletter.circuit.state import CircuitsUnavailable
from deadletter.message.queue import QueueUnavailable
from deadletter.redrive.draining import Draining
from deadletter.redrive.journal import JournalUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.report import Tally
from deadletter.redrive.round_robin import LANES, QUEUE, LastTurn, in_turn, kind_of, next_turn
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.router import RouterUnavailable
from deadletter.signals.figures import Count, Counted

_UNAVAILABLE: tuple[tuple[type[Exception], Counted, str], ...] = (
    (CircuitsUnavailable, Count.CIRCUITS_UNAVAILABLE, "the circuits cannot be read: hold"),
    (LeaseUnavailable, Count.LEASE_UNAVAILABLE, "the lease cannot be read"),
    (QueueUnavailable, Count.QUEUE_UNAVAILABLE, "a queue gave no answer"),
    (RouterUnavailable, Count.ROUTER_UNAVAILABLE, "the router gave no answer"),
    (RoomUnavailable, Count.ROOM_UNAVAILABLE, "the waiting room gave no answer"),
    (JournalUnavailable, Count.JOURNAL_UNAVAILABLE, "the journal gave no answer"),
)

ENDS_A_RUN: tuple[type[Exception], ...] = (RunStopped, *(kind for kind, _, _ in _UNAVAILABLE))
"""Errors that end a run in good order: a letter that was not moved stays where it is."""


def stop_reason(error: Exception, tally: Tally) -> str:
    """The reason in the report of a run that `error` ends; counts the error under its metric.

    A run that something unavailable ends has not ended well, and its trouble is the error's
    text.

    Raises an error again that is not in ENDS_A_RUN.
    """
    for kind, metric, reason in _UNAVAILABLE:
        if isinstance(error, kind):
            tally.count(metric)
            tally.fail(str(error) or reason)
            return f"{reason}: {error}" if str(error) else reason
    if isinstance(error, RunStopped):
        return str(error)
    raise error


class Turns:
    """The turns of one run, given to several threads at once.

    `workers` are those of the queue and of each lane, by the name of their source; a turn has
    so many `letters`, and follows the `last` one.
    """

    def __init__(
        self,
        *,
        last: LastTurn,
        letters: int,
        workers: Mapping[str, Sequence[Draining]],
        run: RunLimits,
        tally: Tally,
    ) -> None:
        self.last = last
        self._lock = threading.Lock()
        self._letters = letters
        self._idle = {source: deque(of_source) for source, of_source in workers.items()}
        self._has_queue = bool(workers.get(QUEUE))
        self._served: set[str] = set()
        self._run = run
        self._tally = tally

    @property
    def served(self) -> frozenset[str]:
        """The sources that had a turn."""
        return frozenset(self._served)

    def work(self) -> None:
        """Take turns until no source has letters left or the run has to end."""
        while (source := self._take()) is not None:
            self._use(source)

    def _use(self, source: str) -> None:
        """Move the letters of one turn; lanes with fewer have one together."""
        used = 0
        try:
            while used < self._letters:
                worker = self._worker_of(source)
                if worker is None:
                    if (another := self._lane_beside(source)) is None:
                        return
                    source = another
                    continue
                before = worker.taken
                try:
                    worker.take_turn(self._letters - used)
                finally:
                    used += worker.taken - before
                    self._give_back(source, worker)
        except RoomUnavailable as error:
            self._end_room(source, stop_reason(error, self._tally))
        except ENDS_A_RUN as error:
            self._run.stop(stop_reason(error, self._tally))

    def _take(self) -> str | None:
        """The source of the next turn.

        While the only letters left have to wait for their rate, so does this.
        """
        while True:
            with self._lock:
                if self._run.stopped is not None:
                    return None
                now, rests = self._run.clock(), self._rests()
                awake = [source for source, until in rests.items() if until <= now]
                if (turn := next_turn(self.last, awake)) is not None:
                    source, self.last = turn
                    self._served.add(source)
                    return source
            if not rests or not self._run.rest(min(rests.values()) - now):
                return None

    def _lane_beside(self, source: str) -> str | None:
        """The lane that goes on with the turn of a lane which has no more letters for it."""
        with self._lock:
            now, rests = self._run.clock(), self._rests()
            lanes = [lane for lane in rests if kind_of(lane) == LANES and rests[lane] <= now]
            if kind_of(source) != LANES or not lanes:
                return None
            lane = in_turn(self.last, lanes)[0]
            self.last = replace(self.last, lane=lane)
            self._served.add(lane)
            return lane

    def _rests(self) -> dict[str, float]:
        """Until when each source rests that has workers to spare."""
        return {
            source: min(worker.rests_until for worker in workers)
            for source, workers in self._idle.items()
            if workers
        }

    def _worker_of(self, source: str) -> Draining | None:
        with self._lock:
            workers = self._idle.get(source)
            now = self._run.clock()
            if not workers or all(worker.rests_until > now for worker in workers):
                return None
            while workers[0].rests_until > now:
                workers.rotate(-1)
            return workers.popleft()

    def _give_back(self, source: str, worker: Draining) -> None:
        with self._lock:
            if not worker.is_done and source in self._idle:
                self._idle[source].append(worker)

    def _end_room(self, source: str, reason: str) -> None:
        """Letters in the room wait; those in the queue need not wait for them."""
        if source == QUEUE or not self._has_queue:
            self._run.stop(reason)
        with self._lock:
            self._idle = {QUEUE: self._idle[QUEUE]}
