"""The limits of one run: how long, how fast, and when it has to end."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deadletter.message.queue import MAX_BATCH, Depth, Queue
from deadletter.pace.run import RunPace, RunPaid
from deadletter.redrive.journal import MAX_PLANS

LOCK_PAST_DEADLINE = 60
"""Seconds a letter stays locked after the run that received it must have ended."""

SEND_AND_MARK = 10.0
"""Seconds that a send and its mark may take: one try of the client that sends (1 s to connect,
3 s to read) and two of the journal's (1 s and 1.5 s each, and up to 1 s between them). A run
sends nothing later than this before its deadline."""

WIND_DOWN = SEND_AND_MARK
"""Seconds before the deadline in which no new chunk is begun: it could send nothing."""

WORTH_SECONDS = 2.0
"""Seconds of the pace that a worker waits for at most before it begins a chunk: with more, the
letters would go in bursts; with less, each chunk costs its calls for a few letters."""

DEADLINE_NEAR = "the deadline is near"
"""Why a run ended that had more to do."""

PACE_USED_UP = "the pace allows no more before the deadline"
"""Why a run ended that had more to do, and not the pace for it."""

OUT_OF_TIME = (DEADLINE_NEAR, PACE_USED_UP)
"""Why runs ended whose time was too short for what there was to do."""

BACKLOG_CHECK_SECONDS = 5.0
"""Seconds between two reads of the main queue's backlog."""

ENOUGH_EMPTY_POLLS = 2
"""A poll may return nothing from a queue that is not empty."""

MOST_RECEIVES = 5
"""Receives of a worker at the same time: twice as many fill a chunk, and when a queue runs empty
those of all workers may be for nothing."""

MAX_REQUEST = 4_500_000
"""Bytes of one router request: Lambda refuses more than 6 MB, and one letter always fits."""

MOST_BYTES = 4 * MAX_REQUEST
"""Bytes of the letters of all chunks under way: each is in memory several times, as it came, in a
request, and as it goes. One chunk has at most a request's."""

UNKNOWN_CHUNK = MAX_REQUEST // 2
"""Bytes that a chunk is taken to have until one has come: so eight begin."""

MEMORY_PAUSE = 0.05
"""Seconds after which a worker without memory for its chunk looks again."""


def _whole_batches(letters: int) -> int:
    """The letters without those that would not fill a batch; fewer than a batch are kept."""
    return letters - letters % MAX_BATCH if letters > MAX_BATCH else letters


class RunStopped(Exception):
    """The run ends here in good order; the text says why."""


def fixed_rate(_main: Depth, _pace: RunPace) -> float:
    """The rate is fixed."""
    return BACKLOG_CHECK_SECONDS


def _no_trial() -> int | None:
    """Any number of letters may be tried."""
    return None


class RunLimits:
    """The limits of one run, shared by its workers.

    `deadline` is epoch seconds; `clock` gives them; `wait` lets seconds pass; `owner` is a
    text that no other run has. A run that sends nothing to the main queue needs neither
    `backlog_limit` (messages; None: any number) nor a pace. `look` is told the main queue's depth
    every few seconds, may change the pace, and says in how many seconds it looks again. `trial`
    says how many more letters may be tried (None: any number). So many `workers` have a chunk each
    under way. `left` collects the handles of letters that were received and not moved: handles
    alone, because the bodies of a whole DLQ would not fit into memory.
    """

    def __init__(
        self,
        *,
        owner: str,
        deadline: float,
        clock: Callable[[], float],
        wait: Callable[[float], None],
        main: Queue,
        backlog_limit: int | None,
        pace: RunPace,
        paced: bool = True,
        look: Callable[[Depth, RunPace], float] = fixed_rate,
        trial: Callable[[], int | None] = _no_trial,
        workers: int = 1,
    ) -> None:
        self.owner = owner
        self.deadline = deadline
        self.clock = clock
        self.left: list[str] = []
        self.stopped: str | None = None
        self._workers = workers
        self._wait = wait
        self._main = main
        self._backlog_limit = backlog_limit
        self._pace = pace
        self._paced = paced
        self._look = look
        self._trial = trial
        self._read_backlog_at = -math.inf
        self._lock = threading.Lock()
        self._empty_polls = 0
        self._long_polls = 0
        self._under_way = 0
        self._chunk_bytes = 0
        self._expected = math.inf

    @property
    def lock_seconds(self) -> int:
        # Rounded down: sends end so long before the lock does, and before the deadline too.
        return math.floor(max(0.0, self.deadline - self.clock())) + LOCK_PAST_DEADLINE

    @property
    def locked_until(self) -> float:
        """When a lock of `lock_seconds` that begins now ends."""
        return self.deadline + LOCK_PAST_DEADLINE

    @property
    def paid(self) -> RunPaid:
        """What this run leaves of its rate to the next one."""
        return self._pace.paid

    @property
    def delay_share(self) -> float:
        """The part of their first backoff that letters are delayed."""
        return self._pace.delay_share

    def permission(self, most: int) -> int:
        """How many letters may be sent now, at least one; waits until they are worth a chunk.

        A chunk of one letter costs as many calls as one of a hundred. Raises RunStopped at
        the deadline, when another worker has ended the run, and when more messages wait in
        the main queue than the pipeline's limit.
        """
        while True:
            self._check_limits()
            most = self._tried_at_most(most)
            if not self._paced:
                return most
            worth = self._worth(most)
            granted = self._take(most, worth)
            if granted:
                return granted
            pause = max(self._pace.seconds_until(worth), 0.05)
            if self.clock() + pause >= self.deadline - WIND_DOWN:
                granted = self._take(most, min(worth, MAX_BATCH))
                if granted:
                    return granted
                raise RunStopped(PACE_USED_UP)
            self._wait(pause)

    def rest(self, seconds: float) -> bool:
        """Let seconds pass; False if the run would have no time left after them."""
        if self.clock() + seconds >= self.deadline - WIND_DOWN:
            return False
        self._wait(seconds)
        return True

    def _worth(self, most: int) -> int:
        """The letters that are worth a chunk: at most what the pace allows in two seconds."""
        rate = self._pace.paid.rate
        letters = min(most, int(rate.burst), int(rate.limit * WORTH_SECONDS))
        return max(1, _whole_batches(letters))

    def _take(self, most: int, least: int) -> int:
        taken = self._pace.take(most, least)
        granted = taken if taken == most else _whole_batches(taken)
        self.give_back(taken - granted)
        return granted

    def give_back(self, unused: int) -> None:
        """Return what was permitted and not sent."""
        if unused > 0 and self._paced:
            self._pace.give_back(unused)

    @contextmanager
    def chunk(self) -> Iterator[None]:
        """A worker has a chunk under way, once there is memory for it.

        Waits before the letters are received, and takes them to be as large as the largest chunk so
        far. Raises RunStopped, as `permission` does.
        """
        while not self._begins_chunk():
            self._check_limits()
            self._wait(MEMORY_PAUSE)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def _begins_chunk(self) -> bool:
        with self._lock:
            needed = (self._under_way + 1) * (self._chunk_bytes or UNKNOWN_CHUNK)
            begins = not self._under_way or needed <= MOST_BYTES
            self._under_way += begins
            return begins

    def note_chunk_bytes(self, size: int) -> None:
        """The letters of a chunk have so many bytes."""
        with self._lock:
            self._chunk_bytes = max(self._chunk_bytes, size)

    def note_chunk(self, letters: int) -> None:
        """A worker has received so many letters, and is done with them."""
        with self._lock:
            self._empty_polls = 0 if letters else self._empty_polls + 1

    @property
    def queue_is_empty(self) -> bool:
        """Whether the last polls of all workers together found nothing.

        Those under way count: the worker that makes one goes on if it finds letters. One is enough
        where as many letters came as were expected.
        """
        empty_polls, enough = self._empty_polls, ENOUGH_EMPTY_POLLS if self.chunks_worth else 1
        return empty_polls > 0 and empty_polls + self._long_polls >= enough

    @contextmanager
    def long_poll(self) -> Iterator[None]:
        """A worker without letters waits for some meanwhile."""
        with self._lock:
            self._long_polls += 1
        try:
            yield
        finally:
            with self._lock:
                self._long_polls -= 1

    def expect(self, letters: int) -> None:
        """About so many letters are in the queue; until this is known, any number may be."""
        self._expected = letters

    def note_asked(self, letters: int) -> None:
        """So many letters were asked for; they are not expected any more."""
        with self._lock:
            self._expected -= letters

    def note_not_received(self, letters: int) -> None:
        """So many that were asked for did not come: they are expected still."""
        self.note_asked(-letters)

    def note_in_vain(self) -> None:
        """Several receives at once brought nothing: the queue has fewer letters than expected."""
        with self._lock:
            self._expected = min(self._expected, MAX_BATCH)

    @property
    def receives_worth(self) -> int:
        """Receives at the same time that the letters are enough for which are still expected."""
        return max(1, math.ceil(min(self._expected / MAX_BATCH, MOST_RECEIVES)))

    @property
    def chunks_worth(self) -> int:
        """Chunks at the same time that the letters are enough for which are still expected.

        0 when as many came as the depth had said.
        """
        expected = min(max(0, self._expected), self._workers * MAX_PLANS)
        return math.ceil(expected / MAX_PLANS)

    def stop(self, reason: str) -> None:
        """End the run for all its workers; the first reason is the one reported."""
        self.stopped = self.stopped or reason

    def _tried_at_most(self, most: int) -> int:
        left = self._trial()
        if left is not None and left <= 0:
            raise RunStopped("no message could be moved: the rest is left alone")
        return most if left is None else min(most, left)

    def _check_limits(self) -> None:
        now = self.clock()
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        if now >= self.deadline - WIND_DOWN:
            raise RunStopped(DEADLINE_NEAR)
        if self._backlog_limit is None:
            return
        if now >= self._read_backlog_at:
            self._read_backlog_at = now + BACKLOG_CHECK_SECONDS
            depth = self._main.depth()
            self._read_backlog_at = now + self._look(depth, self._pace)
            waiting = depth.visible
            if waiting > self._backlog_limit:
                raise RunStopped(f"{waiting} messages wait in the main queue already")
