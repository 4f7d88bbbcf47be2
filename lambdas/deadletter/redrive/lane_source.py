"""Moves letters out of the waiting room whose wait has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from deadletter.contract import rule_lane
from deadletter.message.queue import ReceivedLetter
from deadletter.pace.lane import LanePace
from deadletter.redrive.fifo import as_groups
from deadletter.redrive.journal import MAX_PLANS, JournalUnavailable
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import ClaimedLetters, LaneClaim, lane_slot
from deadletter.redrive.order import Order
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.router_client import RouterClient, VerdictSource, next_request, orders
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.settling import SentBefore, Settling
from deadletter.redrive.waiting_room import OpenShard, WaitingRoomEntry
from deadletter.routing.decision import Redrive
from deadletter.routing.router import RouterUnavailable
from deadletter.signals.figures import Count

SEEN_FOR = 60.0
"""Seconds for which an entry is not looked at again: longer than the index lags, and short
enough for the memory of a run."""


class WaitingRoomWorker:
    """Empties one open shard; the intent in the shard's slot is the claim on it.

    It asks the router what to do with letters unless it is given another `verdict_source`: with
    one it goes through the shard once, and letters without a verdict stay.
    """

    def __init__(
        self,
        setup: RedriverSetup,
        run: RunLimits,
        shard: OpenShard,
        *,
        known: KnownIntents,
        verdict_source: VerdictSource | None = None,
        throttle: LanePace | None = None,
    ) -> None:
        self.taken = 0
        self._throttle = throttle
        self._run = run
        self._shard = shard
        self._fifo = setup.pipeline.fifo
        self._known = known
        self._settling = Settling(setup.router, setup.mover, setup.tally)
        self._room = setup.room
        self._mover = setup.mover
        self._tally = setup.tally
        self._in_parallel = setup.in_parallel
        self._verdict_source = verdict_source or RouterClient(
            router=setup.router,
            tally=setup.tally,
            admitted=shard.lane.removeprefix(rule_lane("")) if throttle is not None else None,
        )
        self._in_passing = verdict_source is not None
        # What is listed and not taken yet, and where the next page of the index begins.
        self._ahead: deque[WaitingRoomEntry] = deque()
        self._last: WaitingRoomEntry | None = None
        self._pass_found_any = False
        self._is_listed = False
        self._claim = LaneClaim(
            journal=setup.journal,
            known=known,
            name=lane_slot(shard.lane, shard.shard),
            owner=lambda: run.owner,
            clock=run.clock,
            ends=lambda: run.locked_until,
        )
        self.is_elsewhere = False
        """Whether another run works in the shard."""
        self._seen: dict[str, float] = {}
        self._is_done = False
        self._redriven = 0

    @property
    def lane(self) -> str:
        return self._shard.lane

    @property
    def is_done(self) -> bool:
        """Whether no letter is due any more, or another run works in the shard."""
        return self._is_done

    @property
    def rests_until(self) -> float:
        return 0.0 if self._throttle is None else self._throttle.rests_until

    def take_turn(self, letters: int) -> None:
        """Move up to so many letters. Raises the errors of ENDS_A_RUN."""
        if self._throttle is not None:
            self._take_throttled_turn(self._throttle, letters)
            return
        end = self.taken + letters
        while not self._is_done and self.taken < end:
            entries = self._next_entries(min(MAX_PLANS, end - self.taken))
            self.taken += len(entries)
            self.is_elsewhere = bool(entries) and not self._empty(entries)
            if not entries or self.is_elsewhere:
                self._is_done = True
                self.close()

    def _take_throttled_turn(self, throttle: LanePace, letters: int) -> None:
        """Move what the lane's rate allows now; the worker rests if that is nothing."""
        entries = self._next_entries(min(MAX_PLANS, letters))
        granted = throttle.take(len(entries)) if entries else 0
        for entry in reversed(entries[granted:]):
            self._seen.pop(entry.copy, None)
            self._ahead.appendleft(entry)
        self.taken += granted
        self._redriven = 0
        try:
            self.is_elsewhere = granted > 0 and not self._empty(entries[:granted])
        finally:
            throttle.give_back(granted - self._redriven)
        if not entries or self.is_elsewhere:
            self._is_done = True
            self.close()

    def close(self) -> None:
        """Remove the last intent, unless it has to stay: all its letters are accounted for."""
        try:
            self._claim.close()
        except JournalUnavailable:
            # A finished intent that stays keeps the shard from other runs until it expires.
            self._tally.count(Count.JOURNAL_UNAVAILABLE)

    def _empty(self, entries: Sequence[WaitingRoomEntry]) -> bool:
        """Move the letters of these entries; False if the shard is another run's."""
        # Read after the entries were listed: the intents that put them in are in it.
        claimed = self._claim.take([entry.copy for entry in entries])
        if claimed is None:
            return False
        free = [entry for entry in entries if claimed.is_free(entry.copy)]
        try:
            stopped: set[str | None] = set()
            for contents in self._room.read_in_parts(
                free, self._run.locked_until, self._in_parallel
            ):
                self._move(contents.letters, claimed, stopped)
        except (RunStopped, RouterUnavailable):
            # After any other error the intent stands.
            self._claim.hold(claimed)
            self.close()
            raise
        self._claim.hold(claimed)
        return True

    def _next_entries(self, most: int) -> list[WaitingRoomEntry]:
        """The next entries, each once: the index may still show one that has left."""
        seen, now = self._seen, self._run.clock()
        for copy in [*takewhile(lambda copy: now - seen[copy] > SEEN_FOR, seen)]:
            del seen[copy]
        while not self._ahead and self._list_more():
            pass
        entries = [self._ahead.popleft() for _ in range(min(most, len(self._ahead)))]
        seen.update((entry.copy, now) for entry in entries)
        return entries

    def _list_more(self) -> bool:
        """List the next page of the shard; False if there is no page after it.

        The shard is gone through until a pass finds no new entry: letters may come in meanwhile.
        """
        if self._is_listed:
            return False
        if self._last is None:
            self._pass_found_any = False
        shard = self._shard
        page = self._room.due(shard.lane, shard.shard, shard.until, MAX_PLANS, self._last)
        new = [entry for entry in page if entry.copy not in self._seen]
        self._ahead.extend(new)
        self._pass_found_any |= bool(new)
        is_end = len(page) < MAX_PLANS
        self._last = None if is_end else page[-1]
        self._is_listed = is_end and (self._in_passing or not self._pass_found_any)
        return not self._is_listed

    def _move(
        self,
        letters: Sequence[ReceivedLetter],
        claimed: ClaimedLetters,
        stopped: set[str | None],
    ) -> None:
        """Move letters that were read; on FIFO none of the groups `stopped`, and adds to them."""
        records, slot = claimed.records, claimed.slot
        sent: list[SentBefore] = []
        unmoved: list[ReceivedLetter] = []
        for received in letters:
            record = records[_copy(received)]
            if record.mark is not None:
                sent.append(SentBefore(received, record.mark, record))
            elif not self._fifo or received.letter.group not in stopped:
                unmoved.append(received)
        if sent:
            self._tally.count_tried(len(sent))
            self._known.note_gone(self._settling.settle(sent, self._room), from_room=True)
        maybe_sent = {
            copy: not records[copy].had_no_answer
            for copy in map(_copy, unmoved)
            if records[copy].maybe_sent
        }
        while unmoved:
            granted = self._run.permission(len(unmoved))
            part, unmoved = next_request(unmoved, granted)
            self._tally.count_tried(len(part))
            judged = self._judge(part, maybe_sent)
            # Before the move: after an error they may have been sent.
            self._redriven += sum(isinstance(order.decision, Redrive) for order in judged)
            left = self._mover.move(judged, slot)
            # A letter that was not confirmed may have been sent all the same.
            redriven = sum(isinstance(order.decision, Redrive) for order in judged)
            self._run.give_back(granted - redriven)
            here = set(map(_copy, (*left.stayed, *left.unknown)))
            gone = {order.copy for order in judged} - here
            # Those that may still be in the room are kept on record.
            self._known.note_gone((copy for copy in gone if not slot.keeps(copy)), from_room=True)
            if self._fifo:
                stopped |= {r.letter.group for r in part if r.letter.message_id not in gone}
                unmoved = [r for r in unmoved if r.letter.group not in stopped]

    def _judge(self, part: Sequence[ReceivedLetter], maybe_sent: Mapping[str, bool]) -> list[Order]:
        verdicts = self._verdict_source.verdicts(part, served=True)
        if self._fifo:
            verdicts = as_groups(part, verdicts, {}, now=self._run.clock())
        judged = orders(part, verdicts)
        return [
            replace(
                order,
                maybe_sent=order.copy in maybe_sent,
                after_kill=maybe_sent.get(order.copy, False),
            )
            for order in judged
        ]


def _copy(received: ReceivedLetter) -> str:
    return received.letter.message_id
