"""The new idempotency key of a letter that is sent once more: it is a part of our stamp."""

from __future__ import annotations

from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.letter import MAX_BYTES, Letter
from deadletter.message.stamp import Stamp

NO_ROOM = "manifest/no-room.jsonl"
"""The object of a run with the names of the letters that were not made, because they had no room,
if there are any: who may read a report may read it."""

GROWTH = 512
"""Bytes by which a stamp may grow until its letter is sent, and in its later lives."""


def has_room(letter: Letter, stamp: Stamp, max_bytes: int = MAX_BYTES) -> bool:
    """False for a letter that would be sent without its new key: the consumer would skip it.

    A letter with ten attributes of its own, or of nearly `max_bytes`, has no room for a stamp. One
    whose key is the old one is sent without it.
    """
    if not stamp.again:
        return True
    return seal(letter, stamp, QueueTraits(max_bytes=max_bytes - GROWTH)).marked
