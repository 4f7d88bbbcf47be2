"""The objects of replay runs: their port, discarded letters, and originals.

Originals are letters as a replay run took them, so that the run can be repeated. The freeze stores
them, a few hundred in one compressed object; only forgetting changes an object later. A letter that
is processed, parked or lost leaves its original where it is, until a lifecycle rule of the bucket
deletes it.

    an object = lines, compressed;  a line = {"name":…, "home":…, "stamp":…, "message":…}
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Protocol

from deadletter.contract import DEFAULT_PARKING, DISCARDED, parking_source
from deadletter.message import stamp as stamps
from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.letter import (
    MAX_BYTES,
    Letter,
    NotALetter,
    compact_json,
    from_json,
    to_json,
)
from deadletter.message.stamp import Stamp
from deadletter.redrive.router_client import is_parking
from deadletter.redrive.waiting_room import HeldItem
from deadletter.replay.names import Name, from_data


class ObjectsUnavailable(Exception):
    """An object could not be read or written; the message says what refused."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The name of an object within its run, and its bytes."""

    name: str
    size: int


class RunObjects(Protocol):
    """The objects of one run, by their names within it. Raises ObjectsUnavailable."""

    def put(self, name: str, data: bytes) -> None:
        """Store an object; the same name again replaces it."""

    def put_first(self, name: str, data: bytes) -> bool:
        """Store an object unless there is one with this name; returns whether it was stored.

        False also if our own first try stored it, whose answer was lost.
        """

    def get(self, name: str) -> bytes | None:
        """A whole object; None if it is missing."""

    def get_part(self, name: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`, which lies within the object."""

    def listed(self, folder: str) -> Sequence[StoredObject]:
        """The objects whose names begin with `folder`, in the order of their names."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; one that is missing is no error."""


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


_PARKED = "PARK"


class NotADiscardedLetter(ValueError):
    """The object is no copy of a discarded letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedLetter:
    """A letter that a person has thrown away.

    home     where it came from: "parking:<id>", for a letter that was parked
    stamp    the one that it had in the run
    at       when it was discarded (epoch seconds)
    by, because  who did it, and the reason given
    """

    letter: Letter
    home: str
    stamp: Stamp
    at: int
    by: str
    because: str

    def to_bytes(self) -> bytes:
        """The object that keeps it; `discarded_letter` is its inverse."""
        return compact_json(
            {
                "message": to_json(self.letter),
                "home": self.home,
                "stamp": stamps.to_data(self.stamp),
                "discarded": {"at": self.at, "by": self.by, "because": self.because},
            }
        )

    @property
    def parked_in(self) -> str:
        """The parking queue that it belongs to; one that was never parked goes to the first."""
        return self.home if is_parking(self.home) else parking_source(DEFAULT_PARKING)

    @property
    def parked_stamp(self) -> Stamp:
        """The stamp that it had while it was parked, as far as it is known.

        The run has kept the reason. Rule, time and sentence are in the letter's own stamp, which is
        believed where it says the same.
        """
        parked = replace(
            self.stamp,
            run=None,
            ticket=None,
            canary=None,
            rule=None,
            decision=_PARKED,
            because=None,
            at=None,
        )
        own = self._own_stamp()
        if own is None or (own.origin, own.reason) != (parked.origin, parked.reason):
            return parked
        return replace(parked, rule=own.rule, because=own.because, at=own.at)

    def _own_stamp(self) -> Stamp | None:
        attribute = self.letter.attributes.get(stamps.NAME)
        own = None if attribute is None else stamps.parse(attribute.value)
        return own if own is not None and own.decision == _PARKED else None


def discarded_name(copy: str) -> str:
    """The name of the object within its run."""
    return f"{DISCARDED}{copy}.json"


def discarded_letter(name: str, data: bytes) -> DiscardedLetter:
    """The letter in an object of that name. Raises NotADiscardedLetter."""
    try:
        found: Any = json.loads(data)
        letter, stamp = from_json(found["message"]), stamps.from_data(found["stamp"])
        facts = found["discarded"]
        if stamp is None or discarded_name(letter.message_id) != name:
            raise ValueError("it keeps another message, or one without a stamp")
        return DiscardedLetter(
            letter=letter,
            home=str(found.get("home", "")),
            stamp=stamp,
            at=int(facts["at"]),
            by=str(facts["by"]),
            because=str(facts["because"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NotALetter) as error:
        raise NotADiscardedLetter(f"{name} is no discarded message") from error


MOST_LETTERS = 500
"""Letters of one object: half a cent for a million letters' requests, and one is soon read."""

MOST_BYTES = 8_000_000
"""Bytes of one object's lines before they are compressed; a letter of 1 MiB has six million at
most, as JSON."""

_LEVEL = 1
"""Of zlib: a higher one takes several times the CPU of the freeze for a tenth less."""

_GZIP = 31
"""Window and container of zlib: so that `gunzip` reads an object."""

_END = b"}\n"


class NotAnOriginal(ValueError):
    """The object, or a line in it, is not what the freeze wrote."""


@dataclass(frozen=True, slots=True)
class Original:
    """A letter as a run took it: by its name in the run, with the stamp that it had in its lane.

    `home` is where it came from, as in a ReceivedLetter.
    """

    name: Name
    home: str
    stamp: Stamp
    letter: Letter


def line_of(name: bytes, held: HeldItem) -> bytes | None:
    """The line of one letter; `original_in` is its inverse. None if there is nothing to keep.

    `name` is the line of its name in the manifest.

    A text with an end of line in it is none of ours: it could pose as the line of another letter.
    """
    home, stamp, letter = json.dumps(held.home).encode(), held.stamp.encode(), held.letter
    if letter is None or b"\n" in letter or b"\n" in stamp:
        return None
    texts = (name, home, stamp, letter, _END)
    return b'{"name":%s,"home":%s,"stamp":%s,"message":%s%s' % texts


def original_in(line: bytes) -> Original:
    """The letter in a line. Raises NotAnOriginal."""
    try:
        data: Any = json.loads(line)
        name, stamp = from_data(data["name"]), stamps.from_data(data["stamp"])
        letter, home = from_json(data["message"]), data["home"]
    except (ValueError, KeyError, TypeError, RecursionError, NotALetter) as error:
        raise NotAnOriginal("this line is no message that a run took") from error
    texts = (name.copy, name.sequence, name.tenant, name.cause, name.category, home)
    numbers = (name.attempt, name.size, name.first_sent)
    is_whole = all(isinstance(text, str) for text in texts) and set(map(type, numbers)) == {int}
    if stamp is None or stamp.origin != name.origin or not is_whole:
        raise NotAnOriginal("this line is no message that a run took")
    return Original(name, home, stamp, letter)


def lines_in(data: bytes) -> list[bytes]:
    """The lines of an object. Raises NotAnOriginal for one that is damaged or far too large."""
    unpacking = zlib.decompressobj(_GZIP)
    try:
        lines = unpacking.decompress(data, MOST_BYTES + 1)
    except zlib.error as error:
        raise NotAnOriginal("the object is no compressed text") from error
    if not unpacking.eof or len(lines) > MOST_BYTES or not (lines.endswith(_END) or not lines):
        raise NotAnOriginal("the object is cut off, or too large")
    return [line + b"\n" for line in lines.split(b"\n")[:-1]]


def packed(lines: Collection[bytes]) -> bytes:
    """The object with these lines; the same bytes for the same lines."""
    packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return b"".join([*map(packing.compress, lines), packing.flush()])


class OriginalsOfBatch:
    """Stores the letters of one batch of the freeze. Raises ObjectsUnavailable.

    The name of an object is made of its content: a freeze that goes on after a crash finds what
    it stored before. What is there stays as it is, because forgetting may have changed it since.
    `before_put` may raise instead of letting a store begin.
    """

    def __init__(self, objects: RunObjects, batch: str, before_put: Callable[[], None]) -> None:
        self._objects = objects
        self._batch = batch
        self._before_put = before_put
        self._lines: list[bytes] = []
        self._bytes = 0

    def add(self, name: bytes, held: HeldItem) -> None:
        """Take one letter along; one that cannot be read has no original."""
        line = line_of(name, held)
        if line is None or len(line) > MOST_BYTES:
            return
        if len(self._lines) == MOST_LETTERS or self._bytes + len(line) > MOST_BYTES:
            self.flush()
        self._lines.append(line)
        self._bytes += len(line)

    def flush(self) -> None:
        """Store what is not stored yet."""
        if not self._lines:
            return
        self._before_put()
        digest = blake2b(digest_size=12)
        for line in self._lines:
            digest.update(line)
        name = f"{self._batch}-{digest.hexdigest()}.jsonl.gz"
        self._objects.put_first(name, packed(self._lines))
        self._lines, self._bytes = [], 0


def without(data: bytes, ids: Collection[str]) -> bytes | None:
    """The object without the letters that have one of these ids; None if it has none of them.

    The ids are of copies or of first lives. A damaged object loses all: what it holds cannot be
    sent, and whose it is cannot be known.
    """
    try:
        lines = lines_in(data)
    except NotAnOriginal:
        return packed([])
    sought = [id_.encode() for id_ in ids]
    kept = [line for line in lines if not _is_of(line, sought, ids)]
    return packed(kept) if len(kept) < len(lines) else None


def _is_of(line: bytes, sought: Collection[bytes], ids: Collection[str]) -> bool:
    """Whether a line is a letter with one of these ids; it is, if it names one and is damaged."""
    if not any(id_ in line for id_ in sought):
        return False
    try:
        name = original_in(line).name
    except NotAnOriginal:
        return True
    return name.origin in ids or name.copy in ids


def originals_in(data: bytes, note_damage: Callable[[int], object]) -> Iterator[Original]:
    """The letters of an object, one in memory at a time beside its lines.

    `note_damage` is told of lines that cannot be read. Raises NotAnOriginal for a whole object.
    """
    for number, line in enumerate(lines_in(data), 1):
        try:
            yield original_in(line)
        except NotAnOriginal:
            note_damage(number)
