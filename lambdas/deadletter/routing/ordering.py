"""The order of letters: which of them are in order with each other, and in which."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from math import inf, isfinite
from struct import pack, unpack

from deadletter.message.letter import Letter, digest, utf8
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import SHARDS
from deadletter.rules.document import Document
from deadletter.rules.paths import Path, compiled, value_at
from deadletter.settings.pipeline import Pipeline

# Digits of SQS's SequenceNumber, which has 128 bits, and of a time in milliseconds.
_SEQUENCE_DIGITS = 39
_TIME_DIGITS = 15

_DIGITS = re.compile(rf"[0-9]{{1,{_SEQUENCE_DIGITS}}}")

# What the place of a letter begins with: numbers, then texts, then what has neither.
_NUMBER, _TEXT, _TIME = "0", "1", "2"

# Characters of a place: the manifest is merged in memory of a constant size.
_LONGEST = 128

# Bytes of a text that a row's key has, twice: with the origin it fits into its 1,024.
_LONGEST_SORTED = 400

_SIGN, _ALL_BITS = 1 << 63, (1 << 64) - 1

# Whole numbers nearer to 0 are told apart exactly.
_OFFSET = 10**21
_EXACT_DIGITS = 22


_SORTABLE = re.compile(rf"{_NUMBER}[0-9a-f]{{16}}[0-9]{{{_EXACT_DIGITS}}}")


KINDS = (_NUMBER, _TEXT)
"""What the place of a version begins with: one kind is no later version than the other."""


def version_in(text: str) -> str:
    """The place of a version as it is written here; empty if the text is no such place."""
    return text if text.startswith(_TEXT) or _SORTABLE.fullmatch(text) else ""


def key_hash(text: str) -> str:
    """Sixteen hexadecimal digits for an ordering key, or for the origin of a letter without one."""
    return blake2b(utf8(text), digest_size=8).hexdigest()


def shard_of_key(text: str) -> int:
    """The shard of a run's lane and manifest for an ordering key, or for an origin."""
    return shard_of_hash(key_hash(text))


def shard_of_hash(hashed: str) -> int:
    """The shard for the `key_hash` of an ordering key."""
    return int(hashed[:2], 16) % SHARDS


def line_of(key: str) -> str:
    """The name of an ordering key's line: a hash, because a key may be personal data."""
    return digest(utf8(key))


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A message's place in the line of its ordering key.

    `line` is the hash of the key, `number` compares as the order does (see `Ordering.sequence`),
    `origin` is the id of the message's first life. It is claimed under the hash `claim` as the
    message `by`, the origin that its own stamp names; a second send of it has the same `same`.
    """

    line: str
    number: str
    origin: str
    claim: str = ""
    by: str = ""
    same: str = ""

    @property
    def kind(self) -> str:
        """Places of one kind are versions of one another."""
        return self.number[:1]

    @property
    def is_version(self) -> bool:
        """Whether its producer has named the place: the time of a send is no version of anything,
        and supersedes no message."""
        return not self.number.startswith(_TIME)

    @property
    def sort(self) -> str:
        """Texts of two places in one line compare as the places do, and no two are the same.

        But for texts of which only what is cut off differs: `upto` is behind all of them.
        """
        return f"{self._sorted} {self.origin}"

    @property
    def upto(self) -> str:
        """No `sort` of a place up to this one compares as higher."""
        return f"{self._sorted}!"

    @property
    def _sorted(self) -> str:
        if not self.number.startswith(_TEXT):
            return self.number
        # As they are, a space in a text would compare with the one before the origin.
        return f"{_TEXT}{utf8(self.number[1:])[:_LONGEST_SORTED].hex()}"

    def is_of(self, other: KeyPlace) -> bool:
        """Whether both are of one message."""
        return self.origin == other.origin or (self.same != "" and self.same == other.same)


class Ordering:
    """The ordering keys of one pipeline's letters, and each letter's place within its key.

    The expressions of the settings are compiled once; an invalid one raises BadSettings.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        key, sequence = pipeline.ordering_key, pipeline.sequence
        self._key = compiled("ordering_key", key) if key else None
        self._sequence = compiled("sequence", sequence) if sequence else None
        self._fifo = pipeline.fifo

    def key(self, letter: Letter, document: Document) -> str:
        """The key that the letter is in order with; empty if it is in order with no other.

        On FIFO queues a letter in which the setting finds nothing is in order with its group.
        """
        value = _scalar(self._key, document)
        if value is not None and value != "":
            return str(value)
        return (letter.group or "") if self._fifo else ""

    def sequence(self, letter: Letter, stamp: Stamp, document: Document) -> str:
        """The letter's place within its key: texts compare as Python compares them, and those of
        digits as numbers.

        Letters in which the setting finds nothing come last, by their first send and the number
        that SQS gave it. With equal places the first send decides.
        """
        value = _scalar(self._sequence, document)
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            # As texts, 10 would come before 9.
            value = int(value)
        if isinstance(value, str):
            return f"{_TEXT}{value[:_LONGEST]}"
        if value is not None:
            return f"{_NUMBER}{_sortable(value)}"
        number = stamp.sequence or letter.system.get("SequenceNumber", "")
        number = f"{number[:_SEQUENCE_DIGITS]:0>{_SEQUENCE_DIGITS}}"
        return f"{_TIME}{stamp.first_sent:0{_TIME_DIGITS}d}.{number}"

    def place(self, letter: Letter, stamp: Stamp, document: Document) -> KeyPlace | None:
        """The letter's place in the line of its key; None if it is in order with no other.

        One that a person has asked to be processed once more has no place: it goes at once.
        """
        key = self.key(letter, document)
        if not key or stamp.again:
            return None
        number = self.sequence(letter, stamp, document)
        return KeyPlace(line_of(key), number, stamp.origin)


def _scalar(path: Path | None, document: Document) -> str | int | float | None:
    value = None if path is None else value_at(path, document.value)
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _sortable(number: int | float) -> str:
    """A text for a number; texts of two numbers compare as the numbers do.

    The first digits are those of the nearest double, with its bits turned so that they compare
    like it; the others tell whole numbers apart for which doubles are too coarse.
    """
    try:
        double = float(number)
    except OverflowError:
        double = inf if number > 0 else -inf
    [bits] = unpack(">Q", pack(">d", double + 0.0))
    turned = bits ^ (_ALL_BITS if bits & _SIGN else _SIGN)
    # What no double holds is placed beside infinity.
    beyond = _OFFSET if number > 0 else -_OFFSET
    exact = int(number) if isinstance(number, int) or isfinite(number) else beyond
    offset = min(max(exact + _OFFSET, 0), 2 * _OFFSET)
    return f"{turned:016x}{offset:0{_EXACT_DIGITS}d}"
