"""Polls a queue in a container: `deadletter.consumer.poll`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Event, Lock, Thread, current_thread, main_thread
from typing import Literal

from deadletter.consumer import Each, Record, runtime
from deadletter.consumer.runtime import Runtime, finished
from deadletter.failure.blame import Errors, TeamsWord, teams_word
from deadletter.processing.batch import (
    CANCELLING_SHARE,
    Consumer,
    finishing_seconds,
)
from deadletter.processing.crew import Crew, Threads, check_concurrency
from deadletter.processing.poller import (
    BEAT_SECONDS,
    CLOSING_SECONDS,
    MOST_RECEIVED,
    InHand,
    Poller,
    Source,
    Stop,
)
from deadletter.processing.result import BatchResult
from deadletter.processing.unguarded import process_unguarded

LONGEST_SECONDS = 43_000.0
"""SQS hides a message for twelve hours at most."""

WAIT_SECONDS = 20
"""The longest that SQS lets a receive wait for messages."""

RECEIVING_SHARE = 0.4
"""The longest part of the time for stopping that a receive, which cannot be stopped, may wait."""


def poll(
    each: Each,
    *,
    queue_url: str | None,
    concurrency: int,
    longest: float,
    stop_within: float,
    metrics: Literal["emf"] | None,
    dependency_errors: Errors,
    ignored_errors: Errors,
    stop: Event | None,
) -> None:
    """See `deadletter.consumer.poll`."""
    check_concurrency(concurrency)
    _check("longest", longest, 1.0, LONGEST_SECONDS)
    _check("stop_within", stop_within, 1.0, LONGEST_SECONDS)
    if metrics not in ("emf", None):
        raise ValueError(f'metrics is {metrics!r}; allowed: "emf" or None')
    team = teams_word(dependency_errors, ignored_errors)
    current = runtime.current_runtime()
    url = queue_url or current.queue_url
    if not url:
        raise ValueError(
            "with DEADLETTER=off the queue is not known; call poll(…, queue_url=<the queue's URL>)"
        )
    if metrics is None:
        current = current.without_metrics()
    ending = _Ending(stop or Event(), current.clock, stop_within)
    pollers = _Pollers(
        each, current, current.source(url), team, ending, concurrency=concurrency, longest=longest
    )
    with _signals(ending.stop):
        pollers.run()


class _Ending:
    """The end of polling, and when it has to be over once it has been asked for."""

    def __init__(self, stop: Event, clock: Callable[[], float], within: float) -> None:
        self.stop = stop
        self.within = within
        self._clock = clock
        self._lock = Lock()
        self._asked_at: float | None = None

    def deadline(self) -> float:
        """When batches have to have ended (epoch seconds); never while polling goes on."""
        if not self.stop.is_set():
            return float("inf")
        with self._lock:
            if self._asked_at is None:
                self._asked_at = self._clock()
            share = min(CLOSING_SECONDS, self.within / 5)
            return self._asked_at + self.within - share


class _Pollers:
    """The threads of one `poll`: loops of receives, and the heartbeat of all."""

    def __init__(
        self,
        each: Each,
        current: Runtime,
        source: Source,
        team: TeamsWord,
        ending: _Ending,
        *,
        concurrency: int,
        longest: float,
        crew: Crew | None = None,
    ) -> None:
        self._crew = crew or Threads(current.clock)
        self._each = each
        self._current = current
        self._source = source
        self._team = team
        self._ending = ending
        self._longest = longest
        self._in_hand = InHand(source, current.clock)
        loops = -(-concurrency // MOST_RECEIVED)
        self._shares = [
            concurrency // loops + (number < concurrency % loops) for number in range(loops)
        ]
        self._error: BaseException | None = None

    def run(self) -> None:
        """Poll until the end is asked for, and what is in hand is settled or given back."""
        stop, ended = self._ending.stop, Event()
        heart = Thread(target=self._beat, args=(ended,), daemon=True)
        loops = [Thread(target=self._loop, args=(share,), daemon=True) for share in self._shares]
        for thread in (heart, *loops):
            thread.start()
        try:
            for thread in loops:
                while thread.is_alive() and not self._is_over():
                    # A short wait, so that a signal is served by this thread.
                    thread.join(0.1)
        finally:
            stop.set()
            ended.set()
        if self._error is not None:
            raise self._error

    def _is_over(self) -> bool:
        return self._current.clock() >= self._ending.deadline() + CLOSING_SECONDS

    def _beat(self, ended: Stop) -> None:
        while not ended.wait(BEAT_SECONDS):
            with suppress(Exception):
                self._in_hand.beat()

    def _loop(self, share: int) -> None:
        try:
            self.poller(share).run()
        except BaseException as error:
            self._error = error
            self._ending.stop.set()

    def poller(self, share: int) -> Poller:
        """One loop, which handles so many messages at the same time."""
        return Poller(
            source=self._source,
            in_hand=self._in_hand,
            process=lambda records, in_hand: self._process(records, in_hand, share),
            settled=self._settled,
            troubled=self._troubled,
            stop=self._ending.stop,
            clock=self._current.clock,
            random=self._current.random,
            at_once=share,
            longest=self._longest,
            wait=max(1, min(WAIT_SECONDS, int(self._ending.within * RECEIVING_SHARE))),
        )

    def _process(self, records: Sequence[Record], in_hand: InHand, share: int) -> BatchResult:
        clock, consumer = self._current.clock, self._current.consumer
        deadline = clock() + self._longest
        finishing = finishing_seconds(self._longest)

        def seconds_left() -> float:
            end = min(deadline, self._ending.deadline())
            return end - CANCELLING_SHARE * finishing - clock()

        handle = finished(self._each, seconds_left)
        if consumer is None:
            return process_unguarded(
                records,
                handle,
                clock(),
                crew=self._crew,
                concurrency=share,
                goes_on=lambda: clock() < min(deadline, self._ending.deadline()),
            )
        guarded: Consumer = replace(
            consumer,
            handle=lambda delivery: handle(delivery.record),
            team=self._team,
            queue=in_hand,
            crew=self._crew,
            bounded=True,
        )
        return guarded.process(
            records, deadline=deadline, concurrency=share, cut=self._ending.deadline
        )

    def _settled(self, result: BatchResult, undeleted: int) -> None:
        self._current.report(result)
        if undeleted:
            self._current.warn(
                "messages were processed, and come back because they could not be deleted",
                f"{undeleted} of them",
            )

    def _troubled(self, error: Exception) -> None:
        self._current.warn("the queue could not be polled; trying again", str(error))


def _check(name: str, seconds: float, least: float, most: float) -> None:
    if not isinstance(seconds, int | float) or not least <= seconds <= most:
        raise ValueError(f"{name} is {seconds!r}; allowed: {least:g} to {most:g} seconds")


@contextmanager
def _signals(stop: Event) -> Iterator[None]:
    """Make SIGTERM and SIGINT ask for the end, once: the second does what it did before."""
    if current_thread() is not main_thread():
        # Only the main thread may handle signals; the caller has `stop`.
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def ask(_number: int, _frame: object) -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        restore()
