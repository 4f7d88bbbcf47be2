"""The manifest: all letters of a replay run in their order, in parts of 500."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.names import PART, Name, NotAName, from_lines
from deadletter.replay.objects import ObjectsUnavailable, RunObjects

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
    def letters(self) -> int:
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
