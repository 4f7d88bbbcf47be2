"""The manifest: all letters of a replay run in their order, in parts of 500."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.names import PART, Name, NotAName, from_lines
from deadletter.replay.objects import ObjectsUnavailable, RunObjects

_INDEX = "manifest/index.json"
"""Written last: where it stands, the manifest is whole and never changes."""


@dataclass(frozen=True, slots=True)
class ManifestIndex:
    """How many letters each shard of a manifest has, and the hash of all its lines in order.

    `causes` counts the letters by the fingerprint of their last failure, where it is known.
    """

    shards: tuple[int, ...]
    hash: str
    causes: Mapping[str, int] = field(default_factory=dict)

    @property
    def letters(self) -> int:
        return sum(self.shards)

    def parts(self, shard: int) -> int:
        """The parts of a shard: the last one may have fewer than 500 letters."""
        return -(-self.shards[shard] // PART)

    def to_text(self) -> str:
        """The index as JSON; `index_from_text` is its inverse."""
        return json.dumps({"shards": self.shards, "hash": self.hash, "causes": dict(self.causes)})


def index_from_text(text: str | bytes) -> ManifestIndex:
    """The index in JSON. Raises NotAName for anything else."""
    try:
        data: Any = json.loads(text)
        shards = tuple(int(count) for count in data["shards"])
        causes = {str(cause): int(count) for cause, count in data["causes"].items()}
        index = ManifestIndex(shards, str(data["hash"]), causes)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAName("this is no index of a manifest") from error
    if len(shards) != SHARDS or min(shards) < 0:
        raise NotAName(f"the index of a manifest counts {SHARDS} shards")
    return index


def part_name(shard: int, part: int) -> str:
    """The name of the object with one part; parts count from 0."""
    return f"manifest/{shard}/{part:06}.jsonl"


class Manifest:
    """Reads the manifest of one run. Raises ObjectsUnavailable, also for damaged objects."""

    def __init__(self, objects: RunObjects) -> None:
        self._objects = objects

    def index(self) -> ManifestIndex | None:
        """The index; None if the snapshot is not frozen yet."""
        text = self._objects.get(_INDEX)
        try:
            return None if text is None else index_from_text(text)
        except NotAName as error:
            raise ObjectsUnavailable(f"{_INDEX}: {error}") from error

    def part(self, shard: int, part: int) -> Sequence[Name]:
        """The letters of one part: position `n` of the shard is number `n % 500` of `n // 500`."""
        name = part_name(shard, part)
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

    def seal(self, index: ManifestIndex) -> None:
        """Declare the manifest whole."""
        self._objects.put(_INDEX, index.to_text().encode())
