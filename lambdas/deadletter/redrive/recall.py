"""Waiting letters that a person calls back: the redriver's function makes them due.

People hold no permission to write a letter's item, because a write can answer with all of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from deadletter.contract import PARKED_LANE, Partition, dedicated_lane, run_lane
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.waiting_room import RoomUnavailable, WaitingRoomEntry

MOST_RECALLED = 1_000
"""Letters of one request: a function that is asked for more would keep a person waiting."""


class RecallRefused(ValueError):
    """The request is no recall; the message says why."""


class RecallingRoom(Protocol):
    """A waiting room whose letters a person may call back. Raises RoomUnavailable."""

    def recall(self, entry: WaitingRoomEntry, due: float) -> bool:
        """Change when a letter is due; False if it has left its lane."""


def is_recallable(lane: str) -> bool:
    """Whether a recall takes letters out of a lane.

    Those of a run, of a dedicated DLQ and of the parking lot leave by a person's run alone.
    """
    return lane != PARKED_LANE and not lane.startswith((run_lane(""), dedicated_lane("")))


def to_request(entries: Sequence[WaitingRoomEntry]) -> list[list[str]]:
    """The entries as the function is asked to recall them."""
    return [[entry.place, entry.lane] for entry in entries]


def entries_in(asked: Any, pipeline: str) -> list[WaitingRoomEntry]:
    """The entries in a request. Raises RecallRefused."""
    if not isinstance(asked, list) or not 0 < len(asked) <= MOST_RECALLED:
        raise RecallRefused(f"a recall is a list of 1 to {MOST_RECALLED} messages")
    return list(_entries(asked, pipeline))


def _entries(asked: Sequence[Any], pipeline: str) -> Iterator[WaitingRoomEntry]:
    kinds = tuple(kind.of(pipeline, "") for kind in (Partition.LETTER, Partition.GROUP))
    for number, letter in enumerate(asked, start=1):
        match letter:
            case [str(place), str(lane)] if _partition(place).startswith(kinds):
                if not is_recallable(lane):
                    raise RecallRefused(f"message {number} is in a lane that no recall opens")
                yield WaitingRoomEntry("", place, lane, 0, 0.0)
            case _:
                raise RecallRefused(f"message {number} is no message of {pipeline} in a lane")


def _partition(place: str) -> str:
    """The partition in an entry's place; empty if it is malformed."""
    try:
        key = json.loads(place)
    except (ValueError, RecursionError):
        return ""
    match key:
        case [str(partition), str(), *_]:
            return partition
    return ""


def recall(
    asked: Any,
    pipeline: str,
    room: RecallingRoom,
    *,
    clock: Callable[[], float],
    in_parallel: InParallel,
) -> Mapping[str, Any]:
    """Make the letters of a request due now; one that has left its lane is let alone.

    Returns how many are due. `trouble` says why others could not be changed: they wait on as
    they did. Raises RecallRefused.
    """
    entries, now = entries_in(asked, pipeline), clock()
    troubles: list[str] = []

    def one(entry: WaitingRoomEntry) -> bool:
        try:
            return room.recall(entry, now)
        except RoomUnavailable as error:
            troubles.append(str(error))
            return False

    due = sum(in_parallel([partial(one, entry) for entry in entries]))
    return {"recalled": due, **({"trouble": troubles[0]} if troubles else {})}
