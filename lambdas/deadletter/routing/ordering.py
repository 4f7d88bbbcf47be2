"""The order of letters: which of them are in order with each other, and in which."""

from __future__ import annotations

from hashlib import blake2b

from deadletter.message.letter import Letter, utf8
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import SHARDS
from deadletter.rules.document import Document
from deadletter.settings.pipeline import Pipeline

# Digits of SQS's SequenceNumber, which has 128 bits, and of a time in milliseconds.
_SEQUENCE_DIGITS = 39
_TIME_DIGITS = 15


def key_hash(text: str) -> str:
    """Sixteen hexadecimal digits for an ordering key, or for the origin of a letter without one."""
    return blake2b(utf8(text), digest_size=8).hexdigest()


def shard_of_key(text: str) -> int:
    """The shard of a run's lane and manifest for an ordering key, or for an origin."""
    return shard_of_hash(key_hash(text))


def shard_of_hash(hashed: str) -> int:
    """The shard for the `key_hash` of an ordering key."""
    return int(hashed[:2], 16) % SHARDS


class Ordering:
    """The ordering keys of one pipeline's letters, and each letter's place within its key."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._fifo = pipeline.fifo

    def key(self, letter: Letter, document: Document) -> str:
        """The key that the letter is in order with; empty if it is in order with no other."""
        return (letter.group or "") if self._fifo else ""

    def sequence(self, letter: Letter, stamp: Stamp, document: Document) -> str:
        """The letter's place within its key: texts compare as Python compares them."""
        number = letter.system.get("SequenceNumber", "")
        return f"{stamp.first_sent:0{_TIME_DIGITS}d}.{number:0>{_SEQUENCE_DIGITS}}"
