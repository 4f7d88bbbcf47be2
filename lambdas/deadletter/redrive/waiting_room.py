"""Where letters wait outside SQS, each in one lane."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order

SHARDS = 8
"""Shards of a lane: one DynamoDB partition takes about 1,000 writes a second."""

INLINE_BYTES = 4096
"""Letters up to this size stand in the item itself; larger ones in S3, named by it."""


class RoomUnavailable(Exception):
    """The waiting room gave no answer: what was to go in stays where it is."""


@dataclass(frozen=True, slots=True)
class WaitingRoomEntry:
    """Where a letter sits: enough to fetch it, nothing of what it says.

    `place` is the room's own key; `lane`, `shard` and `due` are as they were when
    the seat was looked up, and an index may lag: read the letter before sending it.
    """

    copy: str
    place: str
    lane: str
    shard: int
    due: float
    group: str | None = None


@dataclass(frozen=True, slots=True)
class RoomContents:
    """What was read from the room; `broken` letters stay in it for a person to look at."""

    letters: Sequence[ReceivedLetter]
    broken: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane that has held letters, and when one was last put in (epoch seconds)."""

    name: str
    touched: float


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait that a whole FIFO group shares."""

    lane: str
    due: float


class WaitingRoom(Protocol):
    """The waiting room of one pipeline. Raises RoomUnavailable when it cannot answer."""

    def lanes(self) -> Sequence[Lane]:
        """The lanes that letters have been put into and that are not retired."""

    def retire(self, lane: Lane) -> None:
        """Look into a lane no more, unless a letter has been put into it since."""

    def admit(self, orders: Sequence[Order]) -> Mapping[str, Confirmation]:
        """Put letters in that are held; returns a proof of each copy that is now in the room.

        Putting a letter in twice has the effect of once.

        The letter's own bytes are safe before its item names them. Of a FIFO group no
        letter goes in before an earlier one. Raises RoomUnavailable only while no item
        is written; a copy without a proof may be in the room or not.
        """

    def find(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Confirmation]:
        """Those of these letters that are already in the room, read consistently."""

    def due(self, lane: str, shard: int, until: float, most: int) -> Sequence[WaitingRoomEntry]:
        """Letters of a shard whose wait ends at or before `until`, the longest due first."""

    def read(self, entries: Sequence[WaitingRoomEntry], locked_until: float) -> RoomContents:
        """The letters of these entries that still wait as they were listed, read consistently."""

    def postpone(self, order: Order) -> None:
        """Give a letter in the room the lane and the due time of its new hold."""

    def waits(self, groups: Collection[str], home: str) -> Mapping[str, Wait]:
        """Which of these FIFO groups of the queue `home` wait in the room, and for what."""

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        """Take letters out that are proved to be elsewhere; returns those that may be left."""


def shard_of(letter: Letter, fifo: bool) -> int:
    """The shard of a lane that a letter waits in; a FIFO group waits together."""
    key = letter.group if fifo and letter.group else letter.message_id
    return hashlib.blake2b(key.encode(), digest_size=1).digest()[0] % SHARDS


END_OF_TIME = 2.0**40
"""A due time (epoch seconds) that no letter's is later than."""
