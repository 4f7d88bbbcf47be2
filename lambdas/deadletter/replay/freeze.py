"""Freezes the snapshot of a replay run: the letters in its custody become its manifest.

Pages name too much, never too little: each name is looked up, and stays if its letter is in
the run's lane. The letter itself is read with it, and kept as an original. Names are sorted in
runs that fit into memory and merged by streaming. Nothing here moves a letter, and all of it may
be done again.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Protocol

from deadletter.contract import run_lane
from deadletter.redrive.waiting_room import SHARDS, HeldItem, RoomUnavailable
from deadletter.replay.manifest import Manifest, ManifestIndex, part_name
from deadletter.replay.names import PART, Name, NotAName, SortKey, from_line, from_lines, to_lines
from deadletter.replay.objects import ObjectsUnavailable, OriginalsOfBatch, RunObjects, StoredObject
from deadletter.replay.snapshot import PAGES

SORTED = "sorted/"
"""The folder of sorted runs of names, until the manifest is whole."""

RUN_BYTES = 1_000_000
"""Bytes of pages whose names are sorted in memory: some 4,000 letters."""

MERGE_BYTES = 8_000_000
"""Bytes that a merge reads ahead, of all its runs together."""

LEAST_READ, MOST_READ = 8_192, 262_144
"""Bytes that a merge reads ahead of one run."""


class Custody(Protocol):
    """The waiting room, as the freeze asks it."""

    def held(self, lane: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """The shards of those items that are in a lane, read consistently.

        Raises RoomUnavailable.
        """

    def contents(self, lane: str, places: Sequence[tuple[str, str]]) -> Iterable[HeldItem]:
        """The same items with what they hold, read by as many requests; few large ones in memory
        at once. Raises RoomUnavailable.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeReport:
    """How far a freeze has come.

    done      whether the manifest is whole
    index     the manifest's, once it is
    stopped   why it is not
    """

    done: bool
    index: ManifestIndex | None = None
    stopped: str = ""


class _OutOfTime(Exception):
    pass


class Freeze:
    """Makes the manifest of a run out of its pages.

    `token` is a text that no other freeze has: two at once write into folders of their own, and
    the first index stands. A slow one no longer finds in the lane what the run has sent by then.
    `originals` are the objects that keep the letters, None if none are kept. `clock` gives epoch
    seconds.
    """

    def __init__(
        self,
        run: str,
        *,
        objects: RunObjects,
        originals: RunObjects | None = None,
        custody: Custody,
        token: str,
        clock: Callable[[], float],
    ) -> None:
        self._lane = run_lane(run)
        self._objects = objects
        self._originals = originals
        self._custody = custody
        self._token = token
        self._clock = clock
        self._manifest = Manifest(objects)

    def run(self, deadline: float) -> FreezeReport:
        """Go on until the manifest is whole, or until `deadline` (epoch seconds)."""
        try:
            index = self._manifest.index()
            if index is None:
                index = self._freeze(deadline)
        except _OutOfTime:
            return FreezeReport(done=False, stopped="the deadline is near")
        except (ObjectsUnavailable, RoomUnavailable, NotAName) as error:
            return FreezeReport(done=False, stopped=str(error))
        return FreezeReport(done=True, index=index)

    def _freeze(self, deadline: float) -> ManifestIndex:
        stored = {each.name: each for each in self._objects.listed(SORTED)}
        runs: list[StoredObject] = []
        for pages in _batches(self._objects.listed(PAGES)):
            batch = _name_of(pages)
            name = f"{SORTED}{batch}.jsonl"
            if name not in stored:
                self._check(deadline)
                kept = self._batch(batch, deadline)
                lines = b"".join(line for _, line in sorted(self._in_custody(pages, kept)))
                # First the letters: of a batch whose names are stored nothing is read again.
                if kept is not None:
                    kept.flush()
                self._objects.put(name, lines)
                stored[name] = StoredObject(name, len(lines))
            runs.append(stored[name])
        return self._manifest.seal(self._write(self._merged(runs), deadline))

    def _check(self, deadline: float) -> None:
        if self._clock() >= deadline:
            raise _OutOfTime

    def _batch(self, batch: str, deadline: float) -> OriginalsOfBatch | None:
        if self._originals is None:
            return None
        return OriginalsOfBatch(self._originals, batch, partial(self._check, deadline))

    def _in_custody(
        self, pages: Sequence[StoredObject], kept: OriginalsOfBatch | None
    ) -> Iterator[tuple[SortKey, bytes]]:
        """The names of these pages whose letters are in the run's lane, each copy once."""
        seen: set[str] = set()
        for page in pages:
            named: dict[tuple[str, str], list[Name]] = {}
            for name in self._names(page):
                if name.copy not in seen:
                    named.setdefault(name.place, []).append(name)
            for held in self._held(list(named), letters=kept is not None):
                # A letter that two passes have named under two keys is in the shard of one.
                names = (name for name in named[held.place] if name.shard == held.shard)
                joined = next(names, None)
                if joined is None or joined.copy in seen:
                    continue
                seen.add(joined.copy)
                line = joined.to_line().encode()
                if kept is not None:
                    kept.add(line, held)
                yield joined.sort_key, line + b"\n"

    def _held(self, places: Sequence[tuple[str, str]], *, letters: bool) -> Iterable[HeldItem]:
        if letters:
            return self._custody.contents(self._lane, places)
        return (HeldItem(*each) for each in self._custody.held(self._lane, places).items())

    def _names(self, page: StoredObject) -> Sequence[Name]:
        lines = self._objects.get(page.name)
        if lines is None:
            raise ObjectsUnavailable(f"{page.name} is missing")
        try:
            return from_lines(lines)
        except NotAName as error:
            raise ObjectsUnavailable(f"{page.name}: {error}") from error

    def _merged(self, runs: Sequence[StoredObject]) -> Iterator[Name]:
        """The names of all runs in order, each copy once."""
        ahead = min(MOST_READ, max(LEAST_READ, MERGE_BYTES // max(1, len(runs))))
        streams = [map(from_line, _lines(self._objects, run, ahead)) for run in runs]
        last = ""
        for name in heapq.merge(*streams, key=lambda name: name.sort_key):
            if name.copy != last:
                yield name
            last = name.copy

    def _write(self, names: Iterator[Name], deadline: float) -> ManifestIndex:
        """Write the parts of the manifest."""
        digest = blake2b(digest_size=16)
        counts = [0] * SHARDS
        causes: Counter[str] = Counter()
        part: list[Name] = []

        def flush() -> None:
            if not part:
                return
            self._check(deadline)
            shard = part[0].shard
            lines = to_lines(part)
            digest.update(lines)
            name = part_name(shard, counts[shard] // PART, self._token)
            self._objects.put(name, lines)
            counts[shard] += len(part)
            part.clear()

        for name in names:
            if part and (len(part) == PART or part[0].shard != name.shard):
                flush()
            part.append(name)
            if name.cause:
                causes[name.cause] += 1
        flush()
        return ManifestIndex(tuple(counts), digest.hexdigest(), causes, self._token)


def _batches(pages: Sequence[StoredObject]) -> Iterator[Sequence[StoredObject]]:
    """The pages in runs that are sorted in memory."""
    batch: list[StoredObject] = []
    size = 0
    for page in pages:
        if batch and size + page.size > RUN_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(page)
        size += page.size
    if batch:
        yield batch


def _name_of(pages: Sequence[StoredObject]) -> str:
    """A name for a run of pages: another set of pages has another one."""
    text = "\n".join(page.name for page in pages)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _lines(objects: RunObjects, stored: StoredObject, ahead: int) -> Iterator[bytes]:
    """The lines of an object, with at most `ahead` bytes of it in memory."""
    rest = b""
    for start in range(0, stored.size, ahead):
        *lines, rest = (rest + objects.get_part(stored.name, start, ahead)).split(b"\n")
        yield from lines
