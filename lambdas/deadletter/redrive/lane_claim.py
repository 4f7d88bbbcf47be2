"""The claim on one shard of a lane: the intent in its slot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from deadletter.redrive.journal import (
    GRACE,
    OUT_OF_ROOM,
    ROOM,
    ClaimLost,
    Intent,
    Journal,
    OnRecord,
    Plan,
    Slot,
    key_of,
)
from deadletter.redrive.known_intents import KnownIntents


def lane_slot(lane: str, shard: int) -> str:
    """The slot of a shard of a lane, the same for each worker that takes letters out of it."""
    return f"{ROOM}:{lane}:{shard}"


def numbered(owner: str) -> Callable[[], str]:
    """A name for each claim of a worker: the sequence of a new slot starts over.

    Else a worker that has lost the shard and claims it once more would give an intent the
    name of an earlier one, and what it may have sent would not be kept on record.
    """
    numbers = itertools.count(1)
    return lambda: f"{owner}.{next(numbers)}"


@dataclass(frozen=True, slots=True)
class ClaimedLetters:
    """Letters of a shard under the intent in `slot`, which ends at `expires` (epoch seconds).

    `records` are what else stands on record of each of them, by copy.
    """

    slot: Slot
    records: Mapping[str, OnRecord]
    expires: float

    def is_free(self, copy: str) -> bool:
        """Whether no other worker may be sending this copy."""
        return not self.records[copy].is_busy


class LaneClaim:
    """One shard of a lane, claimed by one worker. Raises JournalUnavailable.

    `owner` gives the name of the next claim. `ends` says until when an intent that is written now
    stands (epoch seconds): longer than anything that is done under it may take.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        known: KnownIntents,
        name: str,
        owner: Callable[[], str],
        clock: Callable[[], float],
        ends: Callable[[], float],
    ) -> None:
        self._name = name
        self._journal = journal
        self._known = known
        self._owner = owner
        self._clock = clock
        self._ends = ends
        self._slot: Slot | None = None

    def take(self, copies: Sequence[str], known_at: float = math.inf) -> ClaimedLetters | None:
        """Write the intent to move these copies, which were learned of at `known_at`.

        A reading of the journal from then on knows of whatever has happened to them. Returns None
        while another worker has the shard. The caller gives the claim back by `hold`; the intent
        of one that it does not give back stands.
        """
        slot, self._slot = self._slot, None
        reading = self._known.last
        if slot is None or reading.began < known_at:
            reading = self._known.fresh()
        is_new = slot is None
        try:
            slot = slot or self._claim(reading.intents)
            if slot is None:
                return None
            expires = self._ends()
            slot.intend([Plan(key_of(copy), OUT_OF_ROOM, 0) for copy in copies], expires)
        except ClaimLost:
            return None
        if is_new:
            # Another worker may have worked in the shard until the claim.
            reading = self._known.fresh()
        claimed = ClaimedLetters(slot, reading.of_lane(self._name, copies), expires)
        # The intent that put it in was never marked: its copy may still be in the queue, and
        # only our mark will tell that it must not be moved again.
        records = claimed.records.items()
        slot.keep([copy for copy, known in records if known.maybe_stored and not known.is_busy])
        return claimed

    def hold(self, claimed: ClaimedLetters) -> None:
        """Keep the shard after its intent has ended well: each letter of it is accounted for."""
        self._slot = claimed.slot

    def close(self) -> None:
        """Give the shard up; what has to stand in the journal stays."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.close()

    def _claim(self, intents: Sequence[Intent]) -> Slot | None:
        """The shard's slot; None while another worker has it."""
        abandoned = next((intent for intent in intents if intent.slot == self._name), None)
        if abandoned is None:
            return Slot(self._journal, self._name, self._owner())
        if self._clock() < abandoned.expires + GRACE:
            return None
        # The earlier worker may have sent letters without deleting them: its marks, and the
        # letters without a mark, are kept under another name before the slot is taken over.
        kept = replace(abandoned, slot=f"{self._name}~{abandoned.owner}.{abandoned.sequence}")
        if all(intent.slot != kept.slot for intent in intents):
            self._journal.write(kept, None)
        return Slot(self._journal, self._name, self._owner(), abandoned)
