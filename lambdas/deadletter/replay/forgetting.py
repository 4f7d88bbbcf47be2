"""Erases what is kept of letters that a run was told to forget, once the letters are gone.

    their rows in the ledger          values of the context, texts of their failures
    their copies in every run's folder that discards or edits have left
    their originals, in objects that keep those of others too

The letters themselves are gone by then: the run has thrown them away. Letters that a person names
by a key may be gone for long: they are looked for in what is kept of them, and from then on are
forgotten by their ids. Names stay (ids, tenants) in the lists and reports of runs, until those
expire.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from deadletter.contract import DISCARDED, EDITS, originals_object, run_object
from deadletter.message.letter import Letter, NotALetter, from_json
from deadletter.message.stamp import Stamp
from deadletter.replay.names import Name
from deadletter.replay.objects import (
    NotADiscardedLetter,
    NotAnOriginal,
    RunObjects,
    discarded_letter,
    originals_in,
    without,
)
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.ticket import Ticket
from deadletter.routing.selection import Selection
from deadletter.routing.selector import Selector
from deadletter.rules.document import DocumentBuilder
from deadletter.settings.pipeline import Pipeline

_DONE = "forgotten.txt"
"""The object of the run that forgets with the runs whose originals it has been through: there may
be more of them than one step has time for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetSetup:
    """Everything that forgetting is given.

    names     the letters of the run's manifest
    folders   the runs of the pipeline that have objects
    objects   the objects of one run
    tickets   what one run has noted of its letters; none if that has expired
    with_originals, originals  the runs that have originals, and those of one run
    own       the objects of the run that forgets
    erase     deletes the ledger's rows of these ids; a row that is missing is no error
    note_damage  is told of an object, or a line in it, in which no letter can be read
    """

    pipeline: Pipeline
    names: Callable[[], Iterable[Name]]
    folders: Callable[[], Iterable[str]]
    objects: Callable[[str], RunObjects]
    tickets: Callable[[str], Iterable[Ticket]]
    with_originals: Callable[[], Iterable[str]]
    originals: Callable[[str], RunObjects]
    own: RunObjects
    erase: Callable[[Sequence[str]], None]
    clock: Callable[[], float]
    note_damage: Callable[[str], object]


def forget(setup: ForgetSetup, plan: ReplayPlan, deadline: float) -> bool:
    """Erase what is kept, until `deadline` (epoch seconds); returns whether nothing is left.

    What is erased stays so: the next call goes on with the rest. Raises the errors of the stores.
    """
    # The ids that a person gives are of copies or of first lives.
    origins, copies = set(plan.selection.ids), set(plan.selection.ids)
    for name in setup.names():
        origins.add(name.origin)
        copies.add(name.copy)
    if plan.selection.pattern:
        found = find_by_key(setup, plan.selection, deadline)
        if found is None:
            return False
        origins |= found
    for run in setup.folders():
        if setup.clock() >= deadline:
            return False
        copies |= _forget_in(setup, run, origins, copies)
    if not _forget_originals(setup, origins | copies, deadline):
        return False
    # Last, and in one go: of a step that was cut off, the next one is told the same ids.
    setup.erase(sorted(origins | copies))
    return True


def _forget_in(setup: ForgetSetup, run: str, origins: set[str], copies: set[str]) -> set[str]:
    """Delete the copies in one run's folder. Returns the ids under which the run knew the letters.

    Most runs have left no copies: of them nothing more is read.
    """
    objects = setup.objects(run)
    stored = [entry.name for folder in (DISCARDED, EDITS) for entry in objects.listed(folder)]
    if not stored:
        return set()
    known: set[str] = set()
    has_tickets = False
    for ticket in setup.tickets(run):
        has_tickets = True
        if ticket.origin in origins:
            known |= {ticket.copy, ticket.returned or ticket.copy}
    theirs = copies | known
    objects.delete(
        [
            name
            for name in stored
            # Where the tickets have expired, the object itself says whose it is.
            if _copy_in(name) in theirs or (not has_tickets and _origins(objects, name) & origins)
        ]
    )
    return known


def _forget_originals(setup: ForgetSetup, ids: set[str], deadline: float) -> bool:
    """Take letters out of the originals of all runs; returns whether none is left.

    All objects are read. A map from ids to objects would miss what a freeze has stored that was
    cut off, or a letter that two passes of a snapshot have named. One put replaces an object: it
    has the letter, or it has nothing of it.
    """
    done = set((setup.own.get(_DONE) or b"").decode().splitlines())
    for run in setup.with_originals():
        if run in done:
            continue
        objects = setup.originals(run)
        for stored in objects.listed(""):
            if setup.clock() >= deadline:
                return False
            data = objects.get(stored.name)
            rest = None if data is None else without(data, ids)
            if rest is not None:
                objects.put(stored.name, rest)
        done.add(run)
        setup.own.put(_DONE, "\n".join(sorted(done)).encode())
    return True


def _copy_in(name: str) -> str:
    """The copy in the name of an object: `discarded/<copy>.json` or `edits/<copy>-<ms>.json`."""
    folder, _, file = name.partition("/")
    copy = file.removesuffix(".json")
    return copy.rpartition("-")[0] if f"{folder}/" == EDITS else copy


def _origins(objects: RunObjects, name: str) -> set[str]:
    """The first life of the letter in an object; empty if the object does not say it."""
    try:
        data = json.loads(objects.get(name) or b"")
    except ValueError:
        return set()
    return set(_said(data))


def _said(data: object) -> Iterator[str]:
    match data:
        case {"stamp": {"origin": str(origin)}} | {"origin": str(origin)}:
            yield origin


_FOUND = "found.json"
"""The object of the run that forgets with the letters found so far, and how far it has looked."""

_Kept = Iterator[tuple[str, Letter, Stamp]]


def find_by_key(setup: ForgetSetup, selection: Selection, deadline: float) -> set[str] | None:
    """The first lives of the letters with a key; None if `deadline` (epoch seconds) came before.

    It looks at originals, at copies of discards and at both versions of edits. FIFO groups, of
    which nothing is taken, keep no letter out. The next call goes on where this one has ended.
    """
    seen = json.loads(setup.own.get(_FOUND) or b'{"after": "", "ids": []}')
    after, ids = str(seen["after"]), set(map(str, seen["ids"]))
    selector = Selector(replace(selection, groups=None))
    documents, now = DocumentBuilder(setup.pipeline), setup.clock()
    in_time = True
    for key, kept in _places(setup):
        if key <= after:
            continue
        if setup.clock() >= deadline:
            in_time = False
            break
        for origin, letter, stamp in kept():
            document = documents.build(letter, stamp, None, now)
            if selector.matches(letter, stamp, None, document):
                ids.add(origin)
        after = key
    setup.own.put(_FOUND, json.dumps({"after": after, "ids": sorted(ids)}).encode())
    return ids if in_time else None


def _places(setup: ForgetSetup) -> Iterator[tuple[str, Callable[[], _Kept]]]:
    """The objects that keep letters, in the order of their keys, each with a way to read it."""
    pipeline = setup.pipeline.name
    for run in setup.with_originals():
        objects = setup.originals(run)
        for stored in objects.listed(""):
            key = originals_object(pipeline, run, stored.name)
            yield key, partial(_originals, setup, objects, stored.name, key)
    for run in setup.folders():
        objects = setup.objects(run)
        for stored in (*objects.listed(DISCARDED), *objects.listed(EDITS)):
            key = run_object(pipeline, run, stored.name)
            yield key, partial(_copies, setup, objects, stored.name, key)


def _originals(setup: ForgetSetup, objects: RunObjects, name: str, key: str) -> _Kept:
    data = objects.get(name)
    if data is None:
        return
    try:
        for each in originals_in(data, lambda line: setup.note_damage(f"{key}:{line}")):
            yield each.name.origin, each.letter, each.stamp
    except NotAnOriginal:
        # It is erased as a whole, as by every run that forgets.
        setup.note_damage(key)


def _copies(setup: ForgetSetup, objects: RunObjects, name: str, key: str) -> _Kept:
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
                setup.note_damage(key)
    except (ValueError, RecursionError, NotALetter, NotADiscardedLetter):
        setup.note_damage(key)
