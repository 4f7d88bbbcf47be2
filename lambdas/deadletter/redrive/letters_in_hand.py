"""Received letters that wait for their router request; each is measured once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from deadletter.message.queue import MAX_BATCH, ReceivedLetter
from deadletter.redrive.router_client import MAX_REQUEST, request_bytes


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
