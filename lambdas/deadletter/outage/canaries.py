"""The letters that test whether a dependency works, and the places that they come from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import CONFIG_SUFFIX, RESPONSE, circuit_lane, is_of_delays
from deadletter.failure.fate import Evidence, shown_by, was_tried
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import whole_number
from deadletter.message.queue import LetterStore, Queue, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import (
    OUT_OF_ROOM,
    ClaimLost,
    Intent,
    Journal,
    JournalUnavailable,
    OpenIntents,
    Plan,
    Slot,
    key_of,
)
from deadletter.redrive.lane_claim import lane_slot
from deadletter.redrive.mover import Left, Mover
from deadletter.redrive.order import MAIN, Order
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import END_OF_TIME, SHARDS, OpenShard, WaitingRoom
from deadletter.routing.decision import Hold, Redrive
from deadletter.routing.router import (
    Question,
    Router,
    RouterUnavailable,
    Verdict,
    question_about,
    usable_verdicts,
)

MOST_LETTERS_LOOKED_AT = 5
"""Letters of a queue that one probe receives at most: each receive counts for the letter."""

MOST_SEATS = 25
"""Letters of a shard that one is drawn from: the first ones may have failed by their own fault."""

POLL_SECONDS = 2
"""Seconds to wait for a letter: a short poll may miss a letter that is in the queue."""

ASIDE_COOLDOWNS = 3
"""How many of the longest cooldowns a dead letter that failed as a canary is not tried again.
A letter that fails by its own fault, or a few of them, would otherwise keep the circuit open."""


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


class CanaryChoice(Protocol):
    """Decides which letters may be canaries."""

    def accepts(self, received: ReceivedLetter, key: str) -> bool:
        """Whether this letter can test that circuit; raises RouterUnavailable."""


class HidingQueue(Queue, Protocol):
    """A queue that can hide letters for longer than their lock."""

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide letters, by handle, for seconds from now. Returns how many failed."""


class CanarySource(Protocol):
    """A place that canaries come from.

    Both calls raise QueueUnavailable, RoomUnavailable, JournalUnavailable and
    RouterUnavailable. The letter then stays in its place until its lock ends.
    """

    @property
    def arn(self) -> str:
        """The ARN of the queue that is named to the consumer as the letter's source."""

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        """A letter of this circuit, locked for `lock_seconds`; None without a letter."""

    def record(self, received: ReceivedLetter) -> bool:
        """Put on record that the consumer is about to receive the letter.

        Who sends it again counts it then as a possible duplicate. Returns False where no
        record can be kept, because SQS itself delivers the letter again.
        """

    def settle(self, received: ReceivedLetter, result: CanaryResult) -> bool:
        """Delete a letter that was processed, and keep any other.

        Returns False if the letter may still be there. A letter whose verdict is neutral
        stays locked, so that the next probe takes another one. So does a letter without an
        answer, because the consumer may still be working on it.
        """

    def give_back(self, received: ReceivedLetter) -> None:
        """Release a letter at once, because it was not tried. Raises nothing."""


def _settle(slot: Slot, store: LetterStore, received: ReceivedLetter, result: CanaryResult) -> bool:
    """Settle a letter that is on record in a slot: mark, delete, and close as the mover does.

    What is processed and could not be deleted stays marked, and is only deleted later. The
    intent of a letter without an answer stays open: the next run sees from it that the letter
    may have been processed. Returns False if the letter may still be there.
    """
    if result.verdict is CanaryVerdict.NO_ANSWER:
        return False
    copy, gone = received.letter.message_id, False
    if result.proof is not None:
        with suppress(JournalUnavailable, ClaimLost):
            slot.mark([copy])
        gone = not store.delete([(received, result.proof)])
        if not gone:
            slot.keep([copy])
    # An intent that cannot be closed stays: at worst its letter waits until its lock ends.
    with suppress(JournalUnavailable):
        slot.close()
    return gone


class DlqCanaries(CanarySource):
    """A letter in the DLQ that waits for this circuit and for nothing else.

    It leaves alone a letter that a rule stops, that is expired, poison or from another
    pipeline's queue, or that the journal shows as being moved. A letter of a FIFO group is
    left alone while an earlier letter of its group waits elsewhere. A letter that failed is
    hidden for `aside_seconds`. An intent says that the consumer has the letter: `owner` gives
    a new token for each.
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
        owner: Callable[[], str],
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
        self._owner = owner
        self._clock = clock
        self._slot: Slot | None = None

    @property
    def arn(self) -> str:
        return self._arn

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        passed_over: list[ReceivedLetter] = []
        try:
            for _ in range(MOST_LETTERS_LOOKED_AT):
                batch = self._queue.receive(1, math.ceil(lock_seconds), POLL_SECONDS)
                if not batch:
                    return None
                passed_over += batch
                if self._fits(batch[0], key):
                    return passed_over.pop()
            return None
        finally:
            if passed_over:
                self._queue.make_visible([received.handle for received in passed_over])

    def record(self, received: ReceivedLetter) -> bool:
        slot = self._slot_of(self._owner(), received)
        plan = Plan(key_of(received.letter.message_id), MAIN, 0)
        try:
            slot.intend([plan], received.locked_until)
        except ClaimLost as error:
            raise JournalUnavailable("the slot of a canary is taken") from error
        self._slot = slot
        return True

    def settle(self, received: ReceivedLetter, result: CanaryResult) -> bool:
        slot, self._slot = self._slot, None
        if slot is not None and _settle(slot, self._queue, received, result):
            return True
        if result.verdict is CanaryVerdict.FAILURE:
            # On FIFO the rest of the group would be hidden as long.
            self._queue.hide([(received.handle, 0 if self._fifo else self._aside)])
        return False

    def give_back(self, received: ReceivedLetter) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            with suppress(JournalUnavailable):
                slot.close()
        self._queue.make_visible([received.handle])

    def move(self, mover: Mover, order: Order, owner: str) -> bool:
        """Move a letter with the mover. Returns False if it certainly is still in its place."""
        slot = self._slot_of(owner, order.received)
        gone = _is_gone(mover.move([order], slot, queue=self._queue), slot)
        if not gone:
            self.give_back(order.received)
        return gone

    def _slot_of(self, owner: str, received: ReceivedLetter) -> Slot:
        return Slot(self._journal, f"canary.{owner}", owner, home=received.home)

    def _fits(self, received: ReceivedLetter, key: str) -> bool:
        source = received.letter.source_arn
        foreign = bool(source and self._main_arn and source != self._main_arn)
        if foreign or self._is_under_way(received) or self._is_overtaking(received):
            return False
        return self._choice.accepts(received, key)

    def _is_under_way(self, received: ReceivedLetter) -> bool:
        """Whether the mover has sent it, or may have: then the next redrive run handles it."""
        intents = OpenIntents(self._journal.read(), self._clock())
        return intents.names(key_of(received.letter.message_id))

    def _is_overtaking(self, received: ReceivedLetter) -> bool:
        group = received.letter.group
        if not self._fifo or group is None:
            return False
        return bool(self._room.waits([group], received.home))


class LaneCanaries(CanarySource):
    """A letter of the circuit's lane in the waiting room, or one that is due there.

    Letters that were rescued from the DLQ while the circuit was open are due: for their
    circuit they have not been judged yet.
    The shard's open intent is the claim, as for a run that sends letters from the room.
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
        names = sorted(lane.name for lane in self._room.lanes())
        now = self._clock()
        untils = dict.fromkeys(filter(is_of_delays, names), now)
        if circuit_lane(key) in names:
            untils = {circuit_lane(key): END_OF_TIME, **untils}
        for lane in untils:
            received = self._from_lane(lane, untils[lane], key, lock_seconds)
            if received is not None:
                return received
        return None

    def _from_lane(
        self, lane: str, until: float, key: str, lock_seconds: float
    ) -> ReceivedLetter | None:
        shards = list(range(SHARDS))
        # In a fixed order a letter with a neutral verdict would be tried again and again.
        self._random.shuffle(shards)
        for shard in shards:
            received = self._from(OpenShard(lane, shard, until), key, lock_seconds)
            if received is not None:
                return received
        return None

    def record(self, received: ReceivedLetter) -> bool:
        return True

    def settle(self, received: ReceivedLetter, result: CanaryResult) -> bool:
        return _settle(self._claim(), self._room, received, result)

    def give_back(self, received: ReceivedLetter) -> None:
        with suppress(JournalUnavailable):
            self._claim().close()

    def move(self, mover: Mover, order: Order, owner: str) -> bool:
        """Move a letter with the mover. Returns False if it certainly is still in its place."""
        slot = self._claim()
        return _is_gone(mover.move([order], slot), slot)

    def _claim(self) -> Slot:
        slot, self._slot = self._slot, None
        assert slot is not None, "a message is taken before it is settled"
        return slot

    def _from(self, shard: OpenShard, key: str, lock_seconds: float) -> ReceivedLetter | None:
        until = self._clock() + lock_seconds
        seats = self._room.due(shard.lane, shard.shard, shard.until, MOST_SEATS)
        if not seats:
            return None
        seat = seats[0] if self._fifo else self._random.choice(seats)
        name = lane_slot(shard.lane, shard.shard)
        intents: Sequence[Intent] = self._journal.read()
        claimed = any(
            intent.slot == name or intent.slot.startswith(f"{name}~") for intent in intents
        )
        if claimed or self._is_touched(seat.copy, intents):
            return None
        slot = Slot(self._journal, name, self._owner())
        try:
            slot.intend([Plan(key_of(seat.copy), OUT_OF_ROOM, 0)], until)
        except ClaimLost:
            return None
        # Another run may have worked in the shard until the claim.
        others = [intent for intent in self._journal.read() if intent.slot != name]
        if self._is_touched(seat.copy, others):
            slot.close()
            return None
        try:
            letters = self._room.read([seat], until).letters
            if letters and self._choice.accepts(letters[0], key):
                self._slot = slot
                return letters[0]
        finally:
            if self._slot is None:
                slot.close()
        return None

    def _is_touched(self, copy: str, intents: Sequence[Intent]) -> bool:
        return OpenIntents(intents, self._clock()).names(key_of(copy))


def _is_gone(left: Left, slot: Slot) -> bool:
    """Close the slot of a move. Returns whether the mover has sent the letter, or may have."""
    gone = not left.stayed
    # If closing fails, the intent that stays is about a letter that is gone, or makes the
    # letter wait until its lock ends.
    with suppress(JournalUnavailable):
        slot.close()
    return gone


class WaitingLetters(CanaryChoice):
    """Accepts any letter that waits for its circuit and for nothing else.

    For a consumer without the library: no ledger says why its letters failed.
    """

    def __init__(self, router: Router) -> None:
        self._router = router

    def accepts(self, received: ReceivedLetter, key: str) -> bool:
        return hold_for(self._router, received, key) is not None


def hold_for(router: Router, received: ReceivedLetter, key: str) -> Verdict | None:
    """The verdict on the letter if the router holds it for this circuit alone, or None."""
    copy = received.letter.message_id
    answer = router.decide([question_about(received, served=True)])
    verdict = usable_verdicts(answer, [copy]).get(copy)
    if verdict is None or not isinstance(verdict.decision, Hold):
        return None
    return verdict if verdict.decision.lane == circuit_lane(key) else None


def is_of_another(row: LedgerRow, key: str, pipeline: str) -> bool:
    """Whether the circuit `key` is the pipeline's, and the letter's calls count for its own.

    Its own is that of a value in the message, such as its endpoint.
    """
    return key.removesuffix(CONFIG_SUFFIX) == pipeline and row.endpoint not in ("", pipeline)


def failed_by_itself(row: LedgerRow, key: str, pipeline: str) -> bool:
    """Whether the letter's last failure is no evidence for the circuit `key`.

    What it would show as a canary is known already, and is nothing. A letter that the consumer
    only gave back untried has not failed.
    """
    tried = [failure for failure in row.since_release if was_tried(failure)]
    return bool(tried) and (
        is_of_another(row, key, pipeline) or shown_by(tried[-1], key) is Evidence.NEUTRAL
    )


class BlamelessLetters(CanaryChoice):
    """Accepts letters that wait for the circuit alone, and did not fail by their own fault.

    With `recorded` also only those that the ledger knows: a letter that its consumer has never
    recorded may kill it.
    """

    def __init__(
        self, *, pipeline: str, router: Router, ledger: Ledger, recorded: bool = False
    ) -> None:
        self._pipeline = pipeline
        self._router = router
        self._ledger = ledger
        self._recorded = recorded
        self._verdicts: dict[str, Verdict] = {}

    def accepts(self, received: ReceivedLetter, key: str) -> bool:
        """As CanaryChoice; also raises LedgerUnavailable."""
        verdict = hold_for(self._router, received, key)
        if verdict is None:
            return False
        origin = verdict.stamp.origin
        row = self._ledger.rows([origin]).get(origin, NO_ROW)
        unknown = self._recorded and not row.since_release
        if row.unreadable or unknown or failed_by_itself(row, key, self._pipeline):
            return False
        self._verdicts = {received.letter.message_id: verdict}
        return True

    def verdict_on(self, received: ReceivedLetter) -> Verdict:
        """The router's verdict on the letter accepted last."""
        return self._verdicts[received.letter.message_id]


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


class LiveQueue(HidingQueue, Protocol):
    """A queue whose messages die after a number of receives."""

    def max_receives(self) -> int | None:
        """Receives after which a message goes to the DLQ; None if it never does."""


class MainQueueCanaries(CanarySource):
    """The next message of the main queue: in HALF_OPEN it is the one that is let through.

    One that fails is moved into the circuit's lane, whatever its fault, and is the next canary
    there: a live message is never tried twice. Without a `mover` it goes back to the queue.
    `keys` are the circuits that any message can test. For the circuit of a single key it gives
    no letter: finding one means receiving many, and each receive counts for its letter. Nor does
    it give a letter that another circuit holds, such as that of its endpoint.
    """

    def __init__(
        self,
        *,
        queue: LiveQueue,
        arn: str,
        fifo: bool,
        keys: Callable[[str], bool],
        mover: LaneMover | None,
        router: Router,
    ) -> None:
        self._queue = queue
        self._arn = arn
        self._keys = keys
        self._mover = mover
        self._router = router
        self._key = ""
        if mover is None:
            self._least = LEAST_RECEIVES_LEFT_UNMOVED
        else:
            self._least = LEAST_RECEIVES_LEFT_IN_ORDER if fifo else LEAST_RECEIVES_LEFT

    @property
    def arn(self) -> str:
        return self._arn

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        """As CanarySource; raises NotInLaneYet after it has moved a message that would die."""
        if not self._keys(key):
            return None
        self._key = key
        most = self._queue.max_receives()
        for _ in range(MOST_LOOKED_AT):
            batch = self._queue.receive(1, math.ceil(lock_seconds), POLL_SECONDS)
            if not batch:
                return None
            try:
                verdict = self._verdict_on(batch[0])
            except RouterUnavailable:
                # A router without an answer must not keep live traffic paused.
                verdict = None
            holder = _holder(verdict, key)
            left = None if most is None else most - _receives(batch[0])
            if holder == key and (left is None or left >= self._least):
                return batch[0]
            # Released at its last receive, it would die of our look at it.
            dies = left is not None and left <= 0
            if not dies or not self._move(batch[0], verdict, holder):
                self._queue.hide([(batch[0].handle, REST_SECONDS)])
            elif holder == key:
                raise NotInLaneYet(key)
        return None

    def hides(self, key: str) -> bool:
        """Whether messages that could test this circuit are hidden at present."""
        return self._keys(key) and self._queue.depth().in_flight > 0

    def record(self, received: ReceivedLetter) -> bool:
        return False

    def settle(self, received: ReceivedLetter, result: CanaryResult) -> bool:
        if result.proof is not None:
            return not self._queue.delete([(received, result.proof)])
        if result.verdict is CanaryVerdict.NO_ANSWER:
            return False
        # What the ledger says of it has changed by the failure, so the router is asked again.
        if not self._move(received, self._verdict_on(received), self._key):
            self.give_back(received)
        return False

    def give_back(self, received: ReceivedLetter) -> None:
        self._queue.make_visible([received.handle])

    def _move(self, received: ReceivedLetter, verdict: Verdict | None, key: str) -> bool:
        """Move a message into the lane of a circuit. Returns False if it may still be here."""
        if self._mover is None or verdict is None or isinstance(verdict.decision, Redrive):
            # Without a mover we may move nothing; or its circuit has closed meanwhile.
            return False
        return self._mover.move(self._queue, received, verdict, key)

    def _verdict_on(self, received: ReceivedLetter) -> Verdict | None:
        copy = received.letter.message_id
        answer = self._router.decide([Question(received.letter, served=True, home=received.home)])
        return usable_verdicts(answer, [copy]).get(copy)


def _holder(verdict: Verdict | None, key: str) -> str:
    """The circuit that holds a message back: `key`, or another one, such as its endpoint's."""
    decision, prefix = verdict.decision if verdict else None, circuit_lane("")
    if isinstance(decision, Hold) and decision.lane.startswith(prefix):
        return decision.lane.removeprefix(prefix)
    return key


def _receives(received: ReceivedLetter) -> int:
    """How often the message was received, this time included."""
    return whole_number(received.letter.system.get("ApproximateReceiveCount")) or 1
