"""The intents on record, as the workers of one run know them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deadletter.redrive.journal import (
    Intent,
    Journal,
    OpenIntents,
    Plan,
    has_ended,
    key_of,
)

if TYPE_CHECKING:
    from deadletter.message.confirmation import Confirmation

REUSED_FOR = 30.0
"""Seconds for which a reading of the journal is used again for letters from a queue. An intent
is written at least 70 s before the locks of its letters end: whatever a letter that was received
now has been through stood on record 30 s ago (ADR 16)."""

MOMENT = 5.0
"""Seconds after which a letter that a reading calls unknown is looked for again: its mark may
have come late."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The journal as it was when the reading began (epoch seconds).

    `queue` has the intents that move letters out of queues, `room` those that move letters out
    of the waiting room.
    """

    began: float
    intents: Sequence[Intent]
    queue: OpenIntents
    room: OpenIntents

    def confirmation_of(self, copy: str) -> Confirmation | None:
        """The mark that a copy has left its queue, or the waiting room after it."""
        return self.queue.confirmation_of(copy) or self.room.confirmation_of(copy)

    def is_busy(self, copy: str) -> bool:
        return self.queue.is_busy(copy) or self.room.is_busy(copy)

    def is_unknown(self, copy: str) -> bool:
        return self.may_be_sent(copy) or self.may_be_in_room(copy)

    def may_be_sent(self, copy: str) -> bool:
        """Whether an intent without a mark may have sent a copy to a queue."""
        return self.queue.may_be_sent(copy) or self.room.may_be_sent(copy)

    def had_no_answer(self, copy: str) -> bool:
        """Whether a process that lived on has noted that a send of this copy had no answer."""
        return self.queue.had_no_answer(copy) or self.room.had_no_answer(copy)

    def may_be_in_room(self, copy: str) -> bool:
        """Whether a copy of the queue may have been put into the room, or been there."""
        return self.queue.may_be_in_room(copy) or self.room.may_be_sent(copy)

    def unrecorded(self, copy: str) -> str | None:
        """The new message id of a copy whose facts may be missing in the ledger."""
        return self.queue.unrecorded(copy) or self.room.unrecorded(copy)

    def plan_of(self, copy: str) -> Plan:
        """The plan under which a copy with an `unrecorded` id was sent."""
        named = self.queue if self.queue.unrecorded(copy) else self.room
        return named.plan_of(copy)

    def stands(self, copy: str) -> bool:
        """Whether any intent names a copy."""
        return self.queue.stands(copy) or self.room.stands(copy)

    def room_without(self, slot: str) -> OpenIntents:
        """The intents that move letters out of the room, but for the one in a slot."""
        others = (intent for intent in self.intents if intent.is_of_room and intent.slot != slot)
        return OpenIntents(others, self.began)

    def ended(self) -> list[Intent]:
        """The intents under which nothing is sent any more."""
        return [intent for intent in self.intents if has_ended(intent, self.began)]


class KnownIntents:
    """The journal, read for all workers of a run at once. Raises JournalUnavailable.

    It also knows which letters the run has in hand, and what became of those on record.
    """

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._reading = Reading(-math.inf, (), OpenIntents([], 0), OpenIntents([], 0))
        self._in_hand: set[str] = set()
        self._left_queue: set[bytes] = set()
        self._left_room: set[bytes] = set()

    def recent(self, within: float = REUSED_FOR) -> Reading:
        """The journal as it was at most `within` seconds ago; for letters from a queue."""
        with self._lock:
            if self._clock() - self._reading.began >= within:
                self._read()
            return self._reading

    def fresh(self) -> Reading:
        """The journal as it is now."""
        with self._lock:
            self._read()
            return self._reading

    @property
    def last(self) -> Reading:
        """The last reading, however old."""
        return self._reading

    def _read(self) -> None:
        began = self._clock()
        intents = self._journal.read()
        self._reading = Reading(
            began,
            intents,
            OpenIntents((intent for intent in intents if not intent.is_of_room), began),
            OpenIntents((intent for intent in intents if intent.is_of_room), began),
        )

    def take(self, copies: Iterable[str]) -> set[str]:
        """The copies that no other worker of the run has in hand; they are in this one's now."""
        with self._lock:
            taken = set(copies) - self._in_hand
            self._in_hand |= taken
            return taken

    def put_back(self, copies: Iterable[str]) -> None:
        """These copies are in no worker's hand any more."""
        with self._lock:
            self._in_hand.difference_update(copies)

    def note_gone(self, copies: Iterable[str], *, from_room: bool = False) -> None:
        """These copies were surely deleted from their queue, or from the waiting room.

        Whatever intents say of them there is explained.
        """
        with self._lock:
            reading = self._reading
            known, gone = (
                (reading.room, self._left_room) if from_room else (reading.queue, self._left_queue)
            )
            gone.update(key_of(copy) for copy in copies if known.stands(copy))

    @property
    def left_queue(self) -> Collection[bytes]:
        """The letters on record that this run has deleted from their queue."""
        return self._left_queue

    @property
    def left_room(self) -> Collection[bytes]:
        """The letters on record that this run has deleted from the waiting room."""
        return self._left_room
