"""The manifest: all letters of a replay run in order, and one character on each for how far it is.

A part has 500 letters, and one row with their status.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.names import PART, Name, NotAName, from_lines
from deadletter.replay.objects import ObjectsUnavailable, RunObjects
from deadletter.replay.ticket import TERMINAL, ReplayOutcome

_INDEX = "manifest/index.json"
"""Written last: where it stands, the manifest is whole and never changes."""


@dataclass(frozen=True, slots=True)
class ManifestIndex:
    """How many letters each shard of a manifest has, and the hash of all its lines in order.

    `causes` counts the letters by the fingerprint of their last failure, where it is known.
    `folder` has the parts: each freeze writes into its own, and one index is kept.
    """

    shards: tuple[int, ...]
    hash: str
    causes: Mapping[str, int] = field(default_factory=dict)
    folder: str = ""

    @property
    def messages(self) -> int:
        return sum(self.shards)

    def parts(self, shard: int) -> int:
        """The parts of a shard: the last one may have fewer than 500 letters."""
        return -(-self.shards[shard] // PART)

    def to_text(self) -> str:
        """The index as JSON; `index_from_text` is its inverse."""
        return json.dumps(
            {
                "shards": self.shards,
                "hash": self.hash,
                "causes": dict(self.causes),
                "folder": self.folder,
            }
        )


def index_from_text(text: str | bytes) -> ManifestIndex:
    """The index in JSON. Raises NotAName for anything else."""
    try:
        data: Any = json.loads(text)
        shards = tuple(int(count) for count in data["shards"])
        causes = {str(cause): int(count) for cause, count in data["causes"].items()}
        index = ManifestIndex(shards, str(data["hash"]), causes, str(data["folder"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAName("this is no index of a manifest") from error
    if len(shards) != SHARDS or min(shards) < 0:
        raise NotAName(f"the index of a manifest counts {SHARDS} shards")
    return index


def part_name(shard: int, part: int, folder: str = "") -> str:
    """The name of the object with one part; parts count from 0."""
    within = f"{folder}/" if folder else ""
    return f"manifest/{within}{shard}/{part:06}.jsonl"


class ManifestParts(Protocol):
    """Reads the parts of a manifest. Raises ObjectsUnavailable."""

    def part(self, shard: int, part: int) -> Sequence[Name]: ...


class Manifest:
    """Reads the manifest of one run. Raises ObjectsUnavailable, also for damaged objects."""

    def __init__(self, objects: RunObjects) -> None:
        self._objects = objects
        self._folder: str | None = None

    def index(self) -> ManifestIndex | None:
        """The index; None if the snapshot is not frozen yet."""
        text = self._objects.get(_INDEX)
        if text is None:
            return None
        try:
            index = index_from_text(text)
        except NotAName as error:
            raise ObjectsUnavailable(f"{_INDEX}: {error}") from error
        self._folder = index.folder
        return index

    def part(self, shard: int, part: int) -> Sequence[Name]:
        """The letters of one part: position `n` of the shard is number `n % 500` of `n // 500`."""
        if self._folder is None:
            self.index()
        name = part_name(shard, part, self._folder or "")
        lines = self._objects.get(name)
        if lines is None:
            raise ObjectsUnavailable(f"{name} of the manifest is missing")
        try:
            return from_lines(lines)
        except NotAName as error:
            raise ObjectsUnavailable(f"{name}: {error}") from error

    def names(self, index: ManifestIndex) -> Iterator[Name]:
        """All letters in order, one part in memory at a time."""
        for shard in range(SHARDS):
            for part in range(index.parts(shard)):
                yield from self.part(shard, part)

    def seal(self, index: ManifestIndex) -> ManifestIndex:
        """Declare the manifest whole; returns the index that stands: the first one ever sealed."""
        if self._objects.put_first(_INDEX, index.to_text().encode()):
            self._folder = index.folder
            return index
        sealed = self.index()
        if sealed is None:
            raise ObjectsUnavailable(f"{_INDEX} is there and cannot be read")
        return sealed


_OPEN = ReplayOutcome.OPEN.encode()
_TERMINAL = frozenset(outcome.encode()[0] for outcome in TERMINAL)

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
"""How often a letter came back, as one character. One that fails by its dependency comes back more
often than the plan allows: behind the last of these it counts no more."""

_MOST_RETURNS = len(DIGITS) - 1


@dataclass(frozen=True, slots=True)
class PartStatus:
    """What became of the letters of one part, by their position in it.

    `outcomes` is a character of ReplayOutcome for each, `returns` one of DIGITS: how often it
    came back from a try. `late` is one too: how many of its tries failed that had been sent
    before a person resumed the run. Positions after the end of the texts are OPEN and never came
    back.
    """

    outcomes: str = ""
    returns: str = ""
    late: str = ""


def merged(stored: PartStatus, status: PartStatus) -> PartStatus:
    """The status of a part after a later one was written over it.

    A terminal outcome stands, and returns only grow: a worker that was paused for long knows
    less than the row does.
    """
    length = max(len(stored.outcomes), len(status.outcomes))
    before = stored.outcomes.ljust(length, ReplayOutcome.OPEN)
    after = status.outcomes.ljust(length, ReplayOutcome.OPEN)
    outcomes = (
        old if ord(old) in _TERMINAL else new for old, new in zip(before, after, strict=True)
    )
    returns = _larger(stored.returns, status.returns, length)
    late = _larger(stored.late, status.late, length) if stored.late or status.late else ""
    return PartStatus("".join(outcomes), returns, late)


def _larger(stored: str, status: str, length: int) -> str:
    """The larger digit of each position; digits that are missing are 0."""
    pairs = zip(stored.ljust(length, "0"), status.ljust(length, "0"), strict=True)
    return "".join(map(max, pairs))


class StatusUnavailable(Exception):
    """What became of the letters of a run could not be read or written."""


class Statuses(Protocol):
    """The rows with the status of a run's parts. Raises StatusUnavailable."""

    def read(self, shard: int) -> Mapping[int, PartStatus]:
        """The status of a shard's parts by their number; a part that nothing is known of is
        missing. Read consistently."""

    def write(self, shard: int, parts: Mapping[int, PartStatus]) -> None:
        """Store the status of parts, `merged` with what is stored: nothing is ever taken back.

        Storing one twice has the effect of once.
        """


@dataclass(slots=True)
class ShardProgress:
    """What became of the letters of one shard, in three bytes for each.

    `dirty` parts are unsaved.
    """

    shard: int
    outcomes: bytearray
    returns: bytearray
    late: bytearray
    dirty: set[int]

    @classmethod
    def of(cls, shard: int, parts: Mapping[int, PartStatus]) -> ShardProgress:
        progress = cls(shard, bytearray(), bytearray(), bytearray(), set())
        for number, status in parts.items():
            start = number * PART
            progress._grow(start + len(status.outcomes))
            progress.outcomes[start : start + len(status.outcomes)] = status.outcomes.encode()
            for offset, digit in enumerate(status.returns):
                progress.returns[start + offset] = DIGITS.index(digit)
            for offset, digit in enumerate(status.late):
                progress.late[start + offset] = DIGITS.index(digit)
        return progress

    def outcome(self, position: int) -> ReplayOutcome:
        if position >= len(self.outcomes):
            return ReplayOutcome.OPEN
        return ReplayOutcome(chr(self.outcomes[position]))

    def is_terminal(self, position: int) -> bool:
        return position < len(self.outcomes) and self.outcomes[position] in _TERMINAL

    def returned(self, position: int) -> int:
        """How often the letter came back from a try."""
        return self.returns[position] if position < len(self.returns) else 0

    def set(self, position: int, outcome: ReplayOutcome, returns: int | None = None) -> None:
        """Note what became of a letter. A terminal outcome is final: what comes later is void."""
        if self.is_terminal(position):
            return
        self._grow(position + 1)
        count = self.returns[position] if returns is None else min(returns, _MOST_RETURNS)
        character = outcome.encode()[0]
        if (self.outcomes[position], self.returns[position]) == (character, count):
            return
        self.outcomes[position], self.returns[position] = character, count
        self.dirty.add(position // PART)

    def note_late(self, position: int) -> None:
        """Note that a try of this letter failed which had been sent before the run was resumed.

        It says nothing of the step that has begun since.
        """
        self._grow(position + 1)
        self.late[position] = min(self.late[position] + 1, _MOST_RETURNS)
        self.dirty.add(position // PART)

    def status_of(self, part: int) -> PartStatus:
        """The status of one part, as its row holds it."""
        span = slice(part * PART, (part + 1) * PART)
        returns, late = (
            "".join(DIGITS[number] for number in each[span]) for each in (self.returns, self.late)
        )
        return PartStatus(self.outcomes[span].decode(), returns, late if any(self.late) else "")

    def counts(self) -> Counter[ReplayOutcome]:
        """Letters by what became of them, as far as the texts reach."""
        numbers = Counter(self.outcomes)
        return Counter({ReplayOutcome(chr(byte)): number for byte, number in numbers.items()})

    @property
    def returns_total(self) -> int:
        """Tries that ended with the letter coming back."""
        return sum(self.returns)

    @property
    def late_total(self) -> int:
        """Tries that failed and had been sent before the run was resumed."""
        return sum(self.late)

    def _grow(self, length: int) -> None:
        missing = length - len(self.outcomes)
        if missing > 0:
            self.outcomes.extend(_OPEN * missing)
            self.returns.extend(bytes(missing))
            self.late.extend(bytes(missing))


def save(statuses: Statuses, shards: Iterable[ShardProgress]) -> None:
    """Write what is unsaved. Raises StatusUnavailable; what is not written stays unsaved."""
    for progress in shards:
        parts = sorted(progress.dirty)
        if parts:
            statuses.write(progress.shard, {part: progress.status_of(part) for part in parts})
            progress.dirty.difference_update(parts)
