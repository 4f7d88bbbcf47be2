"""The claim on one shard of a run's lane: the intent in its slot, as for every lane of the room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from deadletter.contract import run_lane
from deadletter.redrive.journal import (
    GRACE,
    OUT_OF_ROOM,
    ROOM,
    ClaimLost,
    Intent,
    Journal,
    Plan,
    Slot,
    key_of,
)
from deadletter.redrive.known_intents import KnownIntents, Reading

CLAIM_SECONDS = 15.0
"""Seconds from an intent of a run to its end: nothing is sent under it later. A worker that is
killed keeps its shard from others for so long, and GRACE more."""


def slot_name(run: str, shard: int) -> str:
    """The slot of a shard of a run's lane, the same for every worker of the waiting room."""
    return f"{ROOM}:{run_lane(run)}:{shard}"


class ShardClaim:
    """One shard of a run's lane, claimed by one worker `owner`. Raises JournalUnavailable.

    An intent stands for `seconds`: longer than anything that is done under it may take.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        known: KnownIntents,
        run: str,
        shard: int,
        owner: str,
        clock: Callable[[], float],
        seconds: float = CLAIM_SECONDS,
    ) -> None:
        self.name = slot_name(run, shard)
        self._journal = journal
        self._known = known
        self._owner = owner
        self._clock = clock
        self._seconds = seconds
        self._slot: Slot | None = None
        self._claims = 0

    def intend(self, copies: Sequence[str], known_at: float) -> tuple[Slot, Reading, float] | None:
        """Write the intent to move these copies, which were learned of at `known_at`.

        Returns the slot, a reading of the journal that knows of whatever has happened to them,
        and the end of the intent (epoch seconds). None while another worker has the shard. The
        caller gives the slot back by `hold`; one that it does not give back stands.
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
            expires = self._clock() + self._seconds
            slot.intend([Plan(key_of(copy), OUT_OF_ROOM, 0) for copy in copies], expires)
        except ClaimLost:
            return None
        if is_new:
            # Another worker may have worked in the shard until the claim.
            reading = self._known.fresh()
        return slot, reading, expires

    def hold(self, slot: Slot) -> None:
        """Keep the shard after its intent has ended well: each letter of it is accounted for."""
        self._slot = slot

    def close(self) -> None:
        """Give the shard up; what has to stand in the journal stays."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.close()

    def _claim(self, intents: Sequence[Intent]) -> Slot | None:
        """The shard's slot; None while another worker has it."""
        abandoned = next((intent for intent in intents if intent.slot == self.name), None)
        if abandoned is None:
            return Slot(self._journal, self.name, self._new_owner())
        if self._clock() < abandoned.expires + GRACE:
            return None
        # The earlier worker may have sent letters without deleting them: its marks, and the
        # letters without a mark, are kept under another name before the slot is taken over.
        kept = replace(abandoned, slot=f"{self.name}~{abandoned.owner}.{abandoned.sequence}")
        if all(intent.slot != kept.slot for intent in intents):
            self._journal.write(kept, None)
        return Slot(self._journal, self.name, self._new_owner(), abandoned)

    def _new_owner(self) -> str:
        """A name for each claim: the sequence of a new slot starts over.

        Else a worker that has lost the shard and claims it once more would give an intent the
        name of an earlier one, and what it may have sent would not be kept on record.
        """
        self._claims += 1
        return f"{self._owner}.{self._claims}"
