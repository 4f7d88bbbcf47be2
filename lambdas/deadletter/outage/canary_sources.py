"""Where canaries come from: the main queue, the DLQ, the circuit's lane."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from deadletter.circuit.transitions import (
    CanaryVerdict,
)
from deadletter.contract import RESPONSE, circuit_lane
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import Queue, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import (
    OUT_OF_ROOM,
    ROOM,
    ClaimLost,
    Intent,
    Journal,
    JournalUnavailable,
    Plan,
    Slot,
    key_of,
    open_intents,
)
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import END_OF_TIME, SHARDS, WaitingRoom
from deadletter.routing.decision import Hold
from deadletter.routing.router import Question, Router, usable_verdicts

MOST_LOOKED_AT = 5
"""Letters of a queue that one probe looks at: each look counts as a receive."""


POLL_SECONDS = 2
"""Seconds to wait for a letter: a short poll may find nothing in a queue that is not empty."""


ASIDE_COOLDOWNS = 3
"""Longest cooldowns for which a dead letter that failed as a canary is not tried again: were its
fault its own, it would keep the circuit open for as long as it is there, alone or with a few
like it."""


CONSUMER = "consumer"
"""The place named in the confirmation of a letter that the consumer has processed."""


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What the consumer made of a letter; with a proof it was processed and may go."""

    verdict: CanaryVerdict
    proof: Confirmation | None = None


def judge_answer(payload: bytes, copy: str) -> CanaryResult:
    """The result of a canary by the payload that the consumer's function returned.

    `copy` is the message id of the letter. The payload is read as Lambda reads that of a
    batch. A consumer without the library has no field RESPONSE, and one that does not
    report batch item failures returns nothing: then the absence of an error is success.
    """
    try:
        answer = json.loads(payload or b"null")
    except (ValueError, RecursionError):
        return CanaryResult(CanaryVerdict.FAILURE)
    fields = answer if isinstance(answer, dict) else {}
    # The batch has one letter, so any item means this one: Lambda takes an unknown id for
    # the whole batch.
    acknowledged = not fields.get("batchItemFailures")
    details = fields.get(RESPONSE)
    verdict = details.get("verdict") if isinstance(details, dict) else None
    if verdict == CanaryVerdict.NEUTRAL:
        proof = Confirmation(copy, CONSUMER) if acknowledged else None
        return CanaryResult(CanaryVerdict.NEUTRAL, proof)
    if verdict == CanaryVerdict.FAILURE or not acknowledged:
        return CanaryResult(CanaryVerdict.FAILURE)
    return CanaryResult(CanaryVerdict.SUCCESS, Confirmation(copy, CONSUMER))


class CanaryChoice(Protocol):
    """Whoever says which letters may be canaries."""

    def takes(self, taken: ReceivedLetter, key: str) -> bool:
        """Whether this letter says something of that circuit; raises RouterUnavailable."""


class HidingQueue(Queue, Protocol):
    """A queue in which letters can be hidden for longer than they were locked for."""

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide letters, by handle, for seconds from now; how many it failed for."""


class CanarySource(Protocol):
    """Where a canary comes from.

    Both calls raise QueueUnavailable, RoomUnavailable, JournalUnavailable and
    RouterUnavailable; the letter is then where it was, its lock ends by itself.
    """

    @property
    def arn(self) -> str:
        """The queue that the consumer is told the letter came from."""

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        """A letter of this circuit that nobody else takes meanwhile, if there is one."""

    def put_away(self, taken: ReceivedLetter, given: CanaryResult) -> bool:
        """Delete a letter that was processed and leave any other; False if it may still be there.

        Of those that are left, one that said nothing stays locked, so that the next probe
        takes another; one without an answer too, for it may be at work still.
        """


class MainQueueCanaries(CanarySource):
    """The next message of the main queue: in HALF_OPEN it is the one that is let through.

    `key` is the circuit of the whole pipeline. Of a single key nobody knows a message
    without reading many, and each look at one is a receive of its life.
    """

    def __init__(self, *, queue: Queue, arn: str, key: str) -> None:
        self._queue = queue
        self._arn = arn
        self._key = key

    @property
    def arn(self) -> str:
        return self._arn

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        if key != self._key:
            return None
        return next(iter(self._queue.receive(1, math.ceil(lock_seconds), POLL_SECONDS)), None)

    def put_away(self, taken: ReceivedLetter, given: CanaryResult) -> bool:
        if given.proof is not None:
            return not self._queue.delete([(taken, given.proof)])
        if given.verdict is CanaryVerdict.FAILURE:
            self._queue.make_visible([taken.handle])
        return False


class DlqCanaries(CanarySource):
    """A letter of the DLQ that waits there for nothing but this circuit.

    What a rule stops, what is expired, poison or somebody else's, and what the journal
    shows as under way is left alone. Of a FIFO group nothing goes while an earlier letter
    of it waits elsewhere. One that failed is hidden for `aside_seconds`.
    """

    def __init__(
        self,
        *,
        queue: HidingQueue,
        arn: str,
        main_arn: str,
        fifo: bool,
        choice: CanaryChoice,
        journal: Journal,
        room: WaitingRoom,
        aside_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._aside = math.ceil(aside_seconds)
        self._arn = arn
        self._main_arn = main_arn
        self._fifo = fifo
        self._choice = choice
        self._journal = journal
        self._room = room
        self._clock = clock

    @property
    def arn(self) -> str:
        return self._arn

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        passed_over: list[ReceivedLetter] = []
        try:
            for _ in range(MOST_LOOKED_AT):
                found = self._queue.receive(1, math.ceil(lock_seconds), POLL_SECONDS)
                if not found:
                    return None
                passed_over += found
                if self._fits(found[0], key):
                    return passed_over.pop()
            return None
        finally:
            if passed_over:
                self._queue.make_visible([one.handle for one in passed_over])

    def put_away(self, taken: ReceivedLetter, given: CanaryResult) -> bool:
        if given.proof is not None:
            return not self._queue.delete([(taken, given.proof)])
        if given.verdict is CanaryVerdict.FAILURE:
            # Behind the first of a FIFO group its others would wait as long.
            self._queue.hide([(taken.handle, 0 if self._fifo else self._aside)])
        return False

    def give_back(self, taken: ReceivedLetter) -> None:
        """Give a letter back at once, for nobody has tried it."""
        self._queue.make_visible([taken.handle])

    def move(self, mover: Mover, order: Order, owner: str) -> bool:
        """Move a letter that was taken, as any is moved; False if it surely is here still."""
        slot = Slot(self._journal, f"canary.{owner}", owner)
        gone = _is_gone(mover.move_from_queue(self._queue, [order], slot), slot)
        if not gone:
            self.give_back(order.received)
        return gone

    def _fits(self, taken: ReceivedLetter, key: str) -> bool:
        source = taken.letter.source_arn
        foreign = bool(source and self._main_arn and source != self._main_arn)
        if foreign or self._is_under_way(taken) or self._is_overtaking(taken):
            return False
        return self._choice.takes(taken, key)

    def _is_under_way(self, taken: ReceivedLetter) -> bool:
        """Whether the mover has, or may have, sent it: the next run will know what to do."""
        copy = taken.letter.message_id
        opens = open_intents(self._journal.read(), self._clock())
        touched = opens.confirmation_of(copy) is not None or opens.is_busy(copy)
        return touched or opens.unknown_target(copy) is not None

    def _is_overtaking(self, taken: ReceivedLetter) -> bool:
        group = taken.letter.group
        if not self._fifo or group is None:
            return False
        return bool(self._room.waits([group], taken.home))


class LaneCanaries(CanarySource):
    """A letter of the circuit's lane in the waiting room.

    The shard's open intent is the claim, as for whoever lets letters out: a canary that
    is never answered leaves it standing, and whoever sees the letter next knows that it
    may have been processed.
    """

    def __init__(
        self,
        *,
        arn: str,
        fifo: bool,
        room: WaitingRoom,
        choice: CanaryChoice,
        journal: Journal,
        owner: Callable[[], str],
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self._arn = arn
        self._fifo = fifo
        self._room = room
        self._choice = choice
        self._journal = journal
        self._owner = owner
        self._clock = clock
        self._random = random
        self._slot: Slot | None = None

    @property
    def arn(self) -> str:
        return self._arn

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        lane = circuit_lane(key)
        if all(one.name != lane for one in self._room.lanes()):
            return None
        shards = list(range(SHARDS))
        # One that said nothing would else be the first again.
        self._random.shuffle(shards)
        for shard in shards:
            taken = self._from(lane, shard, key, lock_seconds)
            if taken is not None:
                return taken
        return None

    def put_away(self, taken: ReceivedLetter, given: CanaryResult) -> bool:
        slot = self._claim()
        gone = given.proof is not None and not self._room.delete([(taken, given.proof)])
        if given.verdict is not CanaryVerdict.NO_ANSWER:
            slot.close()
        return gone

    def give_back(self, taken: ReceivedLetter) -> None:
        """Give a letter back at once, for nobody has tried it."""
        with suppress(JournalUnavailable):
            self._claim().close()

    def move(self, mover: Mover, order: Order, owner: str) -> bool:
        """Move a letter that was taken, as any is moved; False if it surely is here still."""
        slot = self._claim()
        return _is_gone(mover.move_from_room([order], slot), slot)

    def _claim(self) -> Slot:
        slot, self._slot = self._slot, None
        assert slot is not None, "a letter is taken before it is put away"
        return slot

    def _from(self, lane: str, shard: int, key: str, lock_seconds: float) -> ReceivedLetter | None:
        until = self._clock() + lock_seconds
        seats = self._room.due(lane, shard, END_OF_TIME, MOST_LOOKED_AT)
        if not seats:
            return None
        seat = seats[0] if self._fifo else self._random.choice(seats)
        name = f"{ROOM}:{lane}:{shard}"
        intents: Sequence[Intent] = self._journal.read()
        claimed = any(one.slot == name or one.slot.startswith(f"{name}~") for one in intents)
        opens = open_intents(intents, self._clock())
        touched = opens.confirmation_of(seat.copy) is not None or opens.is_busy(seat.copy)
        if claimed or touched or opens.unknown_target(seat.copy) is not None:
            return None
        slot = Slot(self._journal, name, self._owner())
        try:
            slot.intend([Plan(key_of(seat.copy), OUT_OF_ROOM, 0)], until)
        except ClaimLost:
            return None
        try:
            found = self._room.read([seat], until).letters
            if found and self._choice.takes(found[0], key):
                self._slot = slot
                return found[0]
        finally:
            if self._slot is None:
                slot.close()
        return None


def _is_gone(left: Sequence[ReceivedLetter], slot: Slot) -> bool:
    """Whether the mover has sent a letter, or may have; its slot is closed."""
    gone = not left or slot.is_kept
    # An intent that stays speaks of a letter that is gone, or makes it wait for its lock's end.
    with suppress(JournalUnavailable):
        slot.close()
    return gone


class Waiting(CanaryChoice):
    """Any letter that waits for its circuit and for nothing else may be a canary."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def takes(self, taken: ReceivedLetter, key: str) -> bool:
        return waits_for(self._router, taken, key) is not None


def waits_for(router: Router, taken: ReceivedLetter, key: str) -> Stamp | None:
    """The letter's stamp, if the router holds it back for this circuit, and for nothing else."""
    copy = taken.letter.message_id
    answer = router.decide([Question(taken.letter, served=True, home=taken.home)])
    verdict = usable_verdicts(answer, [copy]).get(copy)
    if verdict is None or not isinstance(verdict.decision, Hold):
        return None
    return verdict.stamp if verdict.decision.lane == circuit_lane(key) else None
