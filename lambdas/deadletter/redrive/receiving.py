"""Receives letters from a queue, and keeps those in hand that wait for their router request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from deadletter.message.queue import MAX_BATCH, Queue, ReceivedLetter, TooManyInFlight
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import request_bytes
from deadletter.redrive.run_limits import MAX_REQUEST, RunLimits


class LettersInHand:
    """Letters under one worker's lock, in the order of their receipt.

    Measuring a letter encodes all of it: it is done when the letter comes in, and not again.
    """

    def __init__(self, letters: Iterable[ReceivedLetter] = ()) -> None:
        self._letters: dict[str, ReceivedLetter] = {}
        self._bytes: dict[str, int] = {}
        self._total = 0
        self._measured = 0
        self._measured_bytes = 0
        self.taken_bytes = 0
        """Bytes of the letters that were taken last."""
        self.add(letters)

    def add(self, letters: Iterable[ReceivedLetter]) -> None:
        """Take letters in hand.

        SQS may return a copy twice, and only its last handle deletes it: the last one counts.
        """
        for received in letters:
            copy = received.letter.message_id
            if copy not in self._letters:
                self._bytes[copy] = request_bytes(received)
                self._total += self._bytes[copy]
                self._measured += 1
                self._measured_bytes += self._bytes[copy]
            self._letters[copy] = received

    @property
    def fill_a_request(self) -> bool:
        """Whether one router request can hold no more than these."""
        return self._total >= MAX_REQUEST

    @property
    def receives_to_fill_a_request(self) -> int:
        """How many whole receives fit into the rest of a router request, at least one.

        Letters are taken to be as large as those before: their bodies are all in memory.
        """
        if not self._measured:
            return 1
        of_a_receive = MAX_BATCH * self._measured_bytes / self._measured
        return max(1, int((MAX_REQUEST - self._total) / of_a_receive))

    def take(self, most: int) -> list[ReceivedLetter]:
        """At most `most` letters that fit into one router request; they are in hand no more."""
        taken: list[ReceivedLetter] = []
        size = self.taken_bytes = 0
        for copy in list(islice(self._letters, most)):
            size += self._bytes[copy]
            if taken and size > MAX_REQUEST:
                break
            taken.append(self._letters.pop(copy))
            self._total -= self._bytes[copy]
            self.taken_bytes += self._bytes.pop(copy)
        return taken

    def clear(self) -> None:
        self._letters.clear()
        self._bytes.clear()
        self._total = 0

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[ReceivedLetter]:
        return iter(self._letters.values())


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
        self._fifo = fifo

    def fill(self, in_hand: LettersInHand, most: int, *, whole_receives: bool) -> None:
        """Receive until `most` letters are in hand, one router request is full, or none came.

        With `whole_receives` it may become up to nine more: each call asks for as many as SQS
        gives. Raises QueueUnavailable; what other calls brought is in hand then.
        """
        while len(in_hand) < most and not in_hand.fill_a_request:
            sizes = _sizes(most - len(in_hand), whole_receives=whole_receives)
            worth = min(in_hand.receives_to_fill_a_request, self._run.receives_worth)
            at_once = 1 if self._fifo else worth
            # Long polling only with an empty hand: otherwise letters wait to be moved. A queue
            # that had letters for all calls needs none, and one that gave all that it was said to
            # hold is waited for in vain: each second of a run is paid.
            is_long = not in_hand and at_once == 1 and self._run.chunks_worth > 0
            had_letters = bool(in_hand)
            try:
                polls = self._receive(in_hand, sizes[:at_once], is_long=is_long)
            except TooManyInFlight:
                if not in_hand:
                    raise
                break
            brought = sum(len(poll.letters) for poll in polls)
            if not brought:
                if had_letters or at_once == 1:
                    break
                self._run.note_in_vain()
            # It gave what it was said to hold: the next chunk looks for more.
            elif brought < sum(poll.size for poll in polls) and not self._run.chunks_worth:
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
        poll.letters = self._queue.receive(poll.size, self._run.lock_seconds, seconds)


@dataclass(slots=True)
class _Poll:
    """One call: how many letters it asks for, and those that it brings."""

    size: int
    letters: Sequence[ReceivedLetter] = ()


def _sizes(wanted: int, *, whole_receives: bool) -> list[int]:
    """How many letters each call asks for."""
    last = wanted % MAX_BATCH
    whole = [MAX_BATCH] * (wanted // MAX_BATCH)
    return [*whole, MAX_BATCH if whole_receives else last] if last else whole
