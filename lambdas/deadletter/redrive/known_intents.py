"""The intents on record, as the workers of one run know them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from deadletter.redrive.journal import (
    Intent,
    Journal,
    OnRecord,
    OpenIntents,
    has_ended,
    key_of,
)

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

    def of_queue(self, copy: str) -> OnRecord:
        """What stands on record of a letter in a queue: also that it has left the room since."""
        out, room = self.queue.record_of(copy), self.room.record_of(copy)
        if not room.is_named:
            return out
        return OnRecord(
            is_named=True,
            mark=out.mark or room.mark,
            is_busy=out.is_busy or room.is_busy,
            sent_until=room.sent_until if out.sent_until is None else out.sent_until,
            # What may have left the room has been there.
            maybe_stored=out.maybe_stored or room.maybe_sent,
            had_no_answer=out.had_no_answer or room.had_no_answer,
            unrecorded=out.unrecorded or room.unrecorded,
        )

    def of_lane(self, slot: str, copies: Iterable[str]) -> dict[str, OnRecord]:
        """What stands on record of letters in the room, but for what their own `slot` says.

        An intent that put a letter there is a reason to wait for its end, and none to take the
        letter out.
        """
        others = (intent for intent in self.intents if intent.is_of_room and intent.slot != slot)
        outward = OpenIntents(others, self.began)

        def record_of(copy: str) -> OnRecord:
            out, inward = outward.record_of(copy), self.queue.record_of(copy)
            if not inward.is_named:
                return out
            is_busy = out.is_busy or inward.is_busy
            return replace(out, is_named=True, is_busy=is_busy, maybe_stored=inward.maybe_stored)

        return {copy: record_of(copy) for copy in copies}

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
            keys = map(key_of, copies)
            gone.update(key for key in keys if known.names(key))

    @property
    def left_queue(self) -> Collection[bytes]:
        """The letters on record that this run has deleted from their queue."""
        return self._left_queue

    @property
    def left_room(self) -> Collection[bytes]:
        """The letters on record that this run has deleted from the waiting room."""
        return self._left_room
