"""Takes out of the journal what is explained, and merges what has to stand (ADR 16)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deadletter.contract import DAY, HOUR, is_of_delays
from deadletter.redrive.journal import (
    MAX_STANDING_PLANS,
    ClaimLost,
    Intent,
    Journal,
    merged,
)
from deadletter.redrive.known_intents import Reading
from deadletter.redrive.waiting_room import FOREVER, OpenShard, WaitingRoom

LONG_AGO = 1.0 * HOUR
"""Seconds for which an intent has ended before an empty queue, or an empty shard of the waiting
room, explains it. The counts of SQS and the room's index are late by minutes at most."""

MOST_STANDING = 16
"""Intents that may stand without being merged."""

MOST_OF_TODAY = 8
"""Intents of the present day that may stand without being merged: others are still to come."""

MOST_PARTS = 99
"""Intents that are merged in one step: with the new one, a transaction has 100 items."""

MOST_SWEEPS = 20
"""Steps of one run that take out what is explained."""

MOST_MERGES = 2
"""Steps of one run that only merge."""

MOST_LOOKS = 8
"""Shards of the waiting room that one run looks into for their intents' sake."""

_Gone = Mapping[str, Collection[bytes]]
"""The letters of each intent that need not be on record any more, by its slot."""

_SHARD = re.compile(r"room:(?P<lane>.+):(?P<shard>\d+)(?:\.\d+)?(?:~.*)?")
_STAMP = re.compile(r"~(\d{15})\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is known of letters on record, at the end of a run on the queue `home`.

    left_queue      letters that were surely deleted from the queue
    left_room       letters that were surely deleted from the waiting room
    emptied_before  intents of `home` that ended before this time (epoch seconds) are about
                    letters that have left: all that the queue held was received since
    empty_shards    the same time for shards of the waiting room, by their slot's name
    """

    home: str = ""
    left_queue: Collection[bytes] = frozenset()
    left_room: Collection[bytes] = frozenset()
    emptied_before: float = 0.0
    empty_shards: Mapping[str, float] = field(default_factory=dict)

    def keys(self, intent: Intent, reading: Reading) -> set[bytes]:
        """The letters of an intent that need not be on record any more."""
        if intent.is_of_room:
            return self._keys_of_room(intent, reading)
        if intent.home and intent.home == self.home and intent.expires < self.emptied_before:
            return set(intent.packed.keys())
        return self._among(self.left_queue, intent)

    def _keys_of_room(self, intent: Intent, reading: Reading) -> set[bytes]:
        if intent.expires < self.empty_shards.get(shard_slot(intent.slot), 0.0):
            keys = set(intent.packed.keys())
        else:
            keys = self._among(self.left_room, intent)
        # The copy in the queue must not be moved again: only this mark says so.
        return {key for key in keys if not reading.queue.names(key)}

    def _among(self, gone: Collection[bytes], intent: Intent) -> set[bytes]:
        return set(gone).intersection(intent.packed.keys()) if gone else set()


@dataclass(frozen=True, slots=True)
class SweepStep:
    """One step: these intents go, and one with their unexplained letters comes, or None."""

    parts: Sequence[Intent]
    into: Intent | None


def sweeps(reading: Reading, explained: Explained, owner: str, now: float) -> list[SweepStep]:
    """What is to be done with the intents that have ended, at most so much in one run.

    Intents of one queue, or of one shard, whose ends lie in one day are merged: together they
    live no longer than the last of them.
    """
    ended = reading.ended()
    buckets: defaultdict[tuple[str, float], list[Intent]] = defaultdict(list)
    for intent in ended:
        scope = shard_slot(intent.slot) if intent.is_of_room else f"~{intent.home}"
        buckets[scope, intent.expires // DAY].append(intent)
    is_crowded = len(ended) > MOST_STANDING
    names = _Names(owner, now)
    explaining: list[tuple[Sequence[Intent], _Gone]] = []
    merging: list[tuple[Sequence[Intent], _Gone]] = []
    for (_, day), bucket in sorted(buckets.items(), key=lambda entry: -len(entry[1])):
        gone = {intent.slot: explained.keys(intent, reading) for intent in bucket}
        touched = [intent for intent in bucket if gone[intent.slot]]
        others = [intent for intent in bucket if not gone[intent.slot]]
        enough = MOST_OF_TODAY if day == now // DAY else 1
        if not is_crowded or len(bucket) <= enough:
            others = []
        for parts in _groups([*touched, *others]):
            if len(parts) > 1 or gone[parts[0].slot]:
                (explaining if gone[parts[0].slot] else merging).append((parts, gone))
    return [
        SweepStep(parts, _remainder(parts, gone, names))
        for parts, gone in (*explaining[:MOST_SWEEPS], *merging[:MOST_MERGES])
    ]


def _remainder(parts: Sequence[Intent], gone: _Gone, names: _Names) -> Intent | None:
    """What is left of several intents; None if nothing is."""
    kept = [merged([part], gone[part.slot]) if gone[part.slot] else part for part in parts]
    kept = [part for part in kept if part.plans]
    if not kept:
        return None
    return replace(merged(kept), slot=names.after(parts), owner=names.owner, sequence=1)


def _groups(intents: Sequence[Intent]) -> Iterator[Sequence[Intent]]:
    """The intents in groups that fit into one transaction and one item."""
    group: list[Intent] = []
    plans = 0
    for intent in intents:
        if group and (len(group) == MOST_PARTS or plans + len(intent.plans) > MAX_STANDING_PLANS):
            yield group
            group, plans = [], 0
        group.append(intent)
        plans += len(intent.plans)
    if group:
        yield group


class _Names:
    """Names for merged intents, each after those of its parts.

    A reading of several pages, during which intents are merged, then finds the parts or the
    new intent: their places have been read, or the new one's has not.
    """

    def __init__(self, owner: str, now: float) -> None:
        self.owner = owner
        self._stamp = int(now * 1000)

    def after(self, parts: Sequence[Intent]) -> str:
        stamps = [int(stamp) for part in parts for stamp in _STAMP.findall(part.slot)]
        self._stamp = max([self._stamp, *stamps]) + 1
        scope = f"{shard_slot(parts[0].slot)}~" if parts[0].is_of_room else ""
        return f"{scope}~{self._stamp:015d}.{self.owner}"


def shard_slot(slot: str) -> str:
    """The slot in which a shard is claimed, of any intent about that shard."""
    match = _SHARD.fullmatch(slot)
    return f"room:{match['lane']}:{match['shard']}" if match else slot


def shards_to_look_at(reading: Reading, before: float) -> dict[str, OpenShard]:
    """Shards that intents which ended long ago were about, by their slot.

    `until` is the latest due time with which a letter of theirs may wait there.
    """
    shards: dict[str, OpenShard] = {}
    for intent in reading.ended():
        match = _SHARD.fullmatch(intent.slot)
        if match is None or intent.expires >= before:
            continue
        name, lane = shard_slot(intent.slot), match["lane"]
        # In a lane of delays an intent is about letters that were due: others come later.
        until = intent.expires if is_of_delays(lane) else FOREVER
        if name in shards:
            until = max(until, shards[name].until)
        shards[name] = OpenShard(lane, int(match["shard"]), until)
    return dict(list(shards.items())[:MOST_LOOKS])


def empty_shards(room: WaitingRoom, reading: Reading, now: float) -> dict[str, float]:
    """The shards that hold no letter any more of intents which ended long ago.

    Raises RoomUnavailable.
    """
    before = now - LONG_AGO
    return {
        name: before
        for name, shard in shards_to_look_at(reading, before).items()
        if not room.due(shard.lane, shard.shard, shard.until, 1)
    }


def carry_out(steps: Sequence[SweepStep], journal: Journal, has_time: Callable[[], bool]) -> None:
    """Write the steps, as long as there is time. Raises JournalUnavailable."""
    for step in steps:
        if not has_time():
            return
        try:
            journal.merge(step.parts, step.into)
        except ClaimLost:
            # One of them was marked or taken over since it was read: the next run sees.
            continue
