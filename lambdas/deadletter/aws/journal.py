"""The journal in DynamoDB: a small item per worker, and few with the letters that stand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deadletter.aws.dynamodb import PipelineRows, number_in, plain, text_in
from deadletter.aws.errors import Conflict, NoteRow, ignore, ours, row_name
from deadletter.aws.rows import readable
from deadletter.aws.table import PARTITION, SORT, Condition, Key, absent, equals, unchanged
from deadletter.contract import END_OF_TIME, LOCKS_END, ROWS_KEPT, Partition
from deadletter.redrive.journal import (
    KEY_BYTES,
    MAX_STANDING_PLANS,
    ClaimLost,
    Intent,
    JournalUnavailable,
    PackedPlans,
)

_POSITION_BYTES = 2

_LAST_SEQUENCE = 2**53
"""More intents than any slot will have: a larger number was not counted."""


@dataclass(eq=False, repr=False)
class DynamoDBJournal(PipelineRows):
    """The intents of one pipeline.

    `keep_seconds` is how long an abandoned intent stays. It must be longer than the DLQ's
    retention: as long as a letter can come back, the mark that it was sent must exist.
    `note_bad_row` is told the name of an intent that can be read in part only. `clock` gives epoch
    seconds: no intent ends later than the longest lock that begins now.
    """

    keep_seconds: float
    note_bad_row: NoteRow = ignore
    clock: Callable[[], float] = lambda: END_OF_TIME

    def __post_init__(self) -> None:
        super().__post_init__()
        self._partition = Partition.JOURNAL.of(self.pipeline)
        # Intents that could be read in part, as they are stored, by their slots.
        self._malformed: dict[str, Mapping[str, Any]] = {}

    def read(self) -> Sequence[Intent]:
        with ours(JournalUnavailable):
            items = self._table.stored_items(self._partition)
            malformed: dict[str, Mapping[str, Any]] = {}
            intents = [self._read(item, malformed) for item in items]
        self._malformed = malformed
        return intents

    def _read(self, item: Mapping[str, Any], malformed: dict[str, Mapping[str, Any]]) -> Intent:
        """The intent in an item; of a malformed one, what can be read.

        Its slot must not be lost to all runs: they may replace what stands there.
        """
        intent = readable(self._whole, item, None)
        if intent is not None:
            return intent
        slot = str(item[SORT]["S"])
        self.note_bad_row(row_name(self._table.name, self._partition, slot))
        malformed[slot] = plain(item)
        return _readable_part(slot, malformed[slot], self.keep_seconds, self._latest_end())

    def _whole(self, item: Mapping[str, Any]) -> Intent | None:
        """The intent in an item; None if its numbers do not fit each other, or the clock.

        One that never ends would keep its slot, and its letters until their queue drops them.
        """
        intent = _intent(item)
        kept = float(item["ttl"]["N"]) - intent.expires - self.keep_seconds
        bits = (intent.sent.bit_length(), intent.unanswered.bit_length())
        marks = (*bits, *(at + 1 for at in intent.new_ids))
        has_place = max(marks) <= len(intent.plans) and 0 <= intent.sequence < _LAST_SEQUENCE
        # Other settings may keep rows for longer, or shorter.
        ends = abs(kept) < ROWS_KEPT and intent.expires <= self._latest_end()
        return intent if ends and has_place else None

    def _latest_end(self) -> float:
        return self.clock() + LOCKS_END

    @ours(JournalUnavailable)
    def write(self, intent: Intent, replacing: Intent | None) -> None:
        #  slot empty ──write 1──► 1 ──write 2 (finds 1)──► 2 ── …
        #                          └─ the SDK repeats write 2, because its answer was lost:
        #                             it finds 2, the very item that it writes
        item = self._item(intent)
        try:
            self._table.put(item, absent(PARTITION) if replacing is None else self._is(replacing))
        except Conflict as conflict:
            if conflict.item != item:
                raise ClaimLost(intent.slot) from conflict
        self._malformed.pop(intent.slot, None)

    @ours(JournalUnavailable)
    def mark(self, intent: Intent) -> None:
        try:
            self._table.change(
                self._key(intent),
                {"sent": _bits(intent, intent.sent), **_ids(intent)},
                when=_still(intent),
            )
        except Conflict as conflict:
            raise ClaimLost(intent.slot) from conflict

    @ours(JournalUnavailable)
    def erase(self, intent: Intent) -> None:
        with suppress(Conflict):
            self._table.delete(self._key(intent), self._is(intent))

    @ours(JournalUnavailable)
    def merge(self, parts: Sequence[Intent], into: Intent | None) -> None:
        try:
            self._table.together(
                puts=[] if into is None else [(self._item(into), absent(PARTITION))],
                deletes=[(self._key(part), self._is_untouched(part)) for part in parts],
            )
        except Conflict as conflict:
            raise ClaimLost(parts[0].slot) from conflict

    def _is(self, intent: Intent) -> Condition:
        """The condition that a slot still holds an intent as it was read, marked or not."""
        malformed = self._malformed.get(intent.slot)
        return _still(intent) if malformed is None else unchanged(malformed, ("own", "seq", "sent"))

    def _is_untouched(self, intent: Intent) -> Condition:
        """The same, and that nothing has been marked in it since."""
        is_whole = intent.slot not in self._malformed
        marked = equals("sent", _bits(intent, intent.sent))
        return self._is(intent) & marked if is_whole else self._is(intent)

    def _key(self, intent: Intent) -> Key:
        return (self._partition, intent.slot)

    def _item(self, intent: Intent) -> dict[str, Any]:
        return {
            PARTITION: self._partition,
            SORT: intent.slot,
            "own": intent.owner,
            "seq": intent.sequence,
            "expires": int(intent.expires),
            "targets": list(intent.packed.targets),
            "plans": intent.packed.packed,
            "sent": _bits(intent, intent.sent),
            **_ids(intent),
            **({"lost": _bits(intent, intent.unanswered)} if intent.unanswered else {}),
            **({"home": intent.home} if intent.home else {}),
            "ttl": int(intent.expires + self.keep_seconds),
        }


def _still(intent: Intent) -> Condition:
    """The condition that a slot still holds a readable intent, marked or not."""
    return equals("own", intent.owner) & equals("seq", intent.sequence)


def _bits(intent: Intent, bits: int) -> bytes:
    """Which plans are sent, or had no answer, one bit each."""
    return bits.to_bytes((len(intent.plans) + 7) // 8 or 1, "little")


def _ids(intent: Intent) -> dict[str, bytes]:
    """The new ids of unmarked letters: two bytes for the position and sixteen for the id."""
    packed = b"".join(
        position.to_bytes(_POSITION_BYTES, "big") + uuid.UUID(new_id).bytes
        for position, new_id in intent.new_ids.items()
    )
    return {"ids": packed} if packed else {}


def _new_ids(packed: bytes) -> dict[int, str]:
    step = _POSITION_BYTES + KEY_BYTES
    return {
        int.from_bytes(packed[at : at + _POSITION_BYTES], "big"): str(
            uuid.UUID(bytes=packed[at + _POSITION_BYTES : at + step])
        )
        for at in range(0, len(packed), step)
    }


def _intent(item: Mapping[str, Any]) -> Intent:
    """The intent in a stored item.

    The attributes are taken out by hand: a run may have to read thousands of items.
    """
    targets = tuple(target["S"] for target in item["targets"]["L"])
    return Intent(
        slot=item[SORT]["S"],
        owner=item["own"]["S"],
        sequence=int(item["seq"]["N"]),
        expires=float(item["expires"]["N"]),
        plans=PackedPlans(bytes(item["plans"]["B"]), targets),
        sent=int.from_bytes(bytes(item["sent"]["B"]), "little"),
        new_ids=_new_ids(bytes(item["ids"]["B"])) if "ids" in item else {},
        home=item["home"]["S"] if "home" in item else "",
        unanswered=int.from_bytes(bytes(item["lost"]["B"]), "little") if "lost" in item else 0,
    )


def _readable_part(slot: str, item: Mapping[str, Any], kept: float, latest: float) -> Intent:
    """The part of a malformed intent that can be read, from plain data.

    Without its plans it says nothing of any letter. Without its marks its letters may have been
    sent, and are counted as such when they are sent again. Its two times say the same: if they do
    not, it ends with the earlier one that is not past the `latest`; without either it has ended.
    """
    nothing = PackedPlans(b"", ())
    plans = readable(_plans, item, nothing)
    if len(plans) > MAX_STANDING_PLANS:
        plans = nothing
    ids = readable(lambda item: _new_ids(item["ids"]), item, {})
    new_ids = {at: new_id for at, new_id in ids.items() if at < len(plans)}
    sent = item.get("sent")
    marks = int.from_bytes(sent, "little") if isinstance(sent, bytes) else 0
    ends = (number_in(item, "expires") or 0.0, (number_in(item, "ttl") or 0.0) - kept)
    return Intent(
        slot=slot,
        owner=text_in(item, "own"),
        sequence=0,
        expires=min((end for end in ends if 0 < end <= latest), default=0.0),
        plans=plans,
        sent=marks if marks.bit_length() <= len(plans) else 0,
        new_ids=new_ids,
        home=text_in(item, "home"),
    )


def _plans(item: Mapping[str, Any]) -> PackedPlans:
    return PackedPlans(bytes(item["plans"]), tuple(map(str, item["targets"])))
