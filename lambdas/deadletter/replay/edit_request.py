"""An edit of a letter in a run's custody, as a person asks for it and as it is kept.

The request is an object of the run. The redriver's function reads it, holds it against the letter
as it is, and writes the letter's item: people hold no permission to write such an item, because a
write can answer with all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from deadletter.contract import EDITS, Partition, run_lane
from deadletter.message.letter import Letter, NotALetter, compact_json, from_json, to_json
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.waiting_room import SHARDS, WaitingRoomEntry
from deadletter.replay.edits import EditRefused, edited
from deadletter.replay.objects import has_room
from deadletter.replay.run import ReplayRun, RunState

MOST_EDITS = 50
"""Edits of one request to the function: each reads and writes two versions of a letter."""

EDITABLE = frozenset({RunState.HELD, RunState.WAITING_APPROVAL})
"""The states of a run in which its letters are edited: it sends nothing."""

_RECORD = re.compile(re.escape(EDITS) + r"[^/]+\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """One letter of a run before and after an edit.

    `generation` is that of the run as it was read, `place` the item's in the waiting room.
    `accept` says that the edited letter is processed although the original was. `by` and
    `because` say who edits it, and why; `at` is epoch seconds.
    """

    run: str
    generation: int
    place: tuple[str, str]
    shard: int
    origin: str
    before: Letter
    after: Letter
    accept: bool
    by: str
    because: str
    at: float

    @property
    def record(self) -> str:
        """The name of the object that keeps both versions, within its run."""
        return f"{EDITS}{self.after.message_id}-{int(self.at * 1000)}.json"

    @property
    def entry(self) -> WaitingRoomEntry:
        """The entry of the letter in the lane of its run."""
        copy, place = self.before.message_id, json.dumps(self.place)
        return WaitingRoomEntry(copy, place, run_lane(self.run), self.shard, 0.0)

    def to_bytes(self) -> bytes:
        versions = {"before": to_json(self.before), "after": to_json(self.after)}
        return compact_json({**asdict(self), **versions})


def names_in(asked: Any) -> tuple[str, list[str]]:
    """The run and the names of the records in a request to the function. Raises EditRefused."""
    match asked:
        case {"run": str(run), "records": [*records]} if 0 < len(records) <= MOST_EDITS:
            if all(isinstance(name, str) and _RECORD.fullmatch(name) for name in records):
                return run, records
    raise EditRefused(f"an edit names a run, and 1 to {MOST_EDITS} of its records")


def request_from(data: bytes, run: str, pipeline: str) -> EditRequest:
    """The request in an object of a run. Raises EditRefused if it is none of this run."""
    try:
        match json.loads(data):
            case {
                "run": str(named),
                "generation": int(generation),
                "place": [str(partition), str(sort)],
                "shard": int(shard),
                "origin": str(origin),
                "accept": bool(accept),
                "by": str(by),
                "because": str(because),
                "at": int() | float() as at,
                "before": dict(before),
                "after": dict(after),
            } if named == run and 0 <= shard < SHARDS and _holds_letters(partition, pipeline):
                return EditRequest(
                    run=run,
                    generation=generation,
                    place=(partition, sort),
                    shard=shard,
                    origin=origin,
                    before=from_json(before),
                    after=from_json(after),
                    accept=accept,
                    by=by,
                    because=because,
                    at=float(at),
                )
    except (NotALetter, ValueError, RecursionError):
        # Their texts may quote the letter.
        pass
    raise EditRefused(f"its record is no edit of a message of run {run}")


def _holds_letters(partition: str, pipeline: str) -> bool:
    kinds = (Partition.LETTER, Partition.GROUP)
    return partition.startswith(tuple(kind.of(pipeline, "") for kind in kinds))


def accepted(request: EditRequest, run: ReplayRun | None, received: ReceivedLetter | None) -> Stamp:
    """The stamp with which the edited letter is sent. Raises EditRefused.

    The record has to be true: the letter is still the one that the person saw, the edit
    changes its body and attributes alone, and the run has sent nothing since.
    """
    if run is None or run.generation != request.generation:
        raise EditRefused(f"run {request.run} was changed meanwhile")
    if run.state not in EDITABLE:
        raise EditRefused(f"run {run.id} is {run.state}: its messages are edited while it is HELD")
    if received is None or received.stamp is None:
        raise EditRefused("the message has left the run")
    if received.letter != request.before or received.stamp.origin != request.origin:
        raise EditRefused("the message was edited meanwhile: look at it again")
    after = request.after
    if edited(received.letter, after.body, after.attributes) != after:
        raise EditRefused("it would change more than the body and attributes")
    stamp = received.stamp
    # A new key collides with nothing, and knows no later message of its ordering key.
    if request.accept and not stamp.again:
        stamp = replace(stamp, accept="collision")
    if not has_room(after, stamp):
        raise EditRefused("it would leave no room for the message's new idempotency key")
    return stamp


def answer(edited_records: list[str], refused: Mapping[str, str], trouble: str) -> dict[str, Any]:
    """What the function answers: the records that took effect, and why others did not."""
    said = {"edited": edited_records, "refused": dict(refused)}
    return {**said, **({"trouble": trouble} if trouble else {})}
