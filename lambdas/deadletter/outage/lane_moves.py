"""Moves letters into a circuit's lane: there no receive counts, and none dies of being tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from deadletter.contract import circuit_lane
from deadletter.message.queue import LetterStore, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.outage.canary_sources import (
    CanaryResult,
    CanarySource,
    DlqCanaries,
    LaneCanaries,
    NotInLaneYet,
)
from deadletter.outage.candidates import BlamelessLetters
from deadletter.redrive.journal import Journal, JournalUnavailable, Slot
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.routing.decision import Hold
from deadletter.routing.router import Verdict

MOST_MOVED = 3
"""Dead letters that one probe moves into the lane at most: candidates for the next probes."""


class LaneMover:
    """Moves one letter at a time into the lane of a circuit, with the mover.

    `mover_for` makes a mover that counts on a tally; `owner` gives a new token for each slot of
    the journal; `message_ttl` is the age in seconds at which a letter expires; `clock` gives
    epoch seconds, and `count_metric` counts a metric by its name.
    """

    def __init__(
        self,
        *,
        mover_for: Callable[[Tally], Mover],
        journal: Journal,
        owner: Callable[[], str],
        message_ttl: float,
        clock: Callable[[], float],
        count_metric: Callable[[str, int], None],
    ) -> None:
        self._message_ttl = message_ttl
        self._clock = clock
        self._mover_for = mover_for
        self._journal = journal
        self._owner = owner
        self._count_metric = count_metric

    def move(
        self, queue: LetterStore, received: ReceivedLetter, verdict: Verdict, key: str
    ) -> bool:
        """Move a letter out of a queue; `verdict` is the router's on it, whatever it says.

        Returns False if the letter may still be in its place alone.
        """
        order = Order(received, *self._held(verdict, key))
        owner = self._owner()
        slot = Slot(self._journal, f"canary.{owner}", owner, home=received.home)
        tally = Tally(self._count_metric)
        left = self._mover_for(tally).move([order], slot, queue=queue)
        for name, number in tally.report("", "", "").metrics().items():
            self._count_metric(name, number)
        with suppress(JournalUnavailable):
            slot.close()
        return not left.stayed and not left.unknown

    def _held(self, verdict: Verdict, key: str) -> tuple[Hold, Stamp]:
        """The hold in the lane of a circuit, and the stamp that goes with it.

        A letter that the router does not hold there waits all the same, until the lane opens or
        the letter expires; then it is judged again.
        """
        lane, stamp = circuit_lane(key), verdict.stamp
        if isinstance(verdict.decision, Hold) and verdict.decision.lane == lane:
            return verdict.decision, stamp
        sent = stamp.first_sent / 1000 if stamp.first_sent else self._clock()
        hold = Hold(lane, sent + self._message_ttl, f"waits for circuit {key}")
        return hold, replace(
            stamp, rule=None, decision="HOLD", reason=None, because=hold.because, canary=None
        )


class RefilledLane(CanarySource):
    """The circuit's lane. Without a candidate there, dead letters are moved into it first.

    Only dead letters that `choice` accepts are moved: their last failure is evidence for this
    circuit.
    """

    def __init__(
        self,
        *,
        lane: LaneCanaries,
        dlq: DlqCanaries,
        queue: LetterStore,
        choice: BlamelessLetters,
        mover: LaneMover,
    ) -> None:
        self._lane = lane
        self._dlq = dlq
        self._queue = queue
        self._choice = choice
        self._mover = mover

    @property
    def arn(self) -> str:
        return self._lane.arn

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        """As CanarySource; also raises LedgerUnavailable, and NotInLaneYet after a move."""
        received = self._lane.take(key, lock_seconds)
        if received is not None or not self._refill(key, lock_seconds):
            return received
        received = self._lane.take(key, lock_seconds)
        if received is None:
            raise NotInLaneYet(key)
        return received

    def record(self, received: ReceivedLetter) -> bool:
        return self._lane.record(received)

    def settle(self, received: ReceivedLetter, result: CanaryResult) -> bool:
        return self._lane.settle(received, result)

    def give_back(self, received: ReceivedLetter) -> None:
        self._lane.give_back(received)

    def _refill(self, key: str, lock_seconds: float) -> int:
        """Move dead letters into the lane; returns how many."""
        for moved in range(MOST_MOVED):
            received = self._dlq.take(key, lock_seconds)
            if received is None:
                return moved
            verdict = self._choice.verdict_on(received)
            if not self._mover.move(self._queue, received, verdict, key):
                # What may be on its way keeps its lock.
                return moved
        return MOST_MOVED


class InAnyOrder(CanarySource):
    """Several sources, each time in another order.

    For a consumer without the library: which letter fails by its own fault is not known, and
    the letters of one source may all be such.
    """

    def __init__(self, sources: Sequence[CanarySource], random: Random) -> None:
        self._sources = list(sources)
        self._random = random
        self._last = self._sources[0]

    @property
    def arn(self) -> str:
        return self._last.arn

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        for source in self._random.sample(self._sources, len(self._sources)):
            received = source.take(key, lock_seconds)
            if received is not None:
                self._last = source
                return received
        return None

    def record(self, received: ReceivedLetter) -> bool:
        return self._last.record(received)

    def settle(self, received: ReceivedLetter, result: CanaryResult) -> bool:
        return self._last.settle(received, result)

    def give_back(self, received: ReceivedLetter) -> None:
        self._last.give_back(received)
