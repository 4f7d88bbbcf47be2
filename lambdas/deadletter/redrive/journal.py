"""The write-ahead record that makes moving letters crash-safe."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import compress
from typing import Protocol

from deadletter.message.confirmation import Confirmation

MAX_PLANS = 100
"""Letters of one intent of a worker: at 18 bytes each it stays within 2 KB, two write units."""

MAX_STANDING_PLANS = 10_000
"""Letters of one intent that several were merged into: with a new id for each it stays within
the 400 KB of an item."""

KEY_BYTES = 16
_PLAN_BYTES = KEY_BYTES + 2
"""A plan's key, the place of its target in the list of targets, and its attempt."""

_MOST_ATTEMPTS = 255  # an attempt is one byte: only people read it

ROOM = "room"
"""The target of a letter that goes into the waiting room, and the first word of the names of
the slots in which letters come out of it again."""

OUT_OF_ROOM = ""
"""The target of a letter that comes out of the waiting room: unknown when it is claimed."""


class JournalUnavailable(Exception):
    """The journal could not be read or written: nothing may be sent without it."""


class ClaimLost(Exception):
    """Another run has written this slot since it was read: its letters are that run's."""


@lru_cache(maxsize=1024)
def key_of(copy: str) -> bytes:
    """Sixteen bytes for a copy's id: the UUID itself, or a digest if the id is no UUID."""
    digits = copy.replace("-", "")
    try:
        # As SQS writes them. Most of the time that UUID takes, it looks for other forms.
        if len(digits) == 2 * KEY_BYTES and digits.isascii() and digits.isalnum():
            return bytes.fromhex(digits)
        return uuid.UUID(copy).bytes
    except ValueError:
        return hashlib.blake2b(copy.encode(), digest_size=KEY_BYTES).digest()


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


@dataclass(frozen=True, slots=True, eq=False)
class PackedPlans(Sequence[Plan]):
    """Plans as the journal stores them, 18 bytes each.

    Raises ValueError if the bytes are no whole plans, or name a target that is missing.
    """

    packed: bytes
    targets: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.packed) % _PLAN_BYTES:
            raise ValueError("the plans are cut off")
        if self.packed and max(self._target_numbers) >= len(self.targets):
            raise ValueError("a plan names a target that is missing")

    @classmethod
    def of(cls, plans: Iterable[Plan]) -> PackedPlans:
        plans = tuple(plans)
        targets = sorted({plan.target for plan in plans})
        packed = bytearray()
        for plan in plans:
            packed += plan.key
            packed.append(targets.index(plan.target))
            packed.append(min(plan.attempt, _MOST_ATTEMPTS))
        return cls(bytes(packed), tuple(targets))

    def __len__(self) -> int:
        return len(self.packed) // _PLAN_BYTES

    def __getitem__(self, position: int) -> Plan:  # type: ignore[override]  # no slice is asked for
        at = range(len(self))[position] * _PLAN_BYTES
        target, attempt = self.packed[at + KEY_BYTES : at + _PLAN_BYTES]
        return Plan(self.packed[at : at + KEY_BYTES], self.targets[target], attempt)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    @property
    def _target_numbers(self) -> bytes:
        return self.packed[KEY_BYTES::_PLAN_BYTES]

    def keys(self) -> list[bytes]:
        packed = self.packed
        return [packed[at : at + KEY_BYTES] for at in range(0, len(packed), _PLAN_BYTES)]

    def target_of_each(self) -> Iterable[str]:
        return map(self.targets.__getitem__, self._target_numbers)


@dataclass(frozen=True, slots=True)
class Intent:
    """The letters that one worker is about to send, and which of them are confirmed.

    `owner` is a token that no other run has; `sequence` grows with each intent of a slot;
    `expires` (epoch seconds) is when the letters' locks end: nothing is sent under
    the intent after it. Bit *i* of `sent` is set when `plans[i]`
    is confirmed as sent. `new_ids` has, by position, the new message ids of letters that
    were sent without a stamp: their facts may be missing in the ledger. Bit *i* of `unanswered` is
    set when the send of `plans[i]` had no answer and its process lived to say so: what is neither
    sent nor unanswered was left by a process that ended. `home` is the id of
    the queue that the letters are in; it is empty for those in the waiting room.
    """

    slot: str
    owner: str
    sequence: int
    expires: float
    plans: Sequence[Plan]
    sent: int = 0
    new_ids: Mapping[int, str] = field(default_factory=dict)
    home: str = ""
    unanswered: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.plans, PackedPlans):
            object.__setattr__(self, "plans", PackedPlans.of(self.plans))
        if len(self.plans) > MAX_STANDING_PLANS:
            raise ValueError(f"an intent holds at most {MAX_STANDING_PLANS} messages")

    @property
    def packed(self) -> PackedPlans:
        assert isinstance(self.plans, PackedPlans), "the plans are packed at once"
        return self.plans

    def marked(self, copies: Collection[str], new_ids: Mapping[str, str] = {}) -> Intent:
        """The intent with these copies confirmed as sent, some of them under these new ids."""
        keys = {key_of(copy) for copy in copies}
        ids = {key_of(copy): new_id for copy, new_id in new_ids.items() if is_uuid(new_id)}
        bits, by_position = self.sent, dict(self.new_ids)
        for position, key in enumerate(self.packed.keys()):
            if key in keys:
                bits |= 1 << position
                if key in ids:
                    by_position[position] = ids[key]
        return replace(self, sent=bits, new_ids=by_position)

    def only(self, keys: Collection[bytes], slot: str) -> Intent:
        """The plans of these keys alone, as an intent in another slot."""
        mine = self.packed.keys()
        return merged([replace(self, slot=slot)], {key for key in mine if key not in keys})

    def without_answers(self) -> Intent:
        """The intent of a process that lives: each plan that is not sent had no answer."""
        return replace(self, unanswered=~self.sent & (1 << len(self.plans)) - 1)

    @property
    def is_of_room(self) -> bool:
        """Whether it moves letters out of the waiting room rather than out of a queue."""
        return self.slot.startswith(f"{ROOM}:")

    def is_sent(self, position: int) -> bool:
        return bool(self.sent >> position & 1)

    def sent_of_each(self) -> list[bool]:
        """Whether each plan is confirmed as sent."""
        return [bit == "1" for bit in reversed(f"{self.sent:0{len(self.plans)}b}")]


def merged(intents: Sequence[Intent], without: Collection[bytes] = ()) -> Intent:
    """One intent with all plans of several, but for those of some keys.

    It has the name of the first one, and ends when the last one does.
    """
    targets = tuple(sorted({target for intent in intents for target in intent.packed.targets}))
    packed = bytearray()
    new_ids: dict[int, str] = {}
    sent = unanswered = count = 0
    for intent in intents:
        plans = intent.packed
        kept: Sequence[int] | None = None
        if without:
            kept = [at for at, key in enumerate(plans.keys()) if key not in without]
        if kept is None and plans.targets == targets:
            packed += plans.packed
            kept = range(len(plans))
            sent |= intent.sent << count
            unanswered |= intent.unanswered << count
        else:
            kept = range(len(plans)) if kept is None else kept
            for position, at in enumerate(kept, start=count):
                plan = plans[at]
                packed += plan.key + bytes((targets.index(plan.target), plan.attempt))
                sent |= intent.is_sent(at) << position
                unanswered |= (intent.unanswered >> at & 1) << position
        if intent.new_ids:
            new_ids.update(
                (position, intent.new_ids[at])
                for position, at in enumerate(kept, start=count)
                if at in intent.new_ids
            )
        count += len(kept)
    return replace(
        intents[0],
        expires=max(intent.expires for intent in intents),
        plans=PackedPlans(bytes(packed), targets),
        sent=sent,
        new_ids=new_ids,
        unanswered=unanswered,
    )


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

    def merge(self, parts: Sequence[Intent], into: Intent | None) -> None:
        """Erase intents and put `into` in their place (None: nothing), all in one step.

        Raises ClaimLost, and changes nothing, if one of them is no longer as it was read.
        """


GRACE = 15.0
"""Seconds after an intent's end in which its last send may still be marked; includes clocks
that differ by up to five seconds."""


def has_ended(intent: Intent, now: float) -> bool:
    """Whether nothing is sent under an intent any more."""
    return now >= intent.expires + GRACE


@dataclass(frozen=True, slots=True)
class OnRecord:
    """What intents say of one letter; of most letters nothing.

    is_named       whether any intent names it
    mark           the mark that it has left its place: it only has to be deleted
    is_busy        whether a worker whose locks have not ended may be sending it now
    sent_until     when the last intent ended under which it may have been sent without a mark
                   (epoch seconds); None if none may have sent it
    maybe_stored   whether an intent that ended without a mark may have put it into the waiting room
    had_no_answer  whether a process that lived on has noted that a send of it had no answer
    unrecorded     its new message id and the plan under which it was sent, if it was sent without
                   a stamp: its facts may be missing in the ledger
    """

    is_named: bool = False
    mark: Confirmation | None = None
    is_busy: bool = False
    sent_until: float | None = None
    maybe_stored: bool = False
    had_no_answer: bool = False
    unrecorded: tuple[str, Plan] | None = None

    @property
    def maybe_sent(self) -> bool:
        """Whether it may have been sent to a queue: sending it may make a duplicate."""
        return self.sent_until is not None


NOT_ON_RECORD = OnRecord()
"""What intents say of most letters."""


class OpenIntents:
    """What intents say of letters, by their keys, as they are at `now` (epoch seconds)."""

    def __init__(self, intents: Iterable[Intent], now: float) -> None:
        self._sent: set[bytes] = set()
        self._busy: set[bytes] = set()
        # Of intents that have ended without a mark: with their end, and of those that had a letter
        # stored.
        self._maybe_sent: dict[bytes, float] = {}
        self._maybe_stored: set[bytes] = set()
        self._unanswered: set[bytes] = set()
        # The ids and the plans of letters that were sent without a stamp.
        self._new_ids: dict[bytes, tuple[str, Plan]] = {}
        for intent in intents:
            self._add(intent, now)

    def _add(self, intent: Intent, now: float) -> None:
        for at, new_id in intent.new_ids.items():
            plan = intent.packed[at]
            self._new_ids[plan.key] = (new_id, plan)
        plans = intent.packed
        keys: Sequence[bytes] = plans.keys()
        if intent.unanswered:
            self._unanswered.update(
                key for at, key in enumerate(keys) if intent.unanswered >> at & 1
            )
        targets: Iterable[str] = plans.target_of_each()
        if intent.sent:
            is_sent = intent.sent_of_each()
            self._sent.update(compress(keys, is_sent))
            unsent = [not each for each in is_sent]
            keys, targets = list(compress(keys, unsent)), compress(targets, unsent)
        if not has_ended(intent, now):
            self._busy.update(keys)
            return
        for key, target in zip(keys, targets, strict=True):
            if target == ROOM:
                self._maybe_stored.add(key)
            else:
                self._maybe_sent[key] = max(intent.expires, self._maybe_sent.get(key, 0.0))

    def names(self, key: bytes) -> bool:
        """Whether any intent names the copy with this key."""
        places = (self._sent, self._busy, self._maybe_sent, self._maybe_stored)
        return any(key in place for place in places)

    def record_of(self, copy: str) -> OnRecord:
        """What the intents say of a copy."""
        key = key_of(copy)
        if not self.names(key):
            return NOT_ON_RECORD
        return OnRecord(
            is_named=True,
            mark=Confirmation(copy, "journal") if key in self._sent else None,
            is_busy=key in self._busy,
            sent_until=self._maybe_sent.get(key),
            maybe_stored=key in self._maybe_stored,
            had_no_answer=key in self._unanswered,
            unrecorded=self._new_ids.get(key),
        )


class Slot:
    """One worker's place in the journal: its next intent overwrites its finished one.

    Letters that have to stay on record are put into an item of their own first. `home` is the
    queue that the worker empties.
    """

    def __init__(
        self,
        journal: Journal,
        name: str,
        owner: str,
        current: Intent | None = None,
        *,
        home: str = "",
    ) -> None:
        self._journal = journal
        self._name = name
        self._owner = owner
        self._home = home
        self._current = current
        self._unsure: Intent | None = None
        # It never starts over: a late mark of an intent would fit a later one.
        self._sequence = current.sequence if current else 0
        self._kept: set[bytes] = set()
        self._standing: set[bytes] = set()

    def intend(self, plans: Sequence[Plan], expires: float) -> None:
        """Write the intent to send these letters. Raises ClaimLost or JournalUnavailable."""
        if len(plans) > MAX_PLANS:
            raise ValueError(f"a worker's intent holds at most {MAX_PLANS} messages")
        self._clear()
        self._sequence += 1
        intent = Intent(self._name, self._owner, self._sequence, expires, plans, home=self._home)
        try:
            self._journal.write(intent, self._current)
        except JournalUnavailable:
            self._unsure = intent
            raise
        self._current = intent

    def mark(self, copies: Collection[str], new_ids: Mapping[str, str] = {}) -> None:
        """Mark these copies as sent. Raises ClaimLost or JournalUnavailable.

        `new_ids` has the new message ids of those that were sent without a stamp.
        """
        assert self._current is not None, "an intent comes before its mark"
        # It is true whether or not it can be written: what is kept will have it.
        self._current = self._current.marked(copies, new_ids)
        self._journal.mark(self._current)

    def keep(self, copies: Collection[str]) -> None:
        """Keep these copies of the present intent on record, for the run that sees them again.

        They can still be marked, until the next intent.
        """
        self._kept |= {key_of(copy) for copy in copies}

    def keeps(self, copy: str) -> bool:
        """Whether a copy is kept on record by an intent of this slot."""
        key = key_of(copy)
        return key in self._kept or key in self._standing

    def close(self) -> None:
        """Remove the last intent; what was kept of it stays. Raises JournalUnavailable."""
        try:
            self._clear()
        except ClaimLost:
            self._current = None
        if self._current is not None:
            self._journal.erase(self._current)
            self._current = None

    def _clear(self) -> None:
        """Make sure what the slot holds, and put what was kept of it into its own item.

        Only then may the slot be written: until the item stands, the slot has the letters.
        """
        if self._unsure is not None:
            # The same write once more succeeds whether or not the first one took effect.
            self._journal.write(self._unsure, self._current)
            self._current, self._unsure = self._unsure, None
        if self._current is not None and self._kept:
            name = f"{self._name}~{self._owner}.{self._current.sequence}"
            self._journal.write(self._current.only(self._kept, name).without_answers(), None)
            self._standing |= self._kept
            self._kept = set()
