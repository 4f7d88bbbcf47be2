"""The journal in DynamoDB: a small item per worker, and few with the letters that stand."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, cancelled, condition_failed, refusal
from deadletter.aws.table import PARTITION, SORT, DynamoDBTable, Key, conflicting_item
from deadletter.contract import Partition
from deadletter.redrive.journal import (
    KEY_BYTES,
    ClaimLost,
    Intent,
    JournalUnavailable,
    PackedPlans,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_POSITION_BYTES = 2

_UNCHANGED = "own = :own AND seq = :seq"
"""The condition that a slot still holds an intent, marked or not."""


_UNTOUCHED = f"{_UNCHANGED} AND sent = :sent"
"""The condition that nothing has been marked in an intent since it was read."""


class DynamoDBJournal:
    """The intents of one pipeline.

    `keep_seconds` is how long an abandoned intent stays. It must be longer than the DLQ's
    retention: as long as a letter can come back, the mark that it was sent must exist.
    """

    def __init__(
        self, client: DynamoDBClient, table: str, pipeline: str, keep_seconds: float
    ) -> None:
        self._table = DynamoDBTable(client, table)
        self._partition = Partition.JOURNAL.of(pipeline)
        self._keep_seconds = keep_seconds

    def read(self) -> Sequence[Intent]:
        try:
            items = self._table.stored_items(
                "pk = :p", {":p": self._partition}, ConsistentRead=True
            )
            return [_intent(item) for item in items]
        except AWS_ERRORS as error:
            raise self._unavailable(error) from error

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        #  slot empty ──write 1──► 1 ──write 2 (finds 1)──► 2 ── …
        #                          └─ the SDK repeats write 2, because its answer was lost:
        #                             it finds 2, the very item that it writes
        item = self._item(intent)
        try:
            if replacing is None:
                self._table.put(item, "attribute_not_exists(pk)")
            else:
                self._table.put(item, _UNCHANGED, _identity(replacing))
        except AWS_ERRORS as error:
            stored = conflicting_item(error)
            if stored is None:
                raise self._unavailable(error) from error
            if stored != item:
                raise ClaimLost(intent.slot) from error

    def mark(self, intent: Intent) -> None:
        try:
            self._table.change(
                self._key(intent),
                {"sent": _bits(intent, intent.sent), **_ids(intent)},
                condition=_UNCHANGED,
                values=_identity(intent),
            )
        except AWS_ERRORS as error:
            if condition_failed(error):
                raise ClaimLost(intent.slot) from error
            raise self._unavailable(error) from error

    def erase(self, intent: Intent) -> None:
        try:
            self._table.delete(self._key(intent), _UNCHANGED, _identity(intent))
        except AWS_ERRORS as error:
            if not condition_failed(error):
                raise self._unavailable(error) from error

    def merge(self, parts: Sequence[Intent], into: Intent | None) -> None:
        try:
            self._table.replace_many(
                [
                    (
                        self._key(part),
                        _UNTOUCHED,
                        {**_identity(part), ":sent": _bits(part, part.sent)},
                    )
                    for part in parts
                ],
                [] if into is None else [self._item(into)],
            )
        except AWS_ERRORS as error:
            if cancelled(error):
                raise ClaimLost(parts[0].slot) from error
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> JournalUnavailable:
        return JournalUnavailable(refusal(error, "dynamodb", self._table.name))

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
            "ttl": int(intent.expires + self._keep_seconds),
        }


def _identity(intent: Intent) -> dict[str, Any]:
    """The values in `_UNCHANGED`."""
    return {":own": intent.owner, ":seq": intent.sequence}


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
    """The intent in a stored item; raises JournalUnavailable for a malformed one.

    The attributes are taken out by hand: a run may have to read thousands of items.
    """
    try:
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
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise JournalUnavailable("an item of the journal is malformed") from error
