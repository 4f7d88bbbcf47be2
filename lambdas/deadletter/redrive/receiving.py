"""Receives letters from a queue: several calls at once, while the queue has enough for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from deadletter.message.queue import MAX_BATCH, Queue, ReceivedLetter, TooManyInFlight
from deadletter.redrive.concurrency import Concurrency, InParallel
from deadletter.redrive.letters_in_hand import LettersInHand
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import RunLimits


class ChunkReceiver:
    """Fills one worker's chunks. At a FIFO queue it makes one call at a time.

    One that is nearly empty gets one call at a time too: most of several would be for nothing.
    """

    def __init__(
        self, queue: Queue, run: RunLimits, tally: Tally, in_parallel: InParallel, *, fifo: bool
    ) -> None:
        self._queue = queue
        self._run = run
        self._tally = tally
        self._in_parallel = in_parallel
        self._concurrency = Concurrency(1) if fifo else run.receives

    def fill(self, in_hand: LettersInHand, most: int, *, whole_receives: bool) -> None:
        """Receive until `most` letters are in hand, one router request is full, or none came.

        With `whole_receives` it may become up to nine more: each call asks for as many as SQS
        gives. Raises QueueUnavailable; what other calls brought is in hand then.
        """
        while len(in_hand) < most and not in_hand.fill_a_request:
            sizes = _sizes(most - len(in_hand), whole_receives=whole_receives)
            at_once = min(
                self._concurrency.calls,
                in_hand.receives_to_fill_a_request,
                self._run.receives_worth,
            )
            # Long polling only with an empty hand: otherwise letters wait to be moved. A queue
            # that had letters for all calls needs none, and one that gave all that it was said to
            # hold is waited for in vain: each second of a run is paid.
            is_last = at_once == 1
            is_long = not in_hand and is_last and self._run.expects_letters
            had_letters = bool(in_hand)
            try:
                polls = self._receive(in_hand, sizes[:at_once], is_long=is_long)
            except TooManyInFlight:
                if not in_hand:
                    raise
                break
            self._concurrency.note(median(poll.took for poll in polls), worth=_worth(polls))
            is_short = any(len(poll.letters) < poll.size for poll in polls)
            if (had_letters or is_last) and not any(poll.letters for poll in polls):
                break
            if in_hand and is_short and not self._run.expects_letters:
                # It gave what it was said to hold: the next chunk looks for more.
                break

    def _receive(
        self, in_hand: LettersInHand, sizes: Sequence[int], *, is_long: bool
    ) -> Sequence[_Poll]:
        """Make calls at once, and take what they bring in hand."""
        polls = [_Poll(size) for size in sizes]
        self._run.note_asked(sum(sizes))
        calls = [partial(self._poll, poll, int(is_long)) for poll in polls]
        try:
            if is_long:
                with self._run.long_poll():
                    self._in_parallel(calls)
            else:
                self._in_parallel(calls)
        finally:
            received = sum(len(poll.letters) for poll in polls)
            self._run.note_not_received(sum(sizes) - received)
            for poll in polls:
                sent_ms = [received.letter.sent_ms for received in poll.letters]
                self._tally.count_received(sent_ms, self._run.clock())
                in_hand.add(poll.letters)
        return polls

    def _poll(self, poll: _Poll, seconds: int) -> None:
        began = self._run.clock()
        poll.letters = self._queue.receive(poll.size, self._run.lock_seconds, seconds)
        poll.took = self._run.clock() - began


@dataclass(slots=True)
class _Poll:
    """One call: the letters that it asks for and brings, and the seconds that it takes."""

    size: int
    letters: Sequence[ReceivedLetter] = ()
    took: float = 0.0


def _sizes(wanted: int, *, whole_receives: bool) -> list[int]:
    """How many letters each call asks for."""
    last = wanted % MAX_BATCH
    whole = [MAX_BATCH] * (wanted // MAX_BATCH)
    return [*whole, MAX_BATCH if whole_receives else last] if last else whole


def _worth(polls: Sequence[_Poll]) -> float:
    """The share that calls brought of what they asked for; 0 if one of them brought nothing."""
    if not all(poll.letters for poll in polls):
        return 0.0
    return sum(len(poll.letters) for poll in polls) / sum(poll.size for poll in polls)
