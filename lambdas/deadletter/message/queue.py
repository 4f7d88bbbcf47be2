"""The port of an SQS queue: receive under a lock, send, delete with a confirmation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from deadletter.contract import MAIN_DLQ
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, QueueTraits
from deadletter.message.letter import MAX_BYTES, Letter
from deadletter.message.stamp import Stamp

MAX_BATCH = 10
"""Entries in one SQS batch call, and messages in one receive."""


class QueueUnavailable(Exception):
    """The queue did not answer or refused the whole call; the message has the error code."""


class TooManyInFlight(QueueUnavailable):
    """The queue has as many messages in flight as SQS allows (about 120,000)."""


@dataclass(frozen=True, slots=True)
class ReceivedLetter:
    """A letter that is hidden from other receivers until `locked_until` (epoch seconds).

    `home` is the id of the queue it was received from: "dlq", a dedicated DLQ's id, or
    "parking:<id>". `is_rescued` says that it went into the waiting room without a decision:
    it has served no delay there. `spared` is the stamp's of a letter that waited: an
    item of the room keeps the letter as it came, without the stamp of its decision. `stamp`
    is the item's, for a letter in the custody of a replay run alone. `held_by` is the rule for
    which a letter waits in the room, and `held_since` when its wait began (epoch seconds).
    """

    letter: Letter
    handle: str = field(repr=False)
    locked_until: float
    home: str = MAIN_DLQ
    is_rescued: bool = False
    spared: int = 0
    stamp: Stamp | None = None
    held_by: str | None = None
    held_since: float | None = None


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of sending a batch of envelopes, by the id of the copy.

    `confirmed` holds the confirmations. `failed` and `refused` hold the reason for each copy
    that surely was not taken, because SQS says so or because no request left: one that failed
    may be accepted at another try, one that is refused will not. `unknown` are the copies that
    may or may not have arrived.
    """

    confirmed: Mapping[str, Confirmation] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Depth:
    """The approximate message counts that SQS reports."""

    visible: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        return self.visible + self.in_flight + self.delayed


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A queue as SQS describes it: its messages, its age (epoch seconds), its retention (s)."""

    depth: Depth
    created: float
    retention: float


class LetterStore(Protocol):
    """A place that letters are deleted from once they are confirmed elsewhere."""

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        """Delete these copies; returns those that may still exist."""


def check_confirmations(letters: Sequence[tuple[ReceivedLetter, Confirmation]]) -> None:
    """Raises ValueError if a confirmation is for another letter: its deletion would lose one."""
    for received, confirmation in letters:
        if confirmation.copy != received.letter.message_id:
            raise ValueError(
                f"the confirmation is for {confirmation.copy}, not for this message,"
                f" {received.letter.message_id}"
            )


class Queue(LetterStore, Protocol):
    """One SQS queue. Raises QueueUnavailable if a whole call fails."""

    @property
    def traits(self) -> QueueTraits: ...

    def receive(self, most: int, lock_seconds: int, wait_seconds: int) -> Sequence[ReceivedLetter]:
        """Up to ten letters with all attributes, locked for `lock_seconds` from now."""

    def send(self, batch: Sequence[Envelope]) -> SendResult:
        """Send a batch of up to ten. Errors are in the result, not raised."""

    def make_visible(self, handles: Sequence[str]) -> None:
        """End the locks of these letters now. A lock that cannot be ended expires by itself."""

    def depth(self) -> Depth: ...


def batches(envelopes: Iterable[Envelope]) -> Iterator[list[Envelope]]:
    """The envelopes in batches within the SQS limits: at most ten, and 1 MiB together."""
    batch: list[Envelope] = []
    size = 0
    for envelope in envelopes:
        if batch and (len(batch) == MAX_BATCH or size + envelope.size > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(envelope)
        size += envelope.size
    if batch:
        yield batch


class Grouped(Protocol):
    """Something with a FIFO group, or None."""

    @property
    def group(self) -> str | None: ...


G = TypeVar("G", bound=Grouped)


def waves(letters: Sequence[G], fifo: bool) -> Iterator[list[G]]:
    """The letters in waves that may be sent together: on FIFO, one letter of a group per wave.

    Some entries of a batch can fail. A later letter of the group in the same batch would
    then overtake the failed one.
    """
    if not fifo:
        if letters:
            yield list(letters)
        return
    waiting = list(letters)
    while waiting:
        groups: set[str | None] = set()
        wave: list[G] = []
        later: list[G] = []
        for letter in waiting:
            (later if letter.group in groups else wave).append(letter)
            groups.add(letter.group)
        yield wave
        waiting = later
