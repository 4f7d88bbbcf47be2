"""Finds letters with a key in what runs have kept of them, for a run that forgets.

Such letters may have been processed long ago. Nothing is erased before all are found: a letter may
have the key in one place alone, say before an edit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from deadletter.contract import DISCARDED, EDITS, originals_object, run_object
from deadletter.message.letter import Letter, NotALetter, from_json
from deadletter.message.stamp import Stamp
from deadletter.replay.discarded import NotADiscardedLetter, discarded_letter
from deadletter.replay.objects import RunObjects
from deadletter.replay.originals import NotAnOriginal, originals_in
from deadletter.routing.selection import Selection
from deadletter.routing.selector import Selector
from deadletter.rules.document import DocumentBuilder
from deadletter.settings.pipeline import Pipeline

_FOUND = "found.json"
"""The object of the run that forgets with the letters found so far, and how far it has looked."""

_Kept = Iterator[tuple[str, Letter, Stamp]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySearch:
    """Looks at originals, at copies of discards and at both versions of edits.

    `selection` has a pattern; its FIFO groups, of which nothing is taken, keep no letter out.
    `with_originals`, `originals` are the runs that have originals, and those of one run; `folders`,
    `objects` the same of all else that runs keep; `own` the objects of the run that forgets.
    `note_damage` is told of an object, or a line in it, in which no letter can be read.
    """

    pipeline: Pipeline
    selection: Selection
    with_originals: Callable[[], Iterable[str]]
    originals: Callable[[str], RunObjects]
    folders: Callable[[], Iterable[str]]
    objects: Callable[[str], RunObjects]
    own: RunObjects
    clock: Callable[[], float]
    note_damage: Callable[[str], object]

    def run(self, deadline: float) -> set[str] | None:
        """The first lives of the letters found; None if `deadline` (epoch seconds) came before.

        The next call goes on where this one has ended. Raises ObjectsUnavailable.
        """
        seen = json.loads(self.own.get(_FOUND) or b'{"after": "", "ids": []}')
        after, ids = str(seen["after"]), set(map(str, seen["ids"]))
        matches = self._matches()
        in_time = True
        for key, kept in self._places():
            if key <= after:
                continue
            if self.clock() >= deadline:
                in_time = False
                break
            ids |= {origin for origin, letter, stamp in kept() if matches(letter, stamp)}
            after = key
        self.own.put(_FOUND, json.dumps({"after": after, "ids": sorted(ids)}).encode())
        return ids if in_time else None

    def _matches(self) -> Callable[[Letter, Stamp], bool]:
        selector = Selector(replace(self.selection, groups=None))
        documents, now = DocumentBuilder(self.pipeline), self.clock()

        def matches(letter: Letter, stamp: Stamp) -> bool:
            document = documents.build(letter, stamp, None, now)
            return selector.matches(letter, stamp, None, document)

        return matches

    def _places(self) -> Iterator[tuple[str, Callable[[], _Kept]]]:
        """The objects that keep letters, in the order of their keys, each with a way to read it."""
        pipeline = self.pipeline.name
        for run in self.with_originals():
            objects = self.originals(run)
            for stored in objects.listed(""):
                key = originals_object(pipeline, run, stored.name)
                yield key, partial(self._originals, objects, stored.name, key)
        for run in self.folders():
            objects = self.objects(run)
            for stored in (*objects.listed(DISCARDED), *objects.listed(EDITS)):
                key = run_object(pipeline, run, stored.name)
                yield key, partial(self._copies, objects, stored.name, key)

    def _originals(self, objects: RunObjects, name: str, key: str) -> _Kept:
        data = objects.get(name)
        if data is None:
            return
        try:
            for each in originals_in(data, lambda line: self.note_damage(f"{key}:{line}")):
                yield each.name.origin, each.letter, each.stamp
        except NotAnOriginal:
            # It is erased as a whole, as by every run that forgets.
            self.note_damage(key)

    def _copies(self, objects: RunObjects, name: str, key: str) -> _Kept:
        data = objects.get(name)
        if data is None:
            return
        try:
            if name.startswith(DISCARDED):
                discarded = discarded_letter(name, data)
                yield discarded.stamp.origin, discarded.letter, discarded.stamp
                return
            match json.loads(data):
                case {"origin": str(origin), "before": before, "after": after}:
                    for version in (before, after):
                        yield origin, from_json(version), Stamp(origin)
                case _:
                    self.note_damage(key)
        except (ValueError, RecursionError, NotALetter, NotADiscardedLetter):
            self.note_damage(key)
