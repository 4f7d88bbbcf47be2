"""Receives messages of a queue, lets them be processed and deletes those that are acknowledged.

For a consumer that is no Lambda function. Lambda's event source mapping does the same for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from threading import RLock
from typing import Protocol

from deadletter.processing.delivery import Record, handle_of
from deadletter.processing.result import BatchResult

MOST_RECEIVED = 10
"""SQS returns at most ten messages at once."""

HELD_SECONDS = 60
"""How long a message is hidden by its receive and by each heartbeat: after a crash it comes back
this soon."""

BEAT_SECONDS = 15.0
"""Time between two heartbeats: three of them may fail."""

LONGEST_PAUSE = 60.0
"""The longest pause after receives that failed."""

CLOSING_SECONDS = 2.0
"""How much of the time for stopping is left for deletes."""

BATCH_SECONDS = 5.0
"""As many messages are received at once as are handled in about this time: what waits in hand
cannot be taken by another process."""

DELETES = 4
"""Tries to delete a message that was processed."""


class SourceUnavailable(Exception):
    """The queue gave no messages; the message of the exception says why, without any URL."""


class Source(Protocol):
    """A queue of SQS, with its messages as the records of a Lambda event."""

    def receive(self, most: int, *, hidden: int, wait: int) -> Sequence[Record]:
        """Up to `most` messages, hidden for so many seconds; waits for the first.

        Raises SourceUnavailable.
        """

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide messages, by receipt handle, for seconds from now. Returns how many failed."""

    def delete(self, handles: Sequence[str]) -> Sequence[str]:
        """Delete messages; returns the handles of those that may still be in the queue."""


class Stop(Protocol):
    """Whether polling ends; as `threading.Event`."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool:
        """Wait for so many seconds, or until polling ends; returns whether it does."""


Process = Callable[[Sequence[Record], "InHand"], BatchResult]
"""Processes records. It hides them through `InHand`, which keeps them hidden meanwhile."""


class InHand:
    """The messages that a process holds, and keeps hidden from others. Safe for threads."""

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        # One call at a time: a heartbeat must not end after the message was hidden for longer.
        self._lock = RLock()
        self._until: dict[str, float] = {}

    def hold(self, records: Sequence[Record], until: float) -> None:
        """Keep messages hidden until they are let go, or until `until` (epoch seconds)."""
        with self._lock:
            self._until |= {handle_of(record): until for record in records}

    def let_go(self, handles: Sequence[str]) -> None:
        """Leave messages to their time-outs."""
        with self._lock:
            for handle in handles:
                self._until.pop(handle, None)

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide messages for as long as the library says, and let them go."""
        with self._lock:
            self.let_go([handle for handle, _ in waits])
            return self._source.hide(waits)

    def beat(self) -> None:
        """Keep all messages hidden for another while."""
        with self._lock:
            handles = [handle for handle, until in self._until.items() if self._clock() < until]
        for start in range(0, len(handles), MOST_RECEIVED):
            with self._lock:
                held = [
                    handle
                    for handle in handles[start : start + MOST_RECEIVED]
                    if handle in self._until
                ]
                if held:
                    self._source.hide([(handle, HELD_SECONDS) for handle in held])


class Poller:
    """One loop of receives, several of which may share `in_hand` and `stop`.

    `process` gets the records and returns what became of each; `settled` is told what was
    processed and how many of its messages could not be deleted, `troubled` why a receive failed.
    `at_once` is how many messages it handles at the same time, `longest` how long a batch may
    take and `wait` how long a receive waits, in seconds; `clock` gives epoch seconds.

    What happens to a message if the process dies:

    before its handler ends     it comes back when HELD_SECONDS are over
    after it, before the delete it comes back as a duplicate, and is deleted then
    """

    def __init__(
        self,
        *,
        source: Source,
        in_hand: InHand,
        process: Process,
        settled: Callable[[BatchResult, int], object],
        troubled: Callable[[Exception], object],
        stop: Stop,
        clock: Callable[[], float],
        random: Random,
        at_once: int,
        longest: float,
        wait: int,
    ) -> None:
        self._source = source
        self._in_hand = in_hand
        self._process = process
        self._settled = settled
        self._troubled = troubled
        self._stop = stop
        self._clock = clock
        self._random = random
        self._at_once = self._most = min(at_once, MOST_RECEIVED)
        self._longest = longest
        self._wait = wait
        self._failures = 0

    def run(self) -> None:
        """Poll until the end is asked for."""
        while not self._stop.is_set():
            self.turn()

    def turn(self) -> None:
        """Receive once, and process what came. Raises only what ends the process."""
        try:
            records = self._source.receive(self._most, hidden=HELD_SECONDS, wait=self._wait)
        except SourceUnavailable as error:
            self._pause(error)
            return
        handles = [handle_of(record) for record in records]
        if not records:
            self._failures = 0
            return
        if self._stop.is_set():
            # They came while the end was asked for.
            self._source.hide([(handle, 0) for handle in handles])
            return
        began = self._clock()
        self._in_hand.hold(records, began + self._longest)
        try:
            result = self._process(records, self._in_hand)
            self._settle(records, result)
            self._failures = 0
            self._learn((self._clock() - began) / len(records))
        except Exception as error:
            # A bug of the library, or settings that became invalid: the messages come back.
            self._pause(error)
        finally:
            self._in_hand.let_go(handles)

    def _settle(self, records: Sequence[Record], result: BatchResult) -> None:
        """Delete exactly the messages that the result acknowledges."""
        acknowledged = [
            handle_of(record)
            for record, message in zip(records, result.results, strict=True)
            if message.acknowledged
        ]
        undeleted: Sequence[str] = acknowledged
        for _ in range(DELETES):
            if not undeleted:
                break
            undeleted = self._source.delete(undeleted)
        if self._stop.is_set():
            left = {
                handle_of(record)
                for record, message in zip(records, result.results, strict=True)
                if not message.acknowledged and message.wait is None
            }
            if left:
                self._in_hand.hide([(handle, 0) for handle in sorted(left)])
        self._settled(result, len(undeleted))

    def _learn(self, seconds: float) -> None:
        """Receive as many as are handled in BATCH_SECONDS, at `seconds` for each."""
        quick = MOST_RECEIVED if seconds <= 0 else int(min(MOST_RECEIVED, BATCH_SECONDS / seconds))
        self._most = max(self._at_once, quick)

    def _pause(self, error: Exception) -> None:
        """Wait longer after each failure, with jitter: many processes fail at the same time."""
        self._failures += 1
        self._troubled(error)
        longest = min(LONGEST_PAUSE, 2.0 ** min(self._failures, 10))
        self._stop.wait(longest * (1 + self._random.random()) / 2)
