"""One letter that says whether a dependency works again, sent under the circuit's permit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from deadletter.circuit.state import Circuit, Circuits, CircuitsUnavailable, Permit
from deadletter.circuit.transitions import (
    Breaker,
    CanaryAnswered,
    CanaryLost,
    CanarySent,
    CanaryVerdict,
    PermitTaken,
    Refusal,
)
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import Queue, QueueUnavailable, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.outage.execution_step import (
    CircuitAnnouncer,
    Execution,
    ExecutionStep,
    Next,
    seconds_to_probe,
)
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
from deadletter.redrive.mover import LAST_SEND, Mover, Order
from deadletter.redrive.redriver import END_OF_TIME
from deadletter.redrive.waiting_room import SHARDS, RoomUnavailable, WaitingRoom
from deadletter.routing.decision import Hold
from deadletter.routing.router import Question, Router, RouterUnavailable, one_each

LOCK_PAST_ANSWER = 60.0
"""Seconds a canary stays locked after it must have been answered."""

MOST_LOOKED_AT = 5
"""Letters of a queue that one probe looks at: each look counts as a receive."""

LONGEST_FINDING = 120.0
"""Seconds that finding and sending a canary may take, however long the lease is."""

POLL_SECONDS = 2
"""Seconds to wait for a letter: a short poll may find nothing in a queue that is not empty."""

ENOUGH_EMPTY = 3
"""Probes in a row without anything to probe with, after which there is nothing to harm."""

NOT_PAUSED = "ConsumerNotPaused"
EMPTY = "NothingToProbe"
UNDELETED = "Undeleted"


ASIDE_COOLDOWNS = 3
"""Longest cooldowns for which a dead letter that failed as a canary is not tried again: were its
fault its own, it would keep the circuit open for as long as it is there, alone or with a few
like it."""


class ConsumerUnavailable(Exception):
    """The consumer was surely not given the letter: it says nothing of the dependency."""


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What the consumer made of a letter; with a proof it was processed and may go."""

    verdict: CanaryVerdict
    proof: Confirmation | None = None


class CanaryConsumer(Protocol):
    """The consumer of the main queue, given one letter directly."""

    def give(self, taken: ReceivedLetter, source_arn: str, permit: str) -> CanaryResult:
        """Have the letter processed under the permit; raises ConsumerUnavailable."""


class Health(Protocol):
    """Whoever can say without a letter whether the dependency works."""

    def is_well(self) -> bool: ...


class QueueCanary(Protocol):
    """A letter in hand that is to be the canary of a permit; `origin` and `attempt` name it."""

    @property
    def origin(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    def send(self) -> bool:
        """Move it to the main queue; False if it surely is where it was, and is given back."""

    def put_back(self) -> None:
        """Give it back unsent; raises nothing, for its lock ends by itself."""


class CanarySender(Protocol):
    """The way to a consumer that nobody can call: through the main queue, and by the ledger."""

    def take(self, key: str, owner: str, lock_seconds: float) -> QueueCanary | None:
        """A letter of this circuit as the canary of the permit's owner, if there is one.

        Raises what a CanarySource does, and LedgerUnavailable.
        """

    def verdict(self, origin: str, attempt: int) -> CanaryVerdict | None:
        """What became of a letter in this life, as far as anybody has said."""


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


class Prober:
    """What the probe function does in the execution of an outage.

    `answer_seconds` is how long the consumer may take, `sources` are tried in their order.
    Where there is a `post`, canaries go through the main queue instead, and a later probe
    asks what became of them. `clock` gives epoch seconds, `new_id` a text that nobody else
    has; `tell` is given the name of a figure and a number to count.
    """

    def __init__(
        self,
        *,
        breaker: Breaker,
        circuits: Circuits,
        sources: Sequence[CanarySource],
        consumer: CanaryConsumer,
        answer_seconds: float,
        health: Health | None,
        herald: CircuitAnnouncer,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        tell: Callable[[str, int], None],
        post: CanarySender | None = None,
    ) -> None:
        self._post = post
        self._breaker = breaker
        self._circuits = circuits
        self._sources = sources
        self._consumer = consumer
        self._answer_seconds = answer_seconds
        self._health = health
        self._herald = herald
        self._clock = clock
        self._new_id = new_id
        self._tell = tell

    def probe(self, course: Execution) -> ExecutionStep:
        """Take the permit, send one canary, and say what became of the circuit.

        One that is under way through the main queue is asked after instead.

        Where the canary could not be sent the permit is given back and the error raised:
        CircuitsUnavailable, ConsumerUnavailable, or one of a CanarySource's. A prober that
        dies leaves the permit to its lease.
        """
        if course.pause_failed:
            self._tell(NOT_PAUSED, 1)
        course = replace(course, probes=course.probes + 1)
        circuit = self._circuits.read([course.key])[course.key]
        if not course.runs(circuit):
            return course.goes(Next.HAND_OVER, circuit)
        if self._post is not None and circuit.permit is not None:
            circuit = self._ask_after(self._post, circuit, circuit.permit)
            return self._goes_on(course, circuit)
        moved = self._breaker.apply(course.key, PermitTaken(self._new_id()))
        circuit = moved.circuit
        if moved.refused is None and circuit.permit is not None:
            course, circuit = self._canary(course, circuit, circuit.permit)
        elif moved.refused is Refusal.LEASE_ENDED:
            circuit = self._lost(circuit)
        return self._goes_on(course, circuit)

    def _goes_on(self, course: Execution, circuit: Circuit) -> ExecutionStep:
        course = self._herald.say(course, circuit)
        if not course.runs(circuit):
            return course.goes(Next.HAND_OVER, circuit)
        if circuit.lets_through:
            return course.goes(Next.RESUME, circuit)
        wait = seconds_to_probe(circuit, self._clock())
        # There may be something to probe with after as long as it cooled down before.
        return course.goes(Next.PROBE, circuit, circuit.cooldown if course.empty else wait)

    def _answer(self, circuit: Circuit, owner: str, verdict: CanaryVerdict) -> Circuit:
        answer = CanaryAnswered(circuit.generation, owner, verdict)
        try:
            return self._breaker.apply(circuit.key, answer).circuit
        except CircuitsUnavailable:
            # It may have been written; then the second is refused, and shows what stands there.
            return self._breaker.apply(circuit.key, answer).circuit

    def _lost(self, circuit: Circuit) -> Circuit:
        return self._breaker.apply(circuit.key, CanaryLost(circuit.generation)).circuit

    def _canary(
        self, course: Execution, circuit: Circuit, permit: Permit
    ) -> tuple[Execution, Circuit]:
        try:
            if self._post is not None:
                # Sent at the very last moment that the lock allows, it can still be answered.
                left = permit.until - self._answer_seconds - self._clock()
                lock = LAST_SEND + max(0.0, min(left, LONGEST_FINDING))
                parcel = self._post.take(circuit.key, permit.owner, lock)
                if parcel is not None:
                    return replace(course, empty=0), self._mail(circuit, permit, parcel)
            for source in self._sources:
                taken = source.take(circuit.key, self._answer_seconds + LOCK_PAST_ANSWER)
                if taken is not None:
                    verdict = self._send(source, taken, permit)
                    circuit = self._answer(circuit, permit.owner, verdict)
                    return replace(course, empty=0), circuit
        except (
            ConsumerUnavailable,
            QueueUnavailable,
            RoomUnavailable,
            JournalUnavailable,
            RouterUnavailable,
            LedgerUnavailable,
        ):
            self._answer(circuit, permit.owner, CanaryVerdict.NEUTRAL)
            raise
        course, verdict = self._without_letter(replace(course, empty=course.empty + 1))
        return course, self._answer(circuit, permit.owner, verdict)

    def _mail(self, circuit: Circuit, permit: Permit, parcel: QueueCanary) -> Circuit:
        """The circuit with the canary on its way, or with the permit given back."""
        if not permit.lasts_for(self._answer_seconds, self._clock()):
            parcel.put_back()
            return self._answer(circuit, permit.owner, CanaryVerdict.NEUTRAL)
        sent = CanarySent(circuit.generation, permit.owner, parcel.origin, parcel.attempt)
        try:
            moved = self._breaker.apply(circuit.key, sent)
        except CircuitsUnavailable:
            parcel.put_back()
            raise
        if moved.refused is not None:
            # A person has spoken meanwhile.
            parcel.put_back()
            return moved.circuit
        if not parcel.send():
            raise QueueUnavailable("the canary could not be sent")
        return moved.circuit

    def _ask_after(self, post: CanarySender, circuit: Circuit, permit: Permit) -> Circuit:
        """The circuit by what the ledger says of the canary under way, or its lease."""
        if permit.origin is not None and permit.attempt is not None:
            verdict = post.verdict(permit.origin, permit.attempt)
            if verdict is not None:
                return self._answer(circuit, permit.owner, verdict)
        return self._lost(circuit)

    def _without_letter(self, course: Execution) -> tuple[Execution, CanaryVerdict]:
        self._tell(EMPTY, 1)
        if self._health is not None:
            well = self._health.is_well()
            return replace(
                course, empty=0
            ), CanaryVerdict.SUCCESS if well else CanaryVerdict.FAILURE
        enough = course.empty >= ENOUGH_EMPTY
        return course, CanaryVerdict.SUCCESS if enough else CanaryVerdict.NEUTRAL

    def _send(self, source: CanarySource, taken: ReceivedLetter, permit: Permit) -> CanaryVerdict:
        if not permit.lasts_for(self._answer_seconds, self._clock()):
            # This prober was held up: before an answer came another could send a canary.
            source.put_away(taken, CanaryResult(CanaryVerdict.FAILURE))
            return CanaryVerdict.NEUTRAL
        try:
            given = self._consumer.give(taken, source.arn, permit.owner)
        except ConsumerUnavailable:
            source.put_away(taken, CanaryResult(CanaryVerdict.FAILURE))
            raise
        try:
            gone = source.put_away(taken, given)
        except (QueueUnavailable, RoomUnavailable, JournalUnavailable):
            gone = False
        if given.proof is not None and not gone:
            # It will be seen again, and the consumer's claim tells that it was processed.
            self._tell(UNDELETED, 1)
        return given.verdict


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
        return next(iter(self._queue.take(1, math.ceil(lock_seconds), POLL_SECONDS)), None)

    def put_away(self, taken: ReceivedLetter, given: CanaryResult) -> bool:
        if given.proof is not None:
            return not self._queue.delete([(taken, given.proof)])
        if given.verdict is CanaryVerdict.FAILURE:
            self._queue.release([taken.handle])
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
                found = self._queue.take(1, math.ceil(lock_seconds), POLL_SECONDS)
                if not found:
                    return None
                passed_over += found
                if self._fits(found[0], key):
                    return passed_over.pop()
            return None
        finally:
            if passed_over:
                self._queue.release([one.handle for one in passed_over])

    def put_away(self, taken: ReceivedLetter, given: CanaryResult) -> bool:
        if given.proof is not None:
            return not self._queue.delete([(taken, given.proof)])
        if given.verdict is CanaryVerdict.FAILURE:
            # Behind the first of a FIFO group its others would wait as long.
            self._queue.hide([(taken.handle, 0 if self._fifo else self._aside)])
        return False

    def give_back(self, taken: ReceivedLetter) -> None:
        """Give a letter back at once, for nobody has tried it."""
        self._queue.release([taken.handle])

    def move(self, mover: Mover, order: Order, owner: str) -> bool:
        """Move a letter that was taken, as any is moved; False if it surely is here still."""
        slot = Slot(self._journal, f"canary.{owner}", owner)
        gone = _is_gone(mover.move_from_queue(self._queue, [order], slot), slot)
        if not gone:
            self.give_back(order.taken)
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
        touched = opens.proof_of(copy) is not None or opens.is_busy(copy)
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
        lane = f"circuit:{key}"
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
        touched = opens.proof_of(seat.copy) is not None or opens.is_busy(seat.copy)
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
    gone = not left or slot.stands
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
    verdict = one_each(answer, [copy]).get(copy)
    if verdict is None or not isinstance(verdict.decision, Hold):
        return None
    return verdict.stamp if verdict.decision.lane == f"circuit:{key}" else None
