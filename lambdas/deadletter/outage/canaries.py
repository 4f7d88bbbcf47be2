"""The letters that test whether a dependency works, and the places that they come from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import (
    CONFIG_SUFFIX,
    DEPENDENCY_PREFIX,
    END_OF_TIME,
    RESPONSE,
    Mode,
    circuit_lane,
    is_of_delays,
)
from deadletter.failure.fate import Evidence, shown_by, was_tried
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import whole_number
from deadletter.message.queue import Queue, ReceivedLetter
from deadletter.redrive.journal import ClaimLost, Journal, JournalUnavailable, Plan, Slot, key_of
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import LaneClaim, lane_slot
from deadletter.redrive.mover import MARGIN, Mover
from deadletter.redrive.order import MAIN, Order
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import SHARDS, OpenShard, WaitingRoom, WaitingRoomEntry
from deadletter.routing.decision import Hold, Redrive
from deadletter.routing.router import (
    Router,
    RouterUnavailable,
    Verdict,
    question_about,
    usable,
)
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Figure

MOST_LETTERS_LOOKED_AT = 5
"""Letters of a queue that one probe receives at most: each receive counts for the letter."""

MOST_SEATS = 25
"""Letters of a shard that one is drawn from: the first ones may have failed by their own fault."""

POLL_SECONDS = 2
"""Seconds to wait for a letter: a short poll may miss a letter that is in the queue."""

ASIDE_COOLDOWNS = 3
"""How many of the longest cooldowns a dead letter that failed as a canary is not tried again.
A letter that fails by its own fault, or a few of them, would otherwise keep the circuit open."""

MOST_MOVED = 3
"""Dead letters that one probe moves into the lane at most: candidates for the next probes."""

LEAST_RECEIVES_LEFT = 1
"""Receives that a message must have left to be tried: without an answer it comes back, and at its
last receive it would die of it."""

LEAST_RECEIVES_LEFT_IN_ORDER = 3
"""The same on FIFO, where a message that is moved away is overtaken by its group."""

LEAST_RECEIVES_LEFT_UNMOVED = 4
"""The same where we may move nothing: a message that fails goes back."""

REST_SECONDS = 60
"""How long a message with too few receives left is hidden: each look at it is a receive."""

MOST_LOOKED_AT = 3
"""Messages that one probe receives at most."""

CONSUMER = "consumer"
"""The place named in the confirmation of a letter that the consumer has processed."""

_VERDICTS = {
    "success": CanaryVerdict.SUCCESS,
    "failure": CanaryVerdict.FAILURE,
    "neutral": CanaryVerdict.NEUTRAL,
}
"""The words of the library for what a letter shows about a circuit."""


class NotInLaneYet(Exception):
    """Letters were moved into the circuit's lane, whose index does not show them yet."""


# What a letter shows.


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """The result of one canary; with a proof the letter was processed and may be deleted."""

    verdict: CanaryVerdict
    proof: Confirmation | None = None


def judge_answer(payload: bytes, copy: str, key: str) -> CanaryResult:
    """The result of a canary of the circuit `key` by the payload that the consumer returned.

    `copy` is the message id of the letter. The payload is read as Lambda reads that of a
    batch. A consumer with the library says in its field RESPONSE what the letter shows about
    each circuit, and nothing about one that it does not name. A consumer without the library
    has no such field, and one that does not report batch item failures returns nothing: then
    the absence of an error is success.
    """
    try:
        answer = json.loads(payload or b"null")
    except (ValueError, RecursionError):
        return CanaryResult(CanaryVerdict.FAILURE)
    fields = answer if isinstance(answer, dict) else {}
    # The batch has one letter, so any item means this one: Lambda takes an unknown id for
    # the whole batch.
    acknowledged = not fields.get("batchItemFailures")
    proof = Confirmation(copy, CONSUMER) if acknowledged else None
    details = fields.get(RESPONSE)
    circuits = details.get("circuits") if isinstance(details, dict) else None
    if isinstance(circuits, dict):
        return CanaryResult(_verdict_on(circuits, key), proof)
    if not acknowledged:
        return CanaryResult(CanaryVerdict.FAILURE)
    return CanaryResult(CanaryVerdict.SUCCESS, proof)


def _verdict_on(circuits: Mapping[str, Any], key: str) -> CanaryVerdict:
    """What the library's words about circuits say of this one."""
    if key in circuits:
        return _VERDICTS.get(str(circuits[key]), CanaryVerdict.NEUTRAL)
    others = {_VERDICTS.get(str(word), CanaryVerdict.NEUTRAL) for word in circuits.values()}
    return CanaryVerdict.ELSEWHERE if others - {CanaryVerdict.NEUTRAL} else CanaryVerdict.NEUTRAL


# Which letters may be canaries.

Choice = Callable[[ReceivedLetter, str], Verdict | None]
"""Decides whether a letter can test a circuit: the router's verdict on it, or None if it can't.

Raises RouterUnavailable, LedgerUnavailable and QueueUnavailable.
"""


def waiting_for(router: Router, received: ReceivedLetter, key: str) -> Verdict | None:
    """The verdict on a letter that the router holds for this circuit and for nothing else.

    It is all that can be asked without the library: no ledger says why a letter has failed.
    """
    verdict = _verdict_of(router, received)
    if verdict is None or not isinstance(verdict.decision, Hold):
        return None
    return verdict if verdict.decision.lane == circuit_lane(key) else None


def _verdict_of(router: Router, received: ReceivedLetter) -> Verdict | None:
    copy = received.letter.message_id
    answer = router.decide([question_about(received, served=True)])
    return usable(answer.verdicts, [copy]).get(copy)


def is_of_another(row: LedgerRow, key: str, pipeline: str) -> bool:
    """Whether the circuit `key` is the pipeline's, and the letter's calls count for its own.

    Its own is that of a value in the message, such as its endpoint.
    """
    return key.removesuffix(CONFIG_SUFFIX) == pipeline and row.about.endpoint not in ("", pipeline)


def failed_by_itself(row: LedgerRow, key: str, pipeline: str) -> bool:
    """Whether the letter's last failure is no evidence for the circuit `key`.

    What it would show as a canary is known already, and is nothing. A letter that the consumer
    only gave back untried has not failed.
    """
    tried = [failure for failure in row.failures if was_tried(failure)]
    return bool(tried) and (
        is_of_another(row, key, pipeline) or shown_by(tried[-1], key) is Evidence.NEUTRAL
    )


@dataclass(frozen=True, slots=True)
class BlamelessLetters:
    """Chooses letters that wait for the circuit alone, and did not fail by their own fault.

    With `recorded` also only those that the ledger knows: a letter that its consumer has never
    recorded may kill it.
    """

    pipeline: str
    router: Router
    ledger: Ledger
    recorded: bool = False

    def __call__(self, received: ReceivedLetter, key: str) -> Verdict | None:
        verdict = waiting_for(self.router, received, key)
        if verdict is None:
            return None
        origin = verdict.stamp.origin
        row = self.ledger.rows([origin]).get(origin, NO_ROW)
        unknown = self.recorded and not row.failures
        if row.unreadable or unknown or failed_by_itself(row, key, self.pipeline):
            return None
        return verdict


# A letter in hand.


class HidingQueue(Queue, Protocol):
    """A queue that can hide letters for longer than their lock."""

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide letters, by handle, for seconds from now. Returns how many failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySetup:
    """What every place of canaries is given.

    dlq_arn, main_arn  the ARNs of the queues
    known      what the journal says, which a canary may not be named in
    mover_for  makes a mover that counts on a tally
    owner      returns a text that no other claim or move has
    clock      returns epoch seconds
    count_metric  counts a metric by its name
    """

    pipeline: Pipeline
    dlq_arn: str
    main_arn: str
    router: Router
    room: WaitingRoom
    journal: Journal
    known: KnownIntents
    mover_for: Callable[[Tally], Mover]
    owner: Callable[[], str]
    clock: Callable[[], float]
    random: Random
    count_metric: Callable[[str, int], None]

    def slot_for(self, received: ReceivedLetter) -> Slot:
        """A new slot for a letter of a queue."""
        owner = self.owner()
        return Slot(self.journal, f"canary.{owner}", owner, home=received.home)


@dataclass(frozen=True, slots=True, eq=False)
class Canary:
    """A letter that is locked in its place, to be tried; `slot` is its place in the journal.

    It lies in the `queue`, or without one in the waiting room, where the intent in the slot is the
    claim on its shard. `verdict` is the router's, if it was chosen by that. `arn` is the queue
    that is named to the consumer as the letter's source.
    """

    setup: CanarySetup
    received: ReceivedLetter
    arn: str
    slot: Slot
    verdict: Verdict | None = None
    queue: HidingQueue | None = None

    @property
    def copy(self) -> str:
        return self.received.letter.message_id

    def record(self) -> bool:
        """Put on record that the consumer is about to receive the letter.

        Who sends it again counts it then as a possible duplicate. Returns False where no
        record can be kept, because SQS itself delivers the letter again. Raises
        JournalUnavailable.
        """
        if self.queue is not None:
            try:
                self.slot.intend([Plan(key_of(self.copy), MAIN, 0)], self.received.locked_until)
            except ClaimLost as error:
                raise JournalUnavailable("the slot of a canary is taken") from error
        return True

    def settle(self, result: CanaryResult) -> bool:
        """Delete a letter that was processed, and keep any other.

        Returns False if the letter may still be there. What may be there though it was processed
        is marked, and is only deleted later. A letter whose verdict is neutral stays locked, so
        that the next probe takes another one. So does a letter without an answer, because the
        consumer may still be working on it: it stays on record. One that failed is left alone in a
        queue for ASIDE_COOLDOWNS.
        """
        is_gone = False
        if result.proof is not None:
            with suppress(JournalUnavailable, ClaimLost):
                self.slot.mark([self.copy])
            is_gone = self.delete(result.proof)
            if not is_gone:
                self.slot.keep([self.copy])
        elif result.verdict is CanaryVerdict.NO_ANSWER:
            self.slot.keep([self.copy])
        if self._close() and result.verdict is CanaryVerdict.FAILURE and not is_gone:
            # On FIFO the rest of the group would be hidden as long.
            aside = ASIDE_COOLDOWNS * self.setup.pipeline.circuit.cooldown_cap
            self._hide(0 if self.setup.pipeline.fifo else math.ceil(aside))
        return is_gone

    def delete(self, proof: Confirmation) -> bool:
        """Delete it from its place. Returns False if it may still be there."""
        store = self.setup.room if self.queue is None else self.queue
        left = store.delete([(self.received, proof)])
        # After its lock's end, a delete may be answered and have no effect.
        return not left and self.setup.clock() + MARGIN < self.received.locked_until

    def give_back(self) -> None:
        """Release a letter at once, because it was not tried. Raises nothing."""
        if self._close():
            self._hide(0)

    def move(self, order: Order) -> bool:
        """Move it with the mover. Returns False if it certainly is still in its place."""
        tally = Tally(self.setup.count_metric)
        mover = self.setup.mover_for(tally)
        left = mover.move([order], self.slot, queue=self.queue)
        for name, number in tally.report("", "", "").metrics().items():
            self.setup.count_metric(name, number)
        self._close()
        return not left.stayed

    def move_into_lane(self, verdict: Verdict, key: str) -> bool:
        """Move it into the lane of a circuit: there no receive counts, and no letter dies of a try.

        A letter that the router does not hold there waits all the same, until the lane opens or
        the letter expires; then it is judged again. Returns as `move`.
        """
        hold, stamp = verdict.decision, verdict.stamp
        if not isinstance(hold, Hold) or hold.lane != circuit_lane(key):
            sent = stamp.first_sent / 1000 if stamp.first_sent else self.setup.clock()
            due = sent + self.setup.pipeline.message_ttl
            hold = Hold(circuit_lane(key), due, f"waits for circuit {key}")
            stamp = replace(
                stamp, rule=None, decision="HOLD", reason=None, because=hold.because, canary=None
            )
        return self.move(Order(self.received, hold, stamp))

    def _close(self) -> bool:
        """Close the slot. False if it could not be: what an intent names keeps its lock."""
        try:
            self.slot.close()
        except JournalUnavailable:
            return False
        return True

    def _hide(self, seconds: int) -> None:
        if self.queue is not None:
            self.queue.hide([(self.received.handle, seconds)])


class CanarySource(Protocol):
    """A place that canaries come from."""

    def take(self, key: str, lock_seconds: float) -> Canary | None:
        """A letter of this circuit, locked for `lock_seconds`; None without a letter.

        Raises QueueUnavailable, RoomUnavailable, JournalUnavailable, RouterUnavailable and
        LedgerUnavailable. What was looked at then stays in its place until its lock ends.
        """


def first_of(sources: Iterable[CanarySource], key: str, lock_seconds: float) -> Canary | None:
    """The canary of the first source that has one; the others are not asked."""
    for source in sources:
        canary = source.take(key, lock_seconds)
        if canary is not None:
            return canary
    return None


@dataclass(frozen=True, slots=True)
class DlqCanaries:
    """A letter in the DLQ that waits for this circuit and for nothing else.

    It leaves alone a letter that a rule stops, that is expired, poison or from another
    pipeline's queue, or that the journal shows as being moved. A letter of a FIFO group is
    left alone while an earlier letter of its group waits elsewhere.
    """

    setup: CanarySetup
    queue: HidingQueue
    choice: Choice

    def take(self, key: str, lock_seconds: float) -> Canary | None:
        passed_over: list[ReceivedLetter] = []
        try:
            for _ in range(MOST_LETTERS_LOOKED_AT):
                batch = self.queue.receive(1, math.ceil(lock_seconds), POLL_SECONDS)
                if not batch:
                    return None
                passed_over += batch
                verdict = self._verdict_on(batch[0], key)
                if verdict is not None:
                    received = passed_over.pop()
                    slot, arn = self.setup.slot_for(received), self.setup.dlq_arn
                    return Canary(self.setup, received, arn, slot, verdict, self.queue)
            return None
        finally:
            if passed_over:
                self.queue.make_visible([received.handle for received in passed_over])

    def _verdict_on(self, received: ReceivedLetter, key: str) -> Verdict | None:
        source, main_arn = received.letter.source_arn, self.setup.main_arn
        foreign = bool(source and main_arn and source != main_arn)
        if foreign or self._is_under_way(received) or self._is_overtaking(received):
            return None
        return self.choice(received, key)

    def _is_under_way(self, received: ReceivedLetter) -> bool:
        """Whether the mover has sent it, or may have: then the next redrive run handles it."""
        return self.setup.known.fresh().of_queue(received.letter.message_id).is_named

    def _is_overtaking(self, received: ReceivedLetter) -> bool:
        group = received.letter.group
        if not self.setup.pipeline.fifo or group is None:
            return False
        return bool(self.setup.room.waits([group], received.home))


@dataclass(frozen=True, slots=True)
class LaneCanaries:
    """A letter of the circuit's lane in the waiting room, or one that is due there.

    Letters that were rescued from the DLQ while the circuit was open are due: for their
    circuit they have not been judged yet.
    A shard is claimed as by a run that sends letters from the room. A letter that is on record
    is left to such a run.
    """

    setup: CanarySetup
    choice: Choice

    def take(self, key: str, lock_seconds: float) -> Canary | None:
        setup = self.setup
        names = sorted(lane.name for lane in setup.room.lanes())
        untils = dict.fromkeys(filter(is_of_delays, names), setup.clock())
        if circuit_lane(key) in names:
            untils = {circuit_lane(key): END_OF_TIME, **untils}
        for lane, until in untils.items():
            # In a fixed order a letter with a neutral verdict would be tried again and again.
            for shard in setup.random.sample(range(SHARDS), SHARDS):
                canary = self._from(OpenShard(lane, shard, until), key, lock_seconds)
                if canary is not None:
                    return canary
        return None

    def _seat_of(self, seats: Sequence[WaitingRoomEntry]) -> WaitingRoomEntry:
        """Any of them, because the oldest may show nothing; in a FIFO group that one.

        In an ordering key, where only the first is handled, the oldest one half of the time.
        """
        pipeline, random = self.setup.pipeline, self.setup.random
        if pipeline.fifo or (pipeline.ordering_key is not None and random.random() < 0.5):
            return seats[0]
        return random.choice(seats)

    def _from(self, shard: OpenShard, key: str, lock_seconds: float) -> Canary | None:
        setup = self.setup
        seats = setup.room.due(shard.lane, shard.shard, shard.until, MOST_SEATS)
        if not seats:
            return None
        seat = self._seat_of(seats)
        name = lane_slot(shard.lane, shard.shard)
        # A claim keeps on record what may still be in its queue: it is not made for nothing.
        if setup.known.recent().of_lane(name, [seat.copy])[seat.copy].is_named:
            return None
        claim = LaneClaim(
            journal=setup.journal,
            known=setup.known,
            name=name,
            owner=setup.owner,
            clock=setup.clock,
            ends=lambda: setup.clock() + lock_seconds,
        )
        claimed = claim.take([seat.copy])
        if claimed is None:
            return None
        canary = None
        try:
            if not claimed.records[seat.copy].is_named:
                for received in setup.room.read([seat], claimed.expires).letters:
                    verdict = self.choice(received, key)
                    if verdict is not None:
                        canary = Canary(setup, received, setup.dlq_arn, claimed.slot, verdict)
            return canary
        finally:
            if canary is None:
                claimed.slot.close()


@dataclass(frozen=True, slots=True)
class RefilledLane:
    """The circuit's lane. Without a candidate there, letters of the DLQ are moved into it first."""

    lane: CanarySource
    dlq: CanarySource

    def take(self, key: str, lock_seconds: float) -> Canary | None:
        """As CanarySource; also raises NotInLaneYet after a move."""
        canary = self.lane.take(key, lock_seconds)
        if canary is not None or not self._refill(key, lock_seconds):
            return canary
        canary = self.lane.take(key, lock_seconds)
        if canary is None:
            raise NotInLaneYet(key)
        return canary

    def _refill(self, key: str, lock_seconds: float) -> int:
        """Move dead letters into the lane; returns how many."""
        for moved in range(MOST_MOVED):
            canary = self.dlq.take(key, lock_seconds)
            if canary is None or canary.verdict is None:
                return moved
            if not canary.move_into_lane(canary.verdict, key):
                canary.give_back()
                return moved
        return MOST_MOVED


@dataclass(frozen=True, slots=True)
class InAnyOrder:
    """Several sources, each time in another order.

    For a consumer without the library: which letter fails by its own fault is not known, and
    the letters of one source may all be such.
    """

    sources: Sequence[CanarySource]
    random: Random

    def take(self, key: str, lock_seconds: float) -> Canary | None:
        sources = self.random.sample(self.sources, len(self.sources))
        return first_of(sources, key, lock_seconds)


# The main queue.


class LiveQueue(HidingQueue, Protocol):
    """A queue whose messages die after a number of receives."""

    def max_receives(self) -> int | None:
        """Receives after which a message goes to the DLQ; None if it never does."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveCanary(Canary):
    """A message of the main queue, tried for the circuit `key`.

    SQS delivers it again by itself: it is on no record until it is moved.
    """

    key: str = ""

    def record(self) -> bool:
        return False

    def settle(self, result: CanaryResult) -> bool:
        """As Canary; one that failed moves into the circuit's lane. Raises RouterUnavailable."""
        if result.proof is not None:
            return self.delete(result.proof)
        if result.verdict is CanaryVerdict.NO_ANSWER:
            return False
        # What the ledger says of it has changed by the failure, so the router is asked again.
        if not self.leave(_verdict_of(self.setup.router, self.received), self.key):
            self.give_back()
        elif self.slot.keeps(self.copy):
            # It may be in the lane and here, where SQS delivers it again.
            self.setup.count_metric(Figure.POSSIBLE_DUPLICATE, 1)
        return False

    def leave(self, verdict: Verdict | None, key: str) -> bool:
        """Move it into the lane of a circuit. Returns False if it certainly is still here."""
        if not _may_move(self.setup) or verdict is None or isinstance(verdict.decision, Redrive):
            # Its circuit may have closed meanwhile.
            return False
        return self.move_into_lane(verdict, key)


@dataclass(frozen=True, slots=True)
class MainQueueCanaries:
    """The next message of the main queue: in HALF_OPEN it is the one that is let through.

    One that fails is moved into the circuit's lane, whatever its fault, and is the next canary
    there: a live message is never tried twice. In mode OBSERVE it goes back to the queue.
    For the circuit of a single key it gives no letter: finding one means receiving many, and each
    receive counts for its letter. Nor does it give a letter that another circuit holds, such as
    that of its endpoint.
    """

    setup: CanarySetup
    queue: LiveQueue

    def take(self, key: str, lock_seconds: float) -> Canary | None:
        """As CanarySource; raises NotInLaneYet after it has moved a message that would die."""
        if not self._is_of_any_message(key):
            return None
        most = self.queue.max_receives()
        for _ in range(MOST_LOOKED_AT):
            batch = self.queue.receive(1, math.ceil(lock_seconds), POLL_SECONDS)
            if not batch:
                return None
            slot, arn = self.setup.slot_for(batch[0]), self.setup.main_arn
            canary = LiveCanary(self.setup, batch[0], arn, slot, None, self.queue, key)
            try:
                verdict = _verdict_of(self.setup.router, batch[0])
            except RouterUnavailable:
                # A router without an answer must not keep live traffic paused.
                verdict = None
            holder = _holder(verdict, key)
            left = None if most is None else most - _receives(batch[0])
            if holder == key and (left is None or left >= self._least_left):
                return canary
            # Released at its last receive, it would die of our look at it.
            dies = left is not None and left <= 0
            if not dies or not canary.leave(verdict, holder):
                self.queue.hide([(batch[0].handle, REST_SECONDS)])
            elif holder == key:
                raise NotInLaneYet(key)
        return None

    def hides(self, key: str) -> bool:
        """Whether messages that could test this circuit are hidden at present."""
        return self._is_of_any_message(key) and self.queue.depth().in_flight > 0

    def _is_of_any_message(self, key: str) -> bool:
        """Whether any message may test this circuit: it is not that of a value in the message."""
        of_pipeline = key.removesuffix(CONFIG_SUFFIX) == self.setup.pipeline.name
        return of_pipeline or key.startswith(DEPENDENCY_PREFIX)

    @property
    def _least_left(self) -> int:
        if not _may_move(self.setup):
            return LEAST_RECEIVES_LEFT_UNMOVED
        is_fifo = self.setup.pipeline.fifo
        return LEAST_RECEIVES_LEFT_IN_ORDER if is_fifo else LEAST_RECEIVES_LEFT


def _may_move(setup: CanarySetup) -> bool:
    return setup.pipeline.mode is not Mode.OBSERVE


def _holder(verdict: Verdict | None, key: str) -> str:
    """The circuit that holds a message back: `key`, or another one, such as its endpoint's."""
    decision, prefix = verdict.decision if verdict else None, circuit_lane("")
    if isinstance(decision, Hold) and decision.lane.startswith(prefix):
        return decision.lane.removeprefix(prefix)
    return key


def _receives(received: ReceivedLetter) -> int:
    """How often the message was received, this time included."""
    return whole_number(received.letter.system.get("ApproximateReceiveCount")) or 1
