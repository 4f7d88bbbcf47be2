"""The write-ahead record that makes moving letters crash-safe."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from deadletter.message.confirmation import Confirmation

MAX_PLANS = 100
"""Letters that share one journal item: at 18 bytes each it stays within 2 KB, two write units."""

ROOM = "room"
"""The target of a letter that goes into the waiting room, and the first word of the slots
in which letters come out of it again."""

OUT_OF_ROOM = ""
"""The target of a letter that comes out of the waiting room: not known yet when it is claimed."""


class JournalUnavailable(Exception):
    """The journal could not be read or written: nothing may be sent without it."""


class ClaimLost(Exception):
    """Somebody else wrote this slot since we looked: what it covers is theirs."""


def key_of(copy: str) -> bytes:
    """The sixteen bytes that stand for a copy's id: the UUID itself, else a digest of the text."""
    try:
        return uuid.UUID(copy).bytes
    except ValueError:
        return hashlib.blake2b(copy.encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Plan:
    """One letter of an intent: where it shall go, and as which attempt."""

    key: bytes
    target: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Intent:
    """What one worker is about to send, and what of it has been confirmed.

    `owner` is a token nobody else has; `sequence` grows with each intent of a slot;
    `expires` (epoch seconds) is when the letters' locks end: nothing is sent under
    the intent after it. Bit *i* of `sent` stands for `plans[i]`.
    """

    slot: str
    owner: str
    sequence: int
    expires: float
    plans: tuple[Plan, ...]
    sent: int = 0

    def __post_init__(self) -> None:
        if len(self.plans) > MAX_PLANS:
            raise ValueError(f"an intent holds at most {MAX_PLANS} letters")

    def marked(self, copies: Collection[str]) -> Intent:
        """The intent with these copies confirmed as sent."""
        keys = {key_of(copy) for copy in copies}
        bits = self.sent
        for position, plan in enumerate(self.plans):
            if plan.key in keys:
                bits |= 1 << position
        return replace(self, sent=bits)

    @property
    def is_of_room(self) -> bool:
        """Whether it moves letters out of the waiting room rather than out of a queue."""
        return self.slot.startswith(f"{ROOM}:")

    def is_sent(self, position: int) -> bool:
        return bool(self.sent >> position & 1)


class Journal(Protocol):
    """Where the intents of one pipeline are kept.

    Every call raises JournalUnavailable if it cannot tell whether it took effect.
    """

    def read(self) -> Sequence[Intent]:
        """All intents that stand, read consistently."""

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        """Put `intent` in its slot, which must hold `replacing` still (None: nothing).

        Raises ClaimLost if it does not. Finding the very intent that is being
        written there counts as success: the answer to an earlier try was lost.
        """

    def mark(self, intent: Intent) -> None:
        """Record what of `intent` is sent; raises ClaimLost if the slot is another's."""

    def erase(self, intent: Intent) -> None:
        """Take a finished intent out of its slot; one that is no longer there is erased."""


@dataclass(frozen=True, slots=True)
class OpenIntents:
    """What the journal says of letters that somebody else started to move."""

    _sent: frozenset[bytes]
    _busy: frozenset[bytes]
    _unknown: dict[bytes, str]

    def confirmation_of(self, copy: str) -> Confirmation | None:
        """The mark that this copy was sent: it only has to be deleted."""
        return Confirmation(copy, "journal") if key_of(copy) in self._sent else None

    def is_busy(self, copy: str) -> bool:
        """Whether a worker whose locks have not ended may be sending it this moment."""
        return key_of(copy) in self._busy

    def unknown_target(self, copy: str) -> str | None:
        """Where an intent that ended without a word meant to send it; it may have arrived."""
        return self._unknown.get(key_of(copy))


GRACE = 15.0
"""Seconds past an intent's end in which its last send may still be marked, clocks that
differ by up to five seconds included."""


def open_intents(intents: Iterable[Intent], now: float) -> OpenIntents:
    """What `intents` say of single letters at `now` (epoch seconds)."""
    sent: set[bytes] = set()
    busy: set[bytes] = set()
    unknown: dict[bytes, str] = {}
    for intent in intents:
        for position, plan in enumerate(intent.plans):
            if intent.is_sent(position):
                sent.add(plan.key)
            elif now < intent.expires + GRACE:
                busy.add(plan.key)
            else:
                # Of several attempts that ended without a word, one that had to do with
                # the room counts: there it can be found out what became of the letter.
                if unknown.get(plan.key) not in (ROOM, OUT_OF_ROOM):
                    unknown[plan.key] = plan.target
    return OpenIntents(frozenset(sent), frozenset(busy), unknown)


class Slot:
    """One worker's place in the journal: its next intent overwrites its finished one."""

    def __init__(
        self, journal: Journal, name: str, owner: str, found: Intent | None = None
    ) -> None:
        self._journal = journal
        self._name = name
        self._owner = owner
        self._current = found
        self._stands = False
        self._kept = 0

    def intend(self, plans: Sequence[Plan], expires: float) -> None:
        """Write down what is about to be sent. Raises ClaimLost or JournalUnavailable."""
        if self._stands:
            self._move_on()
        sequence = self._current.sequence + 1 if self._current else 1
        intent = Intent(self._slot, self._owner, sequence, expires, tuple(plans))
        try:
            self._journal.write(intent, self._current)
        except JournalUnavailable:
            # The write may have happened: what stands in this slot is unknown now.
            self._move_on()
            raise
        self._current = intent

    def mark(self, copies: Collection[str]) -> None:
        """Write down what has been confirmed. Raises ClaimLost or JournalUnavailable."""
        assert self._current is not None, "an intent comes before its mark"
        marked = self._current.marked(copies)
        self._journal.mark(marked)
        self._current = marked

    def keep(self) -> None:
        """Leave the present intent standing, for whoever sees its letters again.

        It can still be marked; the next one goes into a slot of its own.
        """
        self._stands = True

    @property
    def is_kept(self) -> bool:
        """Whether the present intent was kept: what it says may have happened."""
        return self._stands

    def close(self) -> None:
        """Take the last intent out, unless it was kept: all its letters are accounted for."""
        if self._current is not None and not self._stands:
            self._journal.erase(self._current)
        self._move_on()

    def _move_on(self) -> None:
        self._current, self._stands = None, False
        self._kept += 1

    @property
    def _slot(self) -> str:
        return f"{self._name}.{self._kept}" if self._kept else self._name
