"""Letters of one open shard of the waiting room whose wait has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile

from deadletter.contract import rule_lane
from deadletter.message.queue import ReceivedLetter
from deadletter.pace.lane import LanePace
from deadletter.redrive.draining import BatchPart
from deadletter.redrive.journal import MAX_PLANS, Slot
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import ClaimedLetters, LaneClaim, lane_slot
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.router_client import next_request
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.waiting_room import OpenShard, Wait, WaitingRoomEntry
from deadletter.routing.decision import Redrive
from deadletter.routing.router import RouterUnavailable

SEEN_FOR = 60.0
"""Seconds for which an entry is not looked at again: longer than the index lags, and short
enough for the memory of a run."""


class LaneSource:
    """One open shard; the intent in its slot is the claim on it.

    `in_passing` it is gone through once, and letters without a verdict stay. At the rate of
    `throttle` a batch is what the lane's rate allows now, and the shard rests if that is nothing.
    """

    served = True

    def __init__(
        self,
        setup: RedriverSetup,
        run: RunLimits,
        shard: OpenShard,
        *,
        known: KnownIntents,
        in_passing: bool = False,
        throttle: LanePace | None = None,
    ) -> None:
        self.lane = shard.lane
        self.admitted = shard.lane.removeprefix(rule_lane("")) if throttle is not None else None
        self.is_done = False
        self.is_elsewhere = False
        """Whether another run works in the shard."""
        self._shard = shard
        self._run = run
        self._throttle = throttle
        self._in_passing = in_passing
        self._fifo = setup.pipeline.fifo
        self._room = self.store = setup.room
        self._mover = setup.mover
        self._known = known
        self._in_parallel = setup.in_parallel
        self._claim = LaneClaim(
            journal=setup.journal,
            known=known,
            name=lane_slot(shard.lane, shard.shard),
            owner=lambda: run.owner,
            clock=run.clock,
            ends=lambda: run.locked_until,
        )
        # What is listed and not taken yet, and where the next page of the index begins.
        self._ahead: deque[WaitingRoomEntry] = deque()
        self._last: WaitingRoomEntry | None = None
        self._pass_found_any = False
        self._is_listed = False
        self._seen: dict[str, float] = {}
        # Of the present batch.
        self._entries: Sequence[WaitingRoomEntry] = ()
        self._claimed: ClaimedLetters | None = None
        self._stopped: set[str | None] = set()
        self._permitted = self._unused = self._redriven = 0

    @property
    def rests_until(self) -> float:
        return 0.0 if self._throttle is None else self._throttle.rests_until

    @contextmanager
    def take(self, most: int) -> Iterator[int]:
        listed = self._next_entries(min(MAX_PLANS, most))
        granted = len(listed)
        if self._throttle is not None:
            granted = self._throttle.take(granted) if listed else 0
        for entry in reversed(listed[granted:]):
            self._seen.pop(entry.copy, None)
            self._ahead.appendleft(entry)
        self._entries, self._redriven = listed[:granted], 0
        try:
            yield granted
        except (RunStopped, RouterUnavailable):
            # After any other error the intent stands.
            self._hold()
            self.close()
            raise
        else:
            self._hold()
        finally:
            self._claimed = None
            if self._throttle is not None:
                self._throttle.give_back(granted - self._redriven)
        if not listed or self.is_elsewhere:
            self.is_done = True
            self.close()

    def note_gone(self, copies: Iterable[str]) -> None:
        self._known.note_gone(copies, from_room=True)

    def close(self) -> None:
        self._claim.close()

    def parts(self) -> Iterator[BatchPart]:
        if not self._entries:
            return
        # The journal is read after the entries were listed: the intents that put them in are in it.
        claimed = self._claimed = self._claim.take([entry.copy for entry in self._entries])
        self.is_elsewhere = claimed is None
        if claimed is None:
            return
        self._stopped = set()
        free = [entry for entry in self._entries if claimed.is_free(entry.copy)]
        marks = {copy: each.mark for copy, each in claimed.records.items() if each.mark is not None}
        for contents in self._room.read_in_parts(free, self._run.locked_until, self._in_parallel):
            yield BatchPart.under(claimed.slot, contents.letters, claimed.records, marks)

    def requests(self, letters: Sequence[ReceivedLetter]) -> Iterator[Sequence[ReceivedLetter]]:
        """As many as the run's pace allows; of a FIFO group none behind one that stayed."""
        while letters := [each for each in letters if not self._is_stopped(each)]:
            self._permitted = self._run.permission(len(letters))
            part, letters = next_request(letters, self._permitted)
            yield part

    def _is_stopped(self, received: ReceivedLetter) -> bool:
        return self._fifo and received.letter.group in self._stopped

    def waits(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Wait] | None:
        return {} if self._fifo and letters else None

    def going(self, letters: Sequence[ReceivedLetter], judged: Sequence[Order]) -> Sequence[Order]:
        redriven = sum(isinstance(order.decision, Redrive) for order in judged)
        # Before the move: after an error they may have been sent.
        self._redriven += redriven
        self._unused = self._permitted - redriven
        return judged

    def move(self, orders: Sequence[Order], slot: Slot) -> Left:
        return self._mover.move(orders, slot)

    def moved(self, letters: Sequence[ReceivedLetter], gone: Sequence[Order], left: Left) -> None:
        # A letter that was not confirmed may have been sent all the same.
        self._run.give_back(self._unused)
        if self._fifo:
            moved = {order.copy for order in gone}
            self._stopped |= {r.letter.group for r in letters if r.letter.message_id not in moved}

    def _hold(self) -> None:
        if self._claimed is not None:
            self._claim.hold(self._claimed)

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
