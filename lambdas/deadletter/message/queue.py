"""A queue as the mover sees it: take under a lock, send, delete against proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from deadletter.contract import MAIN_DLQ
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, QueueTraits
from deadletter.message.letter import MAX_BYTES, Letter

MAX_BATCH = 10
"""Entries in one SQS batch call, and messages in one receive."""


class QueueUnavailable(Exception):
    """The queue gave no answer, or refused the whole call; the message says which code."""


class TooManyInFlight(QueueUnavailable):
    """As many messages are being worked on as SQS allows (about 120,000)."""


@dataclass(frozen=True, slots=True)
class ReceivedLetter:
    """A letter that nobody else can take until `locked_until` (epoch seconds).

    `home` is the id of the queue it died into: "dlq", or a dedicated DLQ's.
    """

    letter: Letter
    handle: str = field(repr=False)
    locked_until: float
    home: str = MAIN_DLQ


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of the envelopes of one send.

    `confirmed` is proof by copy; `refused` says why SQS did not take a copy;
    `unknown` are copies that may have arrived or not.
    """

    confirmed: Mapping[str, Confirmation] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Depth:
    """SQS's own approximate counts."""

    visible: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        return self.visible + self.in_flight + self.delayed


class LetterStore(Protocol):
    """Where letters are taken from, and deleted once they are proved to be elsewhere."""

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        """Delete these copies; returns those that may still be there."""


class Queue(LetterStore, Protocol):
    """One SQS queue. Raises QueueUnavailable where a call as a whole fails."""

    @property
    def traits(self) -> QueueTraits: ...

    def receive(self, most: int, lock_seconds: int, wait_seconds: int) -> Sequence[ReceivedLetter]:
        """Up to ten letters with all their attributes, locked for `lock_seconds` from now."""

    def send(self, batch: Sequence[Envelope]) -> SendResult:
        """Send one batch of up to ten; never raises for what SQS answers."""

    def make_visible(self, handles: Sequence[str]) -> None:
        """Give letters back at once; a lock that cannot be lifted ends by itself."""

    def depth(self) -> Depth: ...


def batches(envelopes: Iterable[Envelope]) -> Iterator[list[Envelope]]:
    """The envelopes in batches that SQS takes: at most ten, and 1 MiB together."""
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
    """Whatever belongs to a FIFO group, or to none."""

    @property
    def group(self) -> str | None: ...


G = TypeVar("G", bound=Grouped)


def waves(going: Sequence[G], fifo: bool) -> Iterator[list[G]]:
    """What may go out together, in turns: on FIFO one letter of a group a turn.

    A batch can fail for some entries; a later letter of the group in the same batch
    would then overtake the one that failed.
    """
    if not fifo:
        if going:
            yield list(going)
        return
    rest = list(going)
    while rest:
        seen: set[str | None] = set()
        turn: list[G] = []
        later: list[G] = []
        for one in rest:
            (later if one.group in seen else turn).append(one)
            seen.add(one.group)
        yield turn
        rest = later
