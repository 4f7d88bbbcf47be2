"""What happens to a batch of messages before and after their handler runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Any

from deadletter.circuit.state import Circuits, CircuitsUnavailable, Outcomes
from deadletter.contract import Blame, Category, LedgerKeeps, Mode, Reason
from deadletter.failure.fate import UNBLAMED, Fate
from deadletter.failure.signals import (
    DependencyOpen,
    OutOfTime,
    Skip,
    is_message_failure,
    reject_deferred_result,
)
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, NotALetter
from deadletter.message.stamp import Stamp
from deadletter.processing import visibility
from deadletter.processing.circuit_gate import CircuitGate
from deadletter.processing.crew import Crew, InTurn, Task, check_concurrency, lanes
from deadletter.processing.delivery import (
    Delivery,
    Reader,
    Record,
    group_of,
    handle_of,
    id_of,
    receive_of,
)
from deadletter.processing.diagnosing import collided, diagnose
from deadletter.processing.guard import Guard
from deadletter.processing.idempotency import (
    ACCEPTED,
    Claim,
    Claims,
    ClaimsUnavailable,
    Standing,
)
from deadletter.processing.named_dependencies import DependencyCalls, refusal_in
from deadletter.processing.result import (
    BatchResult,
    CallOutcome,
    MessageResult,
    Trouble,
    Troubles,
    outcomes_of,
)
from deadletter.processing.visibility import FirstTries, Visibility
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from deadletter.failure.blame import TeamsWord
    from deadletter.failure.classify import Diagnosis
    from deadletter.failure.ledger import FailureLog
    from deadletter.message.queue import Queue
    from deadletter.processing.collisions import Collisions
    from deadletter.processing.history import History
    from deadletter.processing.key_order import KeyOrder
    from deadletter.processing.parking import Parking
    from deadletter.processing.sudden_causes import SuddenCauses
    from deadletter.processing.visibility import LastReceive
    from deadletter.routing.ordering import KeyPlace

FINISHING_SECONDS = 3.0
"""No message is begun within this time before the deadline, because results must still be
recorded and returned. At most a fifth of the time that the batch has in all."""

WAITING_SECONDS = 1.0
"""No message waits in place within this time before no message is begun any more."""

HANDLING_SHARE = 0.8
"""The part of the finishing time before the deadline at which no handler is waited for any more."""

CANCELLING_SHARE = 0.9
"""The part of the finishing time before the deadline at which an async handler is cancelled."""

RECORDING_SHARE = 0.6
"""The part of the finishing time before the deadline at which nothing more is recorded or hidden:
with three seconds the batch has ended a second before its deadline, whatever is slow."""

CALLS_AT_ONCE = 10
"""Calls at the end of a batch that are made at the same time."""

FEW_CALLS = 4
"""So few calls at the end of a batch are made one after the other, if there is time enough."""

LONGEST_CALL_SECONDS = 10.0
"""The longest that one call takes, with its retries: see `aws.clients`."""

HIDDEN_AT_ONCE = 10
"""Messages that one request hides."""

_RESERVED = f"the attribute {stamps.NAME} is reserved: give yours another name"

Reading = Delivery | Exception
"""What was read from a record: its delivery, or why it has no delivery."""

Lane = Callable[[Delivery], object]
"""What a message is handled in order with: the messages whose values are equal form one lane."""

Handle = Callable[[Delivery], object]
"""Processes one message. Returning means that it was processed; raising Skip that there is
nothing to do; anything else that it raises is the message's failure."""


def unhandled(_: Delivery) -> None:
    """The handler of a consumer that was given none: the message fails, and comes back."""
    raise LookupError("no handler was given for this message")


def _never() -> float:
    return math.inf


def _publish_nothing(_metric: str, _number: int) -> None:
    """For consumers whose results are read in the same process."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Consumer:
    """Guards, diagnoses and records what a handler does with the messages of one pipeline.

    `clock` gives epoch seconds, `new_id` a unique text, and `pause` waits for seconds; without
    `claims` nothing is guarded against being processed twice. `count_now` publishes a metric before
    the batch goes on.
    `version` is kept with each failure. `team` is what the team says of its own exceptions.
    `causes` says for which causes parking has stopped; without it every permanent failure is
    parked. `collisions` says whether a message that collides with another one is parked; without it
    such a message is processed. `order` keeps the messages of an ordering key in order.
    `first_tries` remembers how the process has fared with the messages before.
    `last_receive` knows which receive is a message's last one; without it a message that fails is
    hidden after its last receive too.
    `crew` makes threads for messages that are handled at the same time; without it one follows
    the other. With `bounded` it makes one for a single handler too, so that no handler outlives
    its batch. `replace` gives it another handler.

    What happens to a message if a step fails:

    claim           not processed, comes back: an effect that cannot be guarded is not risked
    line of a key   not processed, comes back: an effect out of its order is not risked
    handler         its failure is recorded, and it comes back or is parked
    done            stays acknowledged, because its effect has happened
    ledger          nothing but a gap in its history
    parking         comes back, and ends in the DLQ, from which it is parked
    visibility      comes back when the queue's own timeout ends
    our own bug     comes back, and no other message of the batch does
    """

    pipeline: Pipeline
    handle: Handle = unhandled
    log: FailureLog
    claims: Claims | None
    circuits: Circuits
    outcomes: Outcomes
    queue: Visibility
    parking: Mapping[str, Queue]
    trusted_senders: frozenset[str]
    version: str = ""
    clock: Callable[[], float]
    random: Random
    new_id: Callable[[], str]
    pause: Callable[[float], None]
    count_now: Callable[[str, int], None] = _publish_nothing
    team: TeamsWord | None = None
    # The circuits of the dependencies that the handler has named so far in this process, and the
    # calls of the last batch.
    named: dict[str, int] = field(default_factory=dict)
    # When this process has found circuits calm.
    calm: dict[str, float] = field(default_factory=dict)
    # Why messages of this process had not the key that the pipeline names, as far as it is said.
    keyless: set[str] = field(default_factory=set)
    causes: SuddenCauses | None = None
    crew: Crew | None = None
    bounded: bool = False
    collisions: Collisions | None = None
    order: KeyOrder | None = None
    last_receive: LastReceive | None = None
    first_tries: FirstTries = field(default_factory=FirstTries)

    def __post_init__(self) -> None:
        # A function with unreadable settings must not run at all.
        self.reader()

    def process(
        self,
        records: Sequence[Record],
        *,
        deadline: float,
        permit: str | None = None,
        run: str | None = None,
        concurrency: int = 1,
        lane: Lane | None = None,
        cut: Callable[[], float] | None = None,
        execution: str = "",
        request_id: str = "",
    ) -> BatchResult:
        """Process each record with the handler. A failing message raises nothing.

        `deadline` is when the process ends (epoch seconds): nothing is begun or waited for that
        would pass it, and what is left is given back. `cut` gives an earlier deadline, which may
        come up while the batch runs. With a canary's `permit` the probe alone judges, and with
        the id of a replay `run` that run: no message is refused, reported to the circuit, hidden
        or parked.

        So many handlers as `concurrency` says (1 to MOST_AT_ONCE) run at the same time, each
        message in one thread. The messages of one `lane` are handled one after the other, in
        their order; without it each message is a lane. On a FIFO queue the lane is the group,
        whatever is asked. The results are in the records' order. With a concurrency of 1 the
        records are handled in their order, in the caller's thread. `execution` names the durable
        execution that calls: resumed, it finds its own claims.
        `request_id` is the id of the Lambda invocation, which each failure of the batch keeps.

        Raises ValueError for another concurrency.
        """
        check_concurrency(concurrency)
        is_direct = permit is not None or run is not None
        batch = _Batch(self, deadline, is_direct, cut or _never, execution, request_id)
        result = batch.run(records, concurrency, lane)
        return replace(result, canary=permit is not None, run=run or "")

    def reader(self) -> Reader:
        """The reader of this pipeline's records; raises BadSettings."""
        return Reader(self.pipeline, self.trusted_senders, self.clock)


def finishing_seconds(seconds: float) -> float:
    """How long before its deadline a batch that has `seconds` in all begins no message."""
    return min(FINISHING_SECONDS, seconds / 5)


@dataclass(slots=True, eq=False, repr=False)
class _Batch:
    """One batch while it is processed; `direct` says that a probe or a replay run sent it."""

    consumer: Consumer
    last_deadline: float
    direct: bool
    cut: Callable[[], float]
    execution: str
    request_id: str
    started: float = field(init=False)
    troubles: Troubles = field(init=False)
    gate: CircuitGate = field(init=False)
    guard: Guard = field(init=False)
    # One number for each recovered letter: its re-drives.
    recovered: list[int] = field(default_factory=list)
    # Whether the batch has returned its results: from then on no handler is begun.
    closed: bool = False
    results: list[MessageResult | None] = field(default_factory=list)
    # The positions of the messages that were begun.
    begun: set[int] = field(default_factory=set)
    lock: Any = field(default_factory=Lock, repr=False)
    # The messages that others of their ordering key wait for already.
    listed: set[str] = field(default_factory=set)
    # The FIFO groups that go no further, with the seconds that the rest of each waits.
    stopped_groups: dict[str, float | None] = field(default_factory=dict)
    readings: list[tuple[Record, Reading | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.started = self.consumer.clock()
        self.troubles = Troubles(self.started)
        self.gate = CircuitGate(
            pipeline=self.consumer.pipeline,
            circuits=self.consumer.circuits,
            outcomes=self.consumer.outcomes,
            troubles=self.troubles,
            clock=self.consumer.clock,
            random=self.consumer.random,
            direct=self.direct,
            named=self.consumer.named,
            calm=self.consumer.calm,
            pause=self.consumer.pause,
            waits_until=lambda: self.last_start - WAITING_SECONDS,
        )
        self.guard = Guard(
            claims=self.consumer.claims,
            new_id=self.consumer.new_id,
            deadline=self.last_deadline,
            troubles=self.troubles,
            execution=self.execution,
        )

    @property
    def deadline(self) -> float:
        """When the process ends, as it is known now (epoch seconds)."""
        return min(self.last_deadline, self.cut())

    @property
    def last_start(self) -> float:
        """When it is too late to begin another message (epoch seconds)."""
        return self.deadline - self._finishing_seconds

    @property
    def last_wait(self) -> float:
        """When no handler is waited for any more (epoch seconds)."""
        return self.deadline - HANDLING_SHARE * self._finishing_seconds

    @property
    def last_record(self) -> float:
        """When it is too late to record or hide anything (epoch seconds)."""
        return self.deadline - RECORDING_SHARE * self._finishing_seconds

    @property
    def _finishing_seconds(self) -> float:
        return finishing_seconds(self.deadline - self.started)

    @property
    def _is_late(self) -> bool:
        """Whether no handler may be begun any more."""
        return self.closed or self.consumer.clock() >= self.last_start

    def run(
        self, records: Sequence[Record], concurrency: int = 1, lane: Lane | None = None
    ) -> BatchResult:
        reader = self.consumer.reader()
        self.readings = [
            (record, None if self._is_late else _read(reader, record)) for record in records
        ]
        self.gate.expect(reading for _, reading in self.readings if isinstance(reading, Delivery))
        self.results = [None] * len(records)
        order = self._order()
        keys = [self._lane_of(*self.readings[position], lane) for position in order]
        tasks = [
            partial(self._process_lane, [order[each] for each in positions])
            for positions in lanes(keys, concurrency)
        ]
        in_threads = concurrency > 1 or self.consumer.bounded
        crew = self.consumer.crew if in_threads else None
        (crew or InTurn(self.consumer.clock)).work(
            tasks,
            at_once=concurrency,
            until=(lambda: self.last_wait) if in_threads else _never,
        )
        results = self._close()
        self._finish(results)
        return BatchResult(tuple(results), self.troubles.noticed, tuple(self.recovered))

    def _order(self) -> Sequence[int]:
        """The positions of the messages as they are handled: those of an ordering key in order."""
        if self.consumer.order is None or self.consumer.pipeline.fifo:
            return range(len(self.readings))
        from deadletter.processing.key_order import arranged

        return arranged([_place(reading) for _, reading in self.readings])

    def _lane_of(self, record: Record, reading: Reading | None, lane: Lane | None) -> object:
        """What a message is handled in order with; None if it is handled for itself."""
        if self.consumer.pipeline.fifo:
            return group_of(record) or None
        if lane is None or not isinstance(reading, Delivery):
            place = _place(reading)
            return place and place.line
        return lane(reading)

    def _process_lane(self, positions: Sequence[int]) -> None:
        for position in positions:
            if self.closed:
                return
            self.begun.add(position)
            result = self._process(*self.readings[position])
            with self.lock:
                if not self.closed:
                    self.results[position] = result

    def _close(self) -> list[MessageResult]:
        """The results, once no handler is waited for any more: what follows changes none."""
        with self.lock:
            self.closed = True
            results = list(self.results)
        return [
            self._left(position) if result is None else result
            for position, result in enumerate(results)
        ]

    def _left(self, position: int) -> MessageResult:
        """The result of a message that has none: its handler still runs, or was not begun."""
        record, _ = self.readings[position]
        message_id = id_of(record)
        if position in self.begun:
            return MessageResult(message_id, Fate.UNFINISHED)
        return MessageResult(message_id, Fate.LATE, wait=0.0)

    def _finish(self, results: Sequence[MessageResult]) -> None:
        """Report, hide and record: as much as there is time for.

        Every handler has run: no slow table may bring the whole batch back.
        """
        tasks: list[Task] = [self._report]
        tasks += [partial(self.guard.tell_again, *each) for each in self.guard.untold]
        if not self.direct:
            tasks += self._hidings(results)
            tasks += self._untried(results)
        time_left = self.last_record - self.consumer.clock()
        crew = self.consumer.crew
        if crew is None or (len(tasks) <= FEW_CALLS and time_left > LONGEST_CALL_SECONDS):
            self._report()
            tasks, crew = tasks[1:], InTurn(self.consumer.clock)
        crew.work(tasks, at_once=CALLS_AT_ONCE, until=lambda: self.last_record)

    def _report(self) -> None:
        with self._counting():
            self.gate.report()
        causes = self._causes
        if causes is not None and self.consumer.clock() < self.last_record:
            with self._counting():
                causes.report()
        collisions = self.consumer.collisions
        if collisions is not None and self.consumer.clock() < self.last_record:
            with self._counting():
                collisions.report()

    def _process(self, record: Record, reading: Reading | None) -> MessageResult:
        message_id = id_of(record)
        group = group_of(record) if self.consumer.pipeline.fifo else ""
        if group and group in self.stopped_groups:
            return MessageResult(message_id, Fate.HELD_BACK, wait=self.stopped_groups[group])
        try:
            result = self._deliver(record, reading)
        except Exception as error:
            # A bug of the library, not the handler's error: this message alone comes back.
            diagnosis = self._diagnose(error, _letter(reading), self.consumer.clock())
            result = MessageResult(message_id, Fate.BROKEN, diagnosis, error=error)
        if isinstance(reading, Delivery):
            with self._counting(message_id):
                self.gate.count(reading, result.outcomes)
            if result.is_logged:
                result = replace(result, origin=reading.stamp.origin, trace=reading.letter.trace)
        if group and not result.acknowledged and not self._dies(record, result):
            self.stopped_groups[group] = result.wait
        return result

    def _deliver(self, record: Record, reading: Reading | None) -> MessageResult:
        if reading is None or self._is_late:
            return MessageResult(id_of(record), Fate.LATE, wait=0.0)
        if isinstance(reading, NotALetter):
            return self._unreadable(record, reading)
        if isinstance(reading, Exception):
            raise reading
        message_id = reading.letter.message_id
        if reading.forged:
            self.troubles.notice(message_id, Trouble.FORGED, _RESERVED)
        if why := reading.key.missing:
            is_new = why not in self.consumer.keyless
            self.consumer.keyless.add(why)
            self.troubles.notice(message_id, Trouble.NO_KEY, why if is_new else "")
        wait = self.gate.wait(reading)
        if wait is not None:
            return MessageResult(message_id, Fate.REFUSED, wait=wait)
        try:
            claim = self.guard.claim(reading.key, message_id)
        except ClaimsUnavailable as error:
            diagnosis = diagnose(error, None, now=self.started)
            return MessageResult(message_id, Fate.UNGUARDED, diagnosis)
        if claim is not None and claim.standing is Standing.BUSY:
            wait = self.guard.seconds_busy(claim, self.consumer.clock())
            return MessageResult(message_id, Fate.BUSY, wait=wait)
        self._count_claim(message_id, claim)
        if claim is not None and claim.standing is Standing.DUPLICATE:
            # The process that handled it may have died before it recorded the recovery.
            self._record_recovery(reading, Fate.DUPLICATE, same_life=claim.same_life)
            return MessageResult(message_id, Fate.DUPLICATE, same_life=claim.same_life)
        if claim is not None and reading.place is not None and self.consumer.order is not None:
            out_of_turn = self._out_of_turn(reading, reading.place, claim, self.consumer.order)
            if out_of_turn is not None:
                return out_of_turn
        if self._is_late:
            # Reading the circuits or claiming has taken all the time that was left.
            self.guard.withdraw(message_id, claim, tried=False)
            return MessageResult(message_id, Fate.LATE, wait=0.0)
        if claim is not None and claim.collision:
            parked = self._park_collision(reading, claim)
            if parked is not None:
                return parked
        tries = 1 if claim is None else claim.tries
        delivery = reading if tries == 1 else replace(reading, tries=tries)
        calls = DependencyCalls(
            wait_for=lambda key: self.gate.wait_for(delivery, key),
            team=self.consumer.team,
            clock=self.consumer.clock,
        )
        result = self._handle(delivery, claim, calls)
        with self._counting(message_id):
            own = self._own_outcomes(delivery, result, calls.own_seconds)
            return replace(result, outcomes=self.gate.shown((*calls.outcomes, *own)))
        return result

    def _out_of_turn(
        self, delivery: Delivery, place: KeyPlace, claim: Claim, order: KeyOrder
    ) -> MessageResult | None:
        """What becomes of a message that another one of its ordering key keeps from its handler.

        None if it is its turn.
        """
        from deadletter.processing.key_order import Turn
        from deadletter.routing.line import LinesUnavailable

        message_id, wait, diagnosis = delivery.letter.message_id, None, None
        # A replay run and a FIFO group keep an order of their own.
        passes = delivery.stamp.run is not None or self.consumer.pipeline.fifo
        until = self.last_start - WAITING_SECONDS
        try:
            place = replace(self._own(place, delivery, order), claim=claim.key)
            turn = order.turn(place, claim, passes=passes, until=until)
            if turn in (Turn.BEHIND, Turn.BUSY):
                # Now: others of its key may come while the rest of the batch is handled.
                order.wait(place)
                self.listed.add(message_id)
        except LinesUnavailable as error:
            fate, diagnosis = Fate.UNGUARDED, diagnose(error, None, now=self.started)
        else:
            if turn is Turn.NOW:
                return None
            if turn is Turn.SUPERSEDED:
                # Not done: its claim says what was processed.
                self.guard.withdraw(message_id, claim, tried=False)
                self._history().superseded(delivery)
                return MessageResult(message_id, Fate.SUPERSEDED)
            fate = Fate.BEHIND if turn is Turn.BEHIND else Fate.BUSY
            wait = self._wait_for_others(delivery.record)
        self.guard.withdraw(message_id, claim, tried=False)
        return MessageResult(message_id, fate, diagnosis, wait)

    def _own(self, place: KeyPlace, delivery: Delivery, order: KeyOrder) -> KeyPlace:
        """The place of a message that may have lost its stamp: without it, it would wait for the
        failure of its own life before.
        """
        if not delivery.may_have_lost_its_stamp:
            return place
        stamp = self._history().known_stamp(delivery)
        if stamp is None:
            from deadletter.routing.line import LinesUnavailable

            raise LinesUnavailable("the ledger did not say which message it is")
        return order.place_by(stamp, delivery) or place

    def _handle(
        self, delivery: Delivery, claim: Claim | None, calls: DependencyCalls
    ) -> MessageResult:
        try:
            with calls.recording():
                reject_deferred_result(self.consumer.handle(delivery))
        except Skip:
            return self._processed(delivery, claim, Fate.SKIPPED)
        except OutOfTime as error:
            if error.ended:
                self.guard.withdraw(delivery.letter.message_id, claim)
            return MessageResult(delivery.letter.message_id, Fate.UNFINISHED, error=error)
        except BaseException as error:
            if not is_message_failure(error):
                raise
            refusal = refusal_in(error)
            if refusal is not None:
                return self._refused(delivery, claim, refusal, error)
            return self._failed(delivery, claim, error, calls.circuit_of(error))
        return self._processed(delivery, claim, Fate.PROCESSED)

    def _own_outcomes(
        self, delivery: Delivery, result: MessageResult, seconds: float
    ) -> tuple[CallOutcome, ...]:
        """What the handler's work outside of named dependencies shows of the letter's circuit."""
        own = self.gate.keys(delivery)[-1]
        if result.fate is Fate.PROCESSED:
            return outcomes_of(own, None, seconds)
        if result.fate is not Fate.FAILED or result.diagnosis is None or result.circuit:
            return ()
        diagnosis = result.diagnosis
        return outcomes_of(own, diagnosis.blame, seconds, throttled=diagnosis.throttled)

    def _processed(self, delivery: Delivery, claim: Claim | None, fate: Fate) -> MessageResult:
        """The effect has happened: no error from here on may let it happen again."""
        message_id = delivery.letter.message_id
        self.guard.done(message_id, claim)
        if receive_of(delivery.record) == 1:
            self.consumer.first_tries.tried(failed=False)
        if (causes := self._causes) is not None:
            with self._counting(message_id):
                causes.processed(receive_of(delivery.record), delivery.stamp)
        self._record_recovery(delivery, fate)
        return MessageResult(message_id, fate)

    def _refused(
        self,
        delivery: Delivery,
        claim: Claim | None,
        refusal: DependencyOpen,
        error: BaseException,
    ) -> MessageResult:
        """The circuit of a named dependency is open: the letter waits, and was not tried."""
        message_id = delivery.letter.message_id
        self.guard.withdraw(message_id, claim)
        return MessageResult(
            message_id,
            Fate.REFUSED,
            wait=refusal.retry_after,
            error=error,
            circuit=refusal.circuit,
        )

    def _failed(
        self, delivery: Delivery, claim: Claim | None, error: BaseException, circuit: str
    ) -> MessageResult:
        letter, now = delivery.letter, self.consumer.clock()
        tried = not getattr(error, "without_effect", False)
        if self.closed:
            # The batch has given the message back: it may be elsewhere by now, and is not parked.
            self.guard.withdraw(letter.message_id, claim, tried=tried)
            return MessageResult(letter.message_id, Fate.UNFINISHED, error=error)
        diagnosis = self._diagnose(error, letter, now, self.consumer.team, circuit)
        history = self._history()
        known_stamp = history.known_stamp(delivery)
        stamp = known_stamp or delivery.stamp
        if (causes := self._causes) is not None:
            with self._counting(letter.message_id):
                causes.failed(receive_of(delivery.record), stamp, diagnosis)
        # A dependency that is waited for, as a webhook endpoint in its pause, was not called.
        waits = diagnosis.category is Category.TRANSIENT and getattr(error, "untried", False)
        facts = delivery.record, stamp, diagnosis, delivery, now, circuit
        tell = partial(history.failed, *facts, blameless=waits)
        is_ours = self._gives_back(letter.message_id, claim, tell, tried=tried)
        receive = receive_of(delivery.record)
        if is_ours and known_stamp is not None and self._parks(diagnosis, receive):
            words = f": {diagnosis.message}" if diagnosis.message else ""
            because = f"failed for good ({diagnosis.category}: {diagnosis.error_type}{words})"
            category = str(diagnosis.category)
            if self._park(delivery, known_stamp, Reason.PERMANENT, because, category):
                return MessageResult(letter.message_id, Fate.PARKED, diagnosis, error=error)
            self._take_back(delivery, stamp, diagnosis, circuit)
        wait = self._wait_after_failure(delivery.record, diagnosis)
        return MessageResult(letter.message_id, Fate.FAILED, diagnosis, wait, error, circuit)

    def _gives_back(self, message_id: str, claim: Claim | None, tell: Task, *, tried: bool) -> bool:
        """Tell of a failure, and let the next receive process the message.

        False if a newer owner has the message. It is told first, so that a process that ends
        between the two leaves a claim which others wait for. But one that has slept beyond its
        deadline tells nothing if it has lost its claim: its word would come after the message's
        end, and hold up those behind it.
        """
        may_be_lost = self.consumer.clock() >= self.guard.deadline
        if may_be_lost and not self.guard.withdraw(message_id, claim, tried=tried):
            return False
        tell()
        return may_be_lost or self.guard.withdraw(message_id, claim, tried=tried)

    def _unreadable(self, record: Record, error: NotALetter) -> MessageResult:
        message_id, now = id_of(record), self.consumer.clock()
        diagnosis = self._diagnose(error, None, now)
        if message_id:
            self._history().failed(record, Stamp(message_id), diagnosis, None, now)
        wait = self._wait_after_failure(record, diagnosis)
        return MessageResult(message_id, Fate.FAILED, diagnosis, wait, error)

    def _diagnose(
        self,
        error: BaseException,
        letter: Letter | None,
        now: float,
        team: TeamsWord | None = None,
        circuit: str = "",
    ) -> Diagnosis:
        """The diagnosis of one message's failure, without its text if the pipeline keeps none."""
        diagnosis = diagnose(error, letter, now=now, team=team, dependency=circuit)
        if self.consumer.pipeline.ledger is LedgerKeeps.NONE:
            return replace(diagnosis, message="")
        return diagnosis

    # The ledger.

    def _history(self) -> History:
        from deadletter.processing.history import History

        return History(
            log=self.consumer.log,
            gate=self.gate,
            troubles=self.troubles,
            clock=self.consumer.clock,
            request_id=self.request_id,
            version=self.consumer.version,
        )

    def _record_recovery(self, delivery: Delivery, fate: Fate, *, same_life: bool = False) -> None:
        if delivery.may_have_been_dead:
            attempts = self._history().recovered(delivery, fate, same_life=same_life)
            if attempts is not None:
                with self.lock:
                    self.recovered.append(attempts)
        elif receive_of(delivery.record) > 1:
            self._history().no_longer_fails(delivery)

    def _untried(self, results: Sequence[MessageResult]) -> list[Task]:
        """Record the messages that were given back untried, as many as there is time for.

        The response matters more: if the process is killed before it returns, the processed
        messages come back too.
        """
        left = [
            (record, reading if isinstance(reading, Delivery) else None, result)
            for (record, reading), result in zip(self.readings, results, strict=True)
            if result.message_id and result.fate in UNBLAMED and reading is not None
        ]
        return [partial(self._record_untried, *each) for each in left]

    def _record_untried(
        self, record: Record, delivery: Delivery | None, result: MessageResult
    ) -> None:
        order, place = self.consumer.order, _place(delivery)
        is_listed = result.message_id in self.listed
        if order is not None and delivery is not None and place is not None and not is_listed:
            from deadletter.routing.line import LinesUnavailable

            with self.troubles.noticing(LinesUnavailable, Trouble.CLAIMS, result.message_id):
                # It has claimed nothing: a claim under its key may be another message's.
                order.wait(replace(self._own(place, delivery, order), claim=""))
        self._history().untried(record, delivery, result)

    # Collisions.

    def _count_claim(self, message_id: str, claim: Claim | None) -> None:
        collisions = self.consumer.collisions
        if claim is not None and collisions is not None and not self.direct:
            with self._counting(message_id):
                collisions.seen(claim)

    def _park_collision(self, delivery: Delivery, claim: Claim) -> MessageResult | None:
        """Park a message whose key belongs to a processed message that differs from it.

        Returns None if it is processed beside the other one: in the first day of a pipeline,
        while many collide, or if a person has accepted that it collides.
        """
        from deadletter.processing.payload import listed

        message_id = delivery.letter.message_id
        differences = claim.differences
        paths = "" if differences is None else f"differs in {listed(differences)}"
        self.troubles.notice(message_id, Trouble.COLLISION, paths)
        collisions, parks = self.consumer.collisions, False
        # Nothing is known of the other one if it was stored under another setting.
        if collisions is not None and differences is not None and self._enforces:
            with self._counting(message_id):
                parks = collisions.parks()
        if not parks:
            return None
        history = self._history()
        known_stamp = history.known_stamp(delivery)
        if known_stamp is not None and known_stamp.accept == ACCEPTED:
            return None
        if self.closed:
            # The batch has given the message back: it may be elsewhere by now, and is not parked.
            self.guard.withdraw(message_id, claim, tried=False)
            return MessageResult(message_id, Fate.UNFINISHED)
        diagnosis, now = collided(paths), self.consumer.clock()
        stamp = known_stamp or delivery.stamp
        tell = partial(history.failed, delivery.record, stamp, diagnosis, delivery, now)
        is_ours = self._gives_back(message_id, claim, tell, tried=False)
        if is_ours and known_stamp is not None and not self.direct:
            because = f"another message with its idempotency key was processed; it {paths}"
            if self._park(delivery, known_stamp, Reason.KEY_CONFLICT, because):
                return MessageResult(message_id, Fate.PARKED, diagnosis)
            self._take_back(delivery, stamp, diagnosis)
        wait = self._wait_after_failure(delivery.record, diagnosis)
        return MessageResult(message_id, Fate.FAILED, diagnosis, wait)

    # Parking.

    def _parks(self, diagnosis: Diagnosis, receive: int) -> bool:
        """Whether the letter is parked at once; its probe or its run moves it otherwise."""
        if not self._enforces or self.direct or not diagnosis.category.course.is_permanent:
            return False
        causes = self._causes
        return causes is None or causes.may_park(diagnosis.fingerprint, receive)

    @property
    def _enforces(self) -> bool:
        """Whether messages are parked: mode observe moves nothing."""
        return self.consumer.pipeline.mode is Mode.ENFORCE

    def _park(
        self,
        delivery: Delivery,
        stamp: Stamp,
        reason: Reason,
        because: str,
        category: str | None = None,
    ) -> bool:
        """Park a letter and record it; False if it comes back.

        In an ordering key the record comes first: the messages behind it go on by its word. The
        run of a replayed letter takes that for the letter's end, and is told afterwards.
        """
        history, is_first = self._history(), self.consumer.order is not None
        is_parked = self._parking().park(
            delivery,
            stamp,
            reason,
            because,
            category,
            told=lambda: not is_first or history.parked(delivery, stamp, reason, ahead=True),
        )
        if is_parked and (not is_first or stamp.run is not None):
            history.parked(delivery, stamp, reason)
        return is_parked

    def _take_back(
        self, delivery: Delivery, stamp: Stamp, diagnosis: Diagnosis, circuit: str = ""
    ) -> None:
        """Write the failure of a letter anew that comes back, although it may be said to be parked:
        the messages of its key wait for it again.
        """
        if self.consumer.order is not None:
            now, history = self.consumer.clock(), self._history()
            history.failed(delivery.record, stamp, diagnosis, delivery, now, circuit, anew=True)

    def _parking(self) -> Parking:
        # Loaded with the first message that is parked.
        from deadletter.processing.parking import Parking

        return Parking(
            names=self.consumer.pipeline.parking,
            lots=self.consumer.parking,
            guard=self.guard,
            troubles=self.troubles,
            clock=self.consumer.clock,
            count_now=self.consumer.count_now,
        )

    def _counting(self, message_id: str = "") -> AbstractContextManager[None]:
        """Suppress and note every error of counting: it must not decide a message's end."""
        return self.troubles.noticing(CircuitsUnavailable, Trouble.CIRCUITS, message_id)

    @property
    def _causes(self) -> SuddenCauses | None:
        """The counts of causes; None for a letter that its probe or its run alone judges."""
        return None if self.direct else self.consumer.causes

    # Visibility.

    def _wait_after_failure(self, record: Record, diagnosis: Diagnosis) -> float | None:
        if self.direct:
            return None
        backoff, random = self.consumer.pipeline.retry, self.consumer.random
        receive, last = receive_of(record), self.consumer.last_receive
        is_own = diagnosis.blame is Blame.NEITHER
        if receive == 1 and not is_own:
            self.consumer.first_tries.tried(failed=True)
        if last is not None and last.is_it(receive):
            # It goes to the DLQ as soon as it is visible, and its backoff begins there.
            return min(diagnosis.retry_after or 0.0, backoff.cap)
        if (causes := self._causes) is not None:
            again = causes.again_after(diagnosis.fingerprint, random)
            if again is not None:
                return again
        is_permanent = diagnosis.category.course.is_permanent
        has_time = diagnosis.retry_after is not None
        is_poison = is_own and not has_time
        if self.consumer.pipeline.fifo and is_poison and not (is_permanent and receive == 1):
            return random.uniform(*visibility.HEAD_OF_LINE)
        # What fails by its own fault loads no sick dependency.
        in_trouble = self.consumer.first_tries.show_trouble and not (is_own or has_time)
        if is_permanent or in_trouble:
            # Not parked, or not yet; or one of many: no time is better than the queue's own.
            return None
        return visibility.after_failure(backoff, receive, diagnosis.retry_after, random)

    def _wait_for_others(self, record: Record) -> float:
        """Seconds until a message is received again that waits for another one of its key."""
        backoff, receive = self.consumer.pipeline.retry, receive_of(record)
        last = self.consumer.last_receive
        if last is not None and last.is_it(receive):
            # It goes on waiting where no receive is counted.
            return 0.0
        # It asks nothing of a dependency, and each receive that is too early brings it nearer to
        # the DLQ: no jitter.
        return backoff.ceiling(receive)

    def _dies(self, record: Record, result: MessageResult) -> bool:
        """Whether SQS moves the message to the DLQ next, for a fault of its own.

        Then it holds up no other of its group: held back, they would lose the same receive, and a
        row of poison would take all behind it along.
        """
        diagnosis, last = result.diagnosis, self.consumer.last_receive
        if self.direct or result.fate is not Fate.FAILED or result.wait != 0.0:
            return False
        is_own = diagnosis is not None and diagnosis.blame is Blame.NEITHER
        return is_own and last is not None and last.is_it(receive_of(record))

    def _hidings(self, results: Sequence[MessageResult]) -> list[Task]:
        """Hide the messages that wait; those that may come back at once are the last."""
        elapsed = self.consumer.clock() - self.started
        waits = [
            (handle, visibility.in_reach(result.wait, elapsed))
            for (record, _), result in zip(self.readings, results, strict=True)
            if result.wait is not None and (handle := handle_of(record))
        ]
        waits.sort(key=lambda wait: wait[1] == 0)
        return [
            partial(self._hide, waits[start : start + HIDDEN_AT_ONCE])
            for start in range(0, len(waits), HIDDEN_AT_ONCE)
        ]

    def _hide(self, waits: Sequence[tuple[str, int]]) -> None:
        from deadletter.message.queue import QueueUnavailable

        with self.troubles.noticing(QueueUnavailable, Trouble.NOT_HIDDEN):
            for _ in range(self.consumer.queue.hide(waits)):
                self.troubles.notice("", Trouble.NOT_HIDDEN)


def _read(reader: Reader, record: Record) -> Reading:
    """The delivery in a record, or the error: a bad record must not fail the other messages."""
    try:
        return reader.read(record)
    except Exception as error:
        return error


def _place(reading: Reading | None) -> KeyPlace | None:
    return reading.place if isinstance(reading, Delivery) else None


def _letter(reading: Reading | None) -> Letter | None:
    return reading.letter if isinstance(reading, Delivery) else None
