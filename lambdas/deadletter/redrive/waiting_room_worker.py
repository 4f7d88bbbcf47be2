"""Lets letters out of the waiting room whose wait has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deadletter.contract import Metric
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.fifo import as_groups
from deadletter.redrive.journal import (
    GRACE,
    MAX_PLANS,
    OUT_OF_ROOM,
    ROOM,
    ClaimLost,
    Intent,
    Journal,
    OpenIntents,
    Plan,
    Slot,
    key_of,
    open_intents,
)
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import RouterClient, one_request, orders
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.waiting_room import WaitingRoom, WaitingRoomEntry
from deadletter.routing.decision import Redrive

MOST_READ = 10
"""Letters held in memory at once: each may have a mebibyte, and is encoded for the router."""


@dataclass(frozen=True, slots=True)
class OpenShard:
    """A shard of a lane from which letters go that are due at or before `until`."""

    lane: str
    shard: int
    until: float


class WaitingRoomWorker:
    """Goes through the open lanes, shard by shard; the shard's open intent is the claim on it."""

    def __init__(
        self,
        *,
        run: RunLimits,
        fifo: bool,
        journal: Journal,
        room: WaitingRoom,
        asker: RouterClient,
        mover: Mover,
        tally: Tally,
    ) -> None:
        self._run = run
        self._fifo = fifo
        self._journal = journal
        self._room = room
        self._asker = asker
        self._mover = mover
        self._tally = tally

    def work(self, openings: Sequence[OpenShard]) -> None:
        """Let out what may go; raises Stop, and RoomUnavailable and its like."""
        for opening in openings:
            self._empty_shard(opening)

    def _empty_shard(self, opening: OpenShard) -> None:
        slot: Slot | None = None
        seen: set[str] = set()
        while seats := self._seats(opening, seen):
            intents = self._journal.read()
            plans = [Plan(key_of(one.copy), OUT_OF_ROOM, 0) for one in seats]
            try:
                slot = slot or self._claim(f"{ROOM}:{opening.lane}:{opening.shard}", intents)
                if slot is None:
                    return
                slot.intend(plans, self._run.locked_until)
            except ClaimLost:
                return
            now = self._run.clock()
            inward = open_intents([one for one in intents if not one.is_of_room], now)
            # An intent that put a letter in here is no reason to take it out.
            outward = open_intents([one for one in intents if one.is_of_room], now)
            calm = [
                one
                for one in seats
                if not inward.is_busy(one.copy) and not outward.is_busy(one.copy)
            ]
            if any(inward.unknown_target(one.copy) == ROOM for one in calm):
                # Whoever put it in never said so: its copy may be in the queue still,
                # and only our mark will tell that it need not be moved again.
                slot.keep()
            try:
                for at in range(0, len(calm), MOST_READ):
                    found = self._room.read(calm[at : at + MOST_READ], self._run.locked_until)
                    self._tally.count(Metric.BROKEN_IN_ROOM, found.broken)
                    self._let_out(found.letters, outward, slot)
            except RunStopped:
                slot.close()
                raise
        if slot is not None:
            slot.close()

    def _seats(self, opening: OpenShard, seen: set[str]) -> list[WaitingRoomEntry]:
        """The next seats, each once a run: the index may still show what has gone."""
        found = self._room.due(opening.lane, opening.shard, opening.until, MAX_PLANS + len(seen))
        fresh = [one for one in found if one.copy not in seen][:MAX_PLANS]
        seen.update(one.copy for one in fresh)
        return fresh

    def _claim(self, name: str, intents: Sequence[Intent]) -> Slot | None:
        """The shard's slot, if nobody is at work there."""
        found = next((one for one in intents if one.slot == name), None)
        if found is None:
            return Slot(self._journal, name, self._run.owner)
        if self._run.clock() < found.expires + GRACE:
            return None
        # Whoever was here may have sent letters without taking them out: what is
        # marked, and what is not, has to outlive our taking over the slot.
        kept = replace(found, slot=f"{name}~{found.owner}.{found.sequence}")
        if all(one.slot != kept.slot for one in intents):
            self._journal.write(kept, None)
        return Slot(self._journal, name, self._run.owner, found)

    def _let_out(self, letters: Sequence[ReceivedLetter], opens: OpenIntents, slot: Slot) -> None:
        sent: list[tuple[ReceivedLetter, Confirmation]] = []
        here: list[ReceivedLetter] = []
        for one in letters:
            copy = one.letter.message_id
            proof = opens.confirmation_of(copy)
            if proof is not None:
                sent.append((one, proof))
            else:
                unknown = opens.unknown_target(copy) is not None
                self._tally.count(Metric.POSSIBLE_DUPLICATE, 1 if unknown else 0)
                here.append(one)
        if sent:
            self._tally.count(Metric.ALREADY_SENT, len(sent))
            self._tally.count(Metric.UNDELETED, len(self._room.delete(sent)))
        while here:
            granted = self._run.permission(len(here))
            part, here = one_request(here, granted)
            judged = self._judge(part)
            left = self._mover.move_from_room(judged, slot)
            # What was not confirmed may have been sent all the same.
            redriven = sum(isinstance(one.decision, Redrive) for one in judged)
            self._run.give_back(granted - redriven)
            if self._fifo:
                gone = {one.copy for one in judged} - {one.letter.message_id for one in left}
                stay = {one.letter.group for one in part if one.letter.message_id not in gone}
                here = [one for one in here if one.letter.group not in stay]

    def _judge(self, part: Sequence[ReceivedLetter]) -> list[Order]:
        verdicts = self._asker.verdicts(part, served=True)
        return orders(part, as_groups(part, verdicts, {}) if self._fifo else verdicts)
