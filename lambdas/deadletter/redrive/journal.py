"""The write-ahead record that makes moving letters crash-safe."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from deadletter.message.confirmation import Confirmation

MAX_PLANS = 100
"""Letters of one journal item: at 18 bytes each it stays within 2 KB, two write units."""

ROOM = "room"
"""The target of a letter that goes into the waiting room, and the first word of the names of
the slots in which letters come out of it again."""

OUT_OF_ROOM = ""
"""The target of a letter that comes out of the waiting room: unknown when it is claimed."""


class JournalUnavailable(Exception):
    """The journal could not be read or written: nothing may be sent without it."""


class ClaimLost(Exception):
    """Another run has written this slot since it was read: its letters are that run's."""


def key_of(copy: str) -> bytes:
    """Sixteen bytes for a copy's id: the UUID itself, or a digest if the id is no UUID."""
    try:
        return uuid.UUID(copy).bytes
    except ValueError:
        return hashlib.blake2b(copy.encode(), digest_size=16).digest()


def is_uuid(message_id: str) -> bool:
    """Whether an id is a UUID as SQS writes it: only such ids fit into sixteen bytes."""
    try:
        return str(uuid.UUID(message_id)) == message_id
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Plan:
    """One letter of an intent: where it goes, and as which attempt."""

    key: bytes
    target: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Intent:
    """The letters that one worker is about to send, and which of them are confirmed.

    `owner` is a token that no other run has; `sequence` grows with each intent of a slot;
    `expires` (epoch seconds) is when the letters' locks end: nothing is sent under
    the intent after it. Bit *i* of `sent` is set when `plans[i]`
    is confirmed as sent. `new_ids` has, by position, the new message ids of letters that
    were sent without a stamp: their facts may be missing in the ledger.
    """

    slot: str
    owner: str
    sequence: int
    expires: float
    plans: tuple[Plan, ...]
    sent: int = 0
    new_ids: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.plans) > MAX_PLANS:
            raise ValueError(f"an intent holds at most {MAX_PLANS} letters")

    def marked(self, copies: Collection[str], new_ids: Mapping[str, str] = {}) -> Intent:
        """The intent with these copies confirmed as sent, some of them under these new ids."""
        keys = {key_of(copy) for copy in copies}
        ids = {key_of(copy): new_id for copy, new_id in new_ids.items() if is_uuid(new_id)}
        bits, by_position = self.sent, dict(self.new_ids)
        for position, plan in enumerate(self.plans):
            if plan.key in keys:
                bits |= 1 << position
                if plan.key in ids:
                    by_position[position] = ids[plan.key]
        return replace(self, sent=bits, new_ids=by_position)

    @property
    def is_of_room(self) -> bool:
        """Whether it moves letters out of the waiting room rather than out of a queue."""
        return self.slot.startswith(f"{ROOM}:")

    def is_sent(self, position: int) -> bool:
        return bool(self.sent >> position & 1)


class Journal(Protocol):
    """The intents of one pipeline.

    Every call raises JournalUnavailable if it cannot tell whether it took effect.
    """

    def read(self) -> Sequence[Intent]:
        """All intents on record, read consistently."""

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        """Put `intent` in its slot, which must still hold `replacing` (None: nothing).

        Raises ClaimLost if it does not. A slot that holds `intent` already counts as
        success: the answer to an earlier try was lost.
        """

    def mark(self, intent: Intent) -> None:
        """Record which letters of `intent` are sent. Raises ClaimLost if the slot is lost."""

    def erase(self, intent: Intent) -> None:
        """Remove a finished intent from its slot; succeeds if it is gone already."""


@dataclass(frozen=True, slots=True)
class OpenIntents:
    """The intents of all runs, by letter."""

    _sent: frozenset[bytes]
    _busy: frozenset[bytes]
    _unknown: dict[bytes, str]
    _new_ids: dict[bytes, str] = field(default_factory=dict)

    def confirmation_of(self, copy: str) -> Confirmation | None:
        """The mark that this copy was sent, or None; with a mark it only has to be deleted."""
        return Confirmation(copy, "journal") if key_of(copy) in self._sent else None

    def unrecorded(self, copy: str) -> str | None:
        """The new message id of a copy that was sent without a stamp; None for any other.

        Its facts may be missing in the ledger: write them before the copy is deleted.
        """
        return self._new_ids.get(key_of(copy))

    def is_busy(self, copy: str) -> bool:
        """Whether a worker whose locks have not ended may be sending this copy now."""
        return key_of(copy) in self._busy

    def unknown_target(self, copy: str) -> str | None:
        """Where a copy may have arrived: the target of its expired intent without mark, if any."""
        return self._unknown.get(key_of(copy))


GRACE = 15.0
"""Seconds after an intent's end in which its last send may still be marked; includes clocks
that differ by up to five seconds."""


def open_intents(intents: Iterable[Intent], now: float) -> OpenIntents:
    """The intents by letter, as they are at `now` (epoch seconds)."""
    sent: set[bytes] = set()
    busy: set[bytes] = set()
    unknown: dict[bytes, str] = {}
    new_ids: dict[bytes, str] = {}
    for intent in intents:
        new_ids.update((intent.plans[at].key, new_id) for at, new_id in intent.new_ids.items())
        for position, plan in enumerate(intent.plans):
            if intent.is_sent(position):
                sent.add(plan.key)
            elif now < intent.expires + GRACE:
                busy.add(plan.key)
            else:
                # Of several expired attempts without a mark, one into or out of the room
                # counts: a look into the room tells whether it took effect.
                if unknown.get(plan.key) not in (ROOM, OUT_OF_ROOM):
                    unknown[plan.key] = plan.target
    return OpenIntents(frozenset(sent), frozenset(busy), unknown, new_ids)


class Slot:
    """One worker's place in the journal: its next intent overwrites its finished one."""

    def __init__(
        self, journal: Journal, name: str, owner: str, current: Intent | None = None
    ) -> None:
        self._journal = journal
        self._name = name
        self._owner = owner
        self._current = current
        self._is_kept = False
        self._kept_intents = 0

    def intend(self, plans: Sequence[Plan], expires: float) -> None:
        """Write the intent to send these letters. Raises ClaimLost or JournalUnavailable."""
        if self._is_kept:
            self._move_on()
        sequence = self._current.sequence + 1 if self._current else 1
        intent = Intent(self._slot, self._owner, sequence, expires, tuple(plans))
        try:
            self._journal.write(intent, self._current)
        except JournalUnavailable:
            # The write may have happened: the content of this slot is unknown now.
            self._move_on()
            raise
        self._current = intent

    def mark(self, copies: Collection[str], new_ids: Mapping[str, str] = {}) -> None:
        """Mark these copies as sent. Raises ClaimLost or JournalUnavailable.

        `new_ids` has the new message ids of those that were sent without a stamp.
        """
        assert self._current is not None, "an intent comes before its mark"
        marked = self._current.marked(copies, new_ids)
        self._journal.mark(marked)
        self._current = marked

    def keep(self, copies: Collection[str]) -> None:
        """Keep these copies of the present intent on record, for the run that sees them again.

        They can still be marked.
        """
        self._is_kept = self._is_kept or bool(copies)

    @property
    def is_kept(self) -> bool:
        """Whether the present intent was kept: its letters may have been sent."""
        return self._is_kept

    def close(self) -> None:
        """Remove the last intent, unless it was kept: all its letters are accounted for."""
        if self._current is not None and not self._is_kept:
            self._journal.erase(self._current)
        self._move_on()

    def _move_on(self) -> None:
        self._current, self._is_kept = None, False
        self._kept_intents += 1

    @property
    def _slot(self) -> str:
        return f"{self._name}.{self._kept_intents}" if self._kept_intents else self._name
