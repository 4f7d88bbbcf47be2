"""Gives the workers of a run their turns, each at the queue or in a lane of the waiting room."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from deadletter.circuit.state import CircuitsUnavailable
from deadletter.message.queue import QueueUnavailable
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.fair_shares import QUEUE, Shares, Turn, end_turn, next_turn
from deadletter.redrive.journal import JournalUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.report import Tally
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


class TakesTurns(Protocol):
    """Moves letters out of one place; never used by two threads at once."""

    taken: int
    """Letters that it has taken in hand so far."""

    @property
    def is_done(self) -> bool:
        """Whether it can find no more letters in this run."""

    @property
    def rests_until(self) -> float:
        """Epoch seconds before which it may send no letter; 0 for one without a rate of its own."""

    def take_turn(self, letters: int) -> None:
        """Move up to so many letters. Raises the errors of ENDS_A_RUN."""

    def close(self) -> None:
        """Remove its intent from the journal after the last turn."""


class Turns:
    """The turns of one run, given to several threads at once.

    `workers` are those of the queue and of each lane, by the name of their source;
    `letters` is the quantum of a turn. When more chunks are worth it than there are threads,
    `in_parallel` starts more, each with a `new_worker` of the queue.
    """

    def __init__(
        self,
        *,
        shares: Shares,
        letters: int,
        workers: Mapping[str, Sequence[TakesTurns]],
        run: RunLimits,
        tally: Tally,
        in_parallel: InParallel | None = None,
        new_worker: Callable[[], TakesTurns] | None = None,
    ) -> None:
        self._in_parallel = in_parallel
        self._new_worker = new_worker
        self._first = self._working = 0
        self._of_queue = len(workers.get(QUEUE, ()))
        self._lock = threading.Lock()
        self._shares = shares
        self._letters = letters
        self._idle = {source: deque(of_source) for source, of_source in workers.items()}
        self._has_queue = bool(workers.get(QUEUE))
        self._served: set[str] = set()
        self._run = run
        self._tally = tally

    @property
    def shares(self) -> Shares:
        """Where the turns of the next run go on."""
        return self._shares

    @property
    def served(self) -> frozenset[str]:
        """The sources that had a turn."""
        return frozenset(self._served)

    def work(self) -> None:
        """Take turns until no source has letters left or the run has to end."""
        with self._lock:
            self._first += 1
            self._working += 1
        self._work()

    def _work(self) -> None:
        while not self._leaves_as_surplus():
            turn = self._take()
            if turn is None:
                with self._lock:
                    self._working -= 1
                return
            self._use(turn)
            if self._in_parallel is not None and self._has_room_for_one_more():
                self._in_parallel([self._work, self._work])
                return

    def _use(self, turn: Turn) -> None:
        used = 0
        try:
            while used < turn.letters and (worker := self._worker_of(turn.source)) is not None:
                before = worker.taken
                try:
                    worker.take_turn(turn.letters - used)
                finally:
                    used += worker.taken - before
                    self._give_back(turn.source, worker)
        except RoomUnavailable as error:
            self._end_room(turn.source, stop_reason(error, self._tally))
        except ENDS_A_RUN as error:
            self._run.stop(stop_reason(error, self._tally))
        finally:
            self._end(turn, used)

    def _leaves_as_surplus(self) -> bool:
        """Whether this thread ends because fewer are worth it now; never one of the first."""
        with self._lock:
            is_surplus = self._working > max(self._first, self._run.chunks_worth)
            self._working -= is_surplus
            return is_surplus

    def _has_room_for_one_more(self) -> bool:
        """Whether one more thread is worth it; it is counted then, and a worker waits for it."""
        with self._lock:
            is_over = self._run.stopped is not None or self._run.queue_is_empty
            if is_over or self._new_worker is None or self._working >= self._run.chunks_worth:
                return False
            self._working += 1
            if self._working > self._of_queue:
                self._idle[QUEUE].append(self._new_worker())
                self._of_queue += 1
            return True

    def _take(self) -> Turn | None:
        """The next turn. While the only letters left have to wait for their rate, so does this."""
        while True:
            with self._lock:
                if self._run.stopped is not None:
                    return None
                now = self._run.clock()
                rests = {
                    source: min(worker.rests_until for worker in workers)
                    for source, workers in self._idle.items()
                    if workers
                }
                awake = [source for source, until in rests.items() if until <= now]
                turn, self._shares = next_turn(self._shares, awake, self._letters)
                if turn is not None:
                    self._served.add(turn.source)
                    return turn
            if not rests or not self._run.rest(min(rests.values()) - now):
                return None

    def _worker_of(self, source: str) -> TakesTurns | None:
        with self._lock:
            workers = self._idle.get(source)
            now = self._run.clock()
            if not workers or all(worker.rests_until > now for worker in workers):
                return None
            while workers[0].rests_until > now:
                workers.rotate(-1)
            return workers.popleft()

    def _give_back(self, source: str, worker: TakesTurns) -> None:
        with self._lock:
            if not worker.is_done and source in self._idle:
                self._idle[source].append(worker)

    def _end(self, turn: Turn, used: int) -> None:
        with self._lock:
            is_cut = self._run.stopped is not None
            self._shares = end_turn(self._shares, turn, used, is_cut=is_cut)

    def _end_room(self, source: str, reason: str) -> None:
        """Letters in the room wait; those in the queue need not wait for them."""
        if source == QUEUE or not self._has_queue:
            self._run.stop(reason)
        with self._lock:
            self._idle = {QUEUE: self._idle[QUEUE]}
