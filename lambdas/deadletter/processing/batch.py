"""What happens to a batch of messages around their own handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

from deadletter.circuit.state import Circuit, Circuits, CircuitsUnavailable, Outcomes
from deadletter.contract import DEFAULT_PARKING, Reason
from deadletter.failure.classify import Diagnosis, diagnose
from deadletter.failure.failure import PERMANENT, Category, Failure
from deadletter.failure.fate import GIVEN_BACK, UNBLAMED, Evidence, Fate
from deadletter.failure.ledger import FailureLog, LedgerUnavailable, RecordsUnavailable
from deadletter.failure.signals import Skip, is_message_failure, reject_deferred_result
from deadletter.message.envelope import seal
from deadletter.message.letter import Letter, NotALetter, from_event
from deadletter.message.queue import Queue, QueueUnavailable
from deadletter.message.stamp import Stamp
from deadletter.processing import visibility
from deadletter.processing.delivery import (
    Delivery,
    Reader,
    group_of,
    handle_of,
    id_of,
    queue_of,
    receive_of,
)
from deadletter.processing.idempotency import (
    BusinessKey,
    Claim,
    Claims,
    ClaimsUnavailable,
    Standing,
)
from deadletter.processing.result import BatchResult, MessageResult, NoticedTrouble, Trouble
from deadletter.settings.pipeline import Pipeline

LEASE_MARGIN = 5.0
"""Seconds that a claim outlasts its batch: clocks differ, and the process ends at its deadline."""

FAREWELL = 1.0
"""Seconds before the deadline from which on no further message is begun: what was done has to
be written down and answered. Of a batch that has little time at all, only a fifth."""


Record = Mapping[str, Any]
Handle = Callable[[Delivery], object]
"""Processes one message. Returning means that it was processed; Skip that there is nothing to
do; whatever else it raises is its failure."""


def unhandled(_: Delivery) -> None:
    """What a consumer does that was given no handler: the message fails, and comes back."""
    raise LookupError("no handler was given for this message")


class Visibility(Protocol):
    """A queue whose messages can be kept hidden. It never raises."""

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide messages, by receipt handle, for seconds from now; how many it failed for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """Guards, diagnoses and records what a handler does with the messages of one pipeline.

    `clock` gives epoch seconds, `new_id` a text that nobody else has; without `claims`
    nothing is guarded against being processed twice. `replace` gives it another handler.

    What happens to a message if something here fails:

    claim           it is not processed, and comes back: what can't be guarded isn't risked
    handler         its failure is recorded, and it comes back, or is parked
    done            it stays acknowledged, for its effect has happened
    ledger          nothing but a gap in its history
    parking         it comes back, and ends in the DLQ, from which it is parked
    visibility      it comes back when the queue says so
    our own bug     it comes back, it alone
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
    clock: Callable[[], float]
    random: Random
    new_id: Callable[[], str]

    def __post_init__(self) -> None:
        # A function that misread its own settings must not run at all.
        self.reader()

    def process(
        self, records: Sequence[Record], *, deadline: float, permit: str | None = None
    ) -> BatchResult:
        """Hand each record to the handler and say what became of it; never raises for one.

        `deadline` is when the process is over (epoch seconds). A canary's `permit` leaves
        all judging to its probe: then nothing is refused, reported to the circuit, hidden
        or parked.
        """
        return _Batch(self, deadline, canary=permit is not None).run(records)

    def reader(self) -> Reader:
        """What reads this pipeline's records; raises BadSettings."""
        return Reader(self.pipeline, self.trusted_senders, self.clock)


def process_unguarded(
    records: Sequence[Record], handle: Callable[[Record], object], now: float
) -> BatchResult:
    """What is left when all of it is switched off: the handler, and partial batch failures.

    The order of a FIFO group is kept all the same.
    """
    handlings: list[MessageResult] = []
    stopped: set[str] = set()
    for record in records:
        message_id, group = id_of(record), group_of(record)
        if group in stopped:
            handlings.append(MessageResult(message_id, Fate.HELD_BACK))
            continue
        # Read before the handler has it: it may rewrite its record.
        queue, letter = queue_of(record), _letter_in(record)
        try:
            reject_deferred_result(handle(record))
        except Skip:
            handlings.append(MessageResult(message_id, Fate.SKIPPED))
        except BaseException as error:
            if not is_message_failure(error):
                raise
            said = diagnose(error, letter, now=now)
            handlings.append(MessageResult(message_id, Fate.FAILED, said, error=error))
            if group and queue.endswith(".fifo"):
                stopped.add(group)
        else:
            handlings.append(MessageResult(message_id, Fate.PROCESSED))
    return BatchResult(tuple(handlings))


@dataclass(slots=True)
class _Batch:
    """One batch on its way through; `canary` says that a probe sent it."""

    consumer: Consumer
    deadline: float
    canary: bool
    started: float = field(init=False)
    noticed: list[NoticedTrouble] = field(default_factory=list)
    recovered: int = 0
    # The groups that go no further, and how long their rest waits (seconds).
    stopped: dict[str, float | None] = field(default_factory=dict)
    # Each record with its delivery, unless it is no letter.
    readings: list[tuple[Record, Delivery | Exception]] = field(default_factory=list)
    # None before anybody asked; empty if they could not be read.
    seen: Mapping[str, Circuit] | None = None

    def __post_init__(self) -> None:
        self.started = self.consumer.clock()

    @property
    def last_start(self) -> float:
        """When it is too late to begin another message (epoch seconds)."""
        return self.deadline - self._farewell

    @property
    def last_word(self) -> float:
        """When it is too late for what is only worth knowing (epoch seconds)."""
        return self.deadline - self._farewell / 2

    @property
    def _farewell(self) -> float:
        return min(FAREWELL, (self.deadline - self.started) / 5)

    def run(self, records: Sequence[Record]) -> BatchResult:
        reader = self.consumer.reader()
        self.readings = [(record, _read(reader, record)) for record in records]
        handlings = [self._next(record, reading) for record, reading in self.readings]
        if not self.canary:
            self._report(handlings)
            self._hide(handlings)
            self._record_untried(handlings)
        return BatchResult(tuple(handlings), tuple(self.noticed), self.recovered, self.canary)

    def _next(self, record: Record, reading: Delivery | Exception) -> MessageResult:
        message_id = id_of(record)
        group = group_of(record) if self.consumer.pipeline.fifo else ""
        if group and group in self.stopped:
            return MessageResult(message_id, Fate.HELD_BACK, wait=self.stopped[group])
        try:
            found = self._deliver(record, reading)
        except Exception as error:
            # Ours, not the handler's: this message alone comes back.
            said = diagnose(error, _letter(reading), now=self.consumer.clock())
            found = MessageResult(message_id, Fate.BROKEN, said, error=error)
        if group and not found.acknowledged:
            self.stopped[group] = found.wait
        return found

    def _deliver(self, record: Record, reading: Delivery | Exception) -> MessageResult:
        if isinstance(reading, NotALetter):
            return self._unreadable(record, reading)
        if isinstance(reading, Exception):
            raise reading
        message_id = reading.letter.message_id
        if reading.forged:
            self._notice(message_id, Trouble.FORGED)
        if self.consumer.clock() >= self.last_start:
            return MessageResult(message_id, Fate.LATE, wait=0.0)
        held = self._refused(reading)
        if held is not None:
            return MessageResult(message_id, Fate.REFUSED, wait=held)
        try:
            claim = self._claim(reading.key)
        except ClaimsUnavailable as error:
            why = diagnose(error, None, now=self.started)
            return MessageResult(message_id, Fate.UNGUARDED, why)
        if claim is not None and claim.collision:
            self._notice(message_id, Trouble.COLLISION)
        if claim is not None and claim.standing is Standing.BUSY:
            return MessageResult(message_id, Fate.BUSY)
        if claim is not None and claim.standing is Standing.DUPLICATE:
            # Whoever processed it may have died before it said so.
            self._recover(reading, unasked=True)
            return MessageResult(message_id, Fate.DUPLICATE)
        try:
            reject_deferred_result(self.consumer.handle(reading))
        except Skip:
            return self._processed(reading, claim, Fate.SKIPPED)
        except BaseException as error:
            if not is_message_failure(error):
                raise
            return self._failed(reading, claim, error)
        return self._processed(reading, claim, Fate.PROCESSED)

    def _claim(self, key: BusinessKey) -> Claim | None:
        claims = self.consumer.claims
        if claims is None:
            return None
        return claims.claim(key, self.consumer.new_id(), self.deadline + LEASE_MARGIN)

    def _processed(self, delivery: Delivery, claim: Claim | None, fate: Fate) -> MessageResult:
        """The effect has happened: whatever fails from here on, it must not happen again."""
        message_id = delivery.letter.message_id
        with self._unless(ClaimsUnavailable, Trouble.CLAIMS, delivery):
            if not self._done(claim):
                self._notice(message_id, Trouble.LEASE_LOST)
        self._recover(delivery, unasked=fate is Fate.SKIPPED)
        return MessageResult(message_id, fate)

    def _done(self, claim: Claim | None) -> bool:
        claims = self.consumer.claims
        return claims is None or claim is None or claims.done(claim)

    def _release(self, claim: Claim | None) -> bool:
        claims = self.consumer.claims
        return claims is None or claim is None or claims.withdraw(claim)

    def _recover(self, delivery: Delivery, *, unasked: bool) -> None:
        """Say in the ledger that a letter which had been dead was processed."""
        mark, log = self._known_stamp(delivery), self.consumer.log
        if mark is None or not (delivery.was_dead or mark.attempt):
            return
        with self._unless(RecordsUnavailable, Trouble.LEDGER, delivery):
            now = self.consumer.clock()
            if log.recovered(mark.origin, mark.attempt, now, unasked=unasked):
                self.recovered += 1

    def _failed(
        self, delivery: Delivery, claim: Claim | None, error: BaseException
    ) -> MessageResult:
        letter, now = delivery.letter, self.consumer.clock()
        found = diagnose(error, letter, now=now)
        mark = self._known_stamp(delivery)
        origin = delivery.stamp if mark is None else mark
        self._record(delivery.record, origin, found, delivery, now)
        ours = True
        with self._unless(ClaimsUnavailable, Trouble.CLAIMS, delivery):
            ours = self._release(claim)
        if not ours:
            self._notice(letter.message_id, Trouble.LEASE_LOST)
        if ours and mark is not None and self._hopeless(found):
            with self._unless(ClaimsUnavailable, Trouble.CLAIMS, delivery):
                if self._park(delivery, mark, found):
                    return MessageResult(letter.message_id, Fate.PARKED, found, error=error)
        wait = self._wait(delivery.record, found)
        return MessageResult(letter.message_id, Fate.FAILED, found, wait, error)

    def _record_untried(self, handlings: Sequence[MessageResult]) -> None:
        """Write down who was given back: a letter that nobody recorded counts as SILENT.

        It uses up a receive all the same, and may die of that without having been at fault.
        The answer is worth more: were the process killed before it, what was processed
        would come back too. So each is written only while there is time for it, and none
        into a ledger that has just failed.
        """
        for (record, reading), handling in zip(self.readings, handlings, strict=True):
            if handling.message_id and handling.fate in UNBLAMED:
                now = self.consumer.clock()
                failing = any(one.trouble is Trouble.LEDGER for one in self.noticed)
                if failing or now >= self.last_word:
                    return
                delivery = reading if isinstance(reading, Delivery) else None
                mark = self._known_stamp(delivery) if delivery else None
                mark = mark or (delivery.stamp if delivery else Stamp(handling.message_id))
                found = Diagnosis(Category.TRANSIENT, str(handling.fate), GIVEN_BACK)
                self._record(record, mark, found, delivery, now, blameless=True)

    def _unreadable(self, record: Record, error: NotALetter) -> MessageResult:
        message_id, now = id_of(record), self.consumer.clock()
        found = diagnose(error, None, now=now)
        if message_id:
            self._record(record, Stamp(message_id), found, None, now)
        return MessageResult(message_id, Fate.FAILED, found, self._wait(record, found), error)

    def _record(
        self,
        record: Record,
        mark: Stamp,
        found: Diagnosis,
        delivery: Delivery | None,
        now: float,
        *,
        blameless: bool = False,
    ) -> None:
        failure = Failure(
            at=now,
            attempt=mark.attempt,
            category=found.category,
            error_type=found.error_type,
            message=found.message,
            http_status=found.http_status,
            fingerprint=found.fingerprint,
            dependency_down=blameless or (delivery is not None and self._is_down(delivery)),
            receive=receive_of(record),
            queue=queue_of(record),
        )
        with self._unless(RecordsUnavailable, Trouble.LEDGER, delivery, id_of(record)):
            self.consumer.log.failed(mark.origin, failure)

    def _known_stamp(self, delivery: Delivery) -> Stamp | None:
        """The letter's stamp, from the ledger if it could not carry it; None if nobody can say."""
        if not delivery.may_have_lost_its_stamp:
            return delivery.stamp
        with self._unless(LedgerUnavailable, Trouble.LEDGER, delivery):
            kept = self.consumer.log.kept_stamp(delivery.letter.message_id)
            return delivery.stamp if kept is None else kept
        return None

    def _wait(self, record: Record, found: Diagnosis) -> float | None:
        if self.canary:
            return None
        backoff, random = self.consumer.pipeline.retry, self.consumer.random
        return visibility.after_failure(backoff, receive_of(record), found.retry_after, random)

    # Parking.

    def _hopeless(self, found: Diagnosis) -> bool:
        """Whether no further receive is spent on it; a canary is its probe's to move."""
        wanted = self.consumer.pipeline.park_permanent and not self.canary
        return wanted and found.category in PERMANENT

    def _park(self, delivery: Delivery, mark: Stamp, found: Diagnosis) -> bool:
        """Send the letter to the parking lot; True only if the lot confirmed it, or had before.

        The claim on the message stays released: a person may release the letter, and then
        it has to be processed. That this copy was parked is a claim of its own.
        """
        letter, consumer = delivery.letter, self.consumer
        name = consumer.pipeline.parking_for.get(Reason.PERMANENT, DEFAULT_PARKING)
        lot = consumer.parking.get(name)
        if lot is None:
            self._notice(letter.message_id, Trouble.NOT_PARKED, "no such parking queue")
            return False
        parked = replace(
            mark,
            rule=None,
            decision="PARK",
            reason=str(Reason.PERMANENT),
            because=f"failed for good ({found.category}: {found.error_type})",
            at=int(consumer.clock()),
        )
        try:
            envelope = seal(letter, parked, lot.traits, consumed=False)
        except QueueUnavailable as error:
            self._explain(letter.message_id, Trouble.NOT_PARKED, error)
            return False
        if not envelope.marked:
            # What it can't carry the redriver writes down, when it parks it from the DLQ.
            return False
        guard = self._claim(BusinessKey(f"parked:{letter.message_id}", delivery.key.payload))
        if guard is not None and guard.standing is not Standing.MINE:
            return guard.standing is Standing.DUPLICATE
        sending = lot.send([envelope])
        if letter.message_id not in sending.confirmed:
            why = sending.refused.get(letter.message_id, "no answer")
            self._notice(letter.message_id, Trouble.NOT_PARKED, why)
            self._release(guard)
            return False
        with self._unless(ClaimsUnavailable, Trouble.CLAIMS, delivery):
            self._done(guard)
        return True

    # The circuit.

    def _refused(self, delivery: Delivery) -> float | None:
        """How many seconds the letter has to wait for its circuit; None if it may go."""
        consumer = self.consumer
        if self.canary or not consumer.pipeline.refuse_when_open:
            return None
        # Not knowing is no reason to stop: the handler will find out.
        now, canary = consumer.clock(), delivery.stamp.canary
        closed = [
            one
            for one in self._circuits_of(delivery)
            if not one.is_closed and not one.admits_canary(canary, now)
        ]
        if not closed:
            return None
        otherwise = consumer.pipeline.retry.delay(receive_of(delivery.record), consumer.random)
        return visibility.until(max(one.open_until for one in closed), now, otherwise)

    def _is_down(self, delivery: Delivery) -> bool:
        """Whether the circuit was not closed; where nobody knows, the letter isn't blamed."""
        found = self._circuits_of(delivery)
        return not found or not all(one.is_closed for one in found)

    def _circuits_of(self, delivery: Delivery) -> list[Circuit]:
        if self.seen is None:
            self.seen = {}
            keys = {key for _, one in self.readings for key in self._keys(one)}
            with self._unless(CircuitsUnavailable, Trouble.CIRCUITS, delivery):
                self.seen = self.consumer.circuits.read(sorted(keys))
        return [self.seen[key] for key in self._keys(delivery) if key in self.seen]

    def _keys(self, reading: Delivery | Exception) -> list[str]:
        """The circuits that a letter depends on, its own one last."""
        pipeline = self.consumer.pipeline.name
        own = reading.document.circuit_key if isinstance(reading, Delivery) else None
        return [pipeline] if own in (None, pipeline) else [pipeline, str(own)]

    def _report(self, handlings: Sequence[MessageResult]) -> None:
        said: dict[str, list[Evidence]] = {}
        for (_, reading), handling in zip(self.readings, handlings, strict=True):
            if handling.evidence is not Evidence.NEUTRAL:
                said.setdefault(self._keys(reading)[-1], []).append(handling.evidence)
        for key, evidence in said.items():
            with self._unless(CircuitsUnavailable, Trouble.CIRCUITS):
                good = evidence.count(Evidence.SUCCESS)
                self.consumer.outcomes.report(key, good, len(evidence) - good)

    def _hide(self, handlings: Sequence[MessageResult]) -> None:
        elapsed = self.consumer.clock() - self.started
        waits = [
            (handle, visibility.in_reach(handling.wait, elapsed))
            for (record, _), handling in zip(self.readings, handlings, strict=True)
            if handling.wait is not None and (handle := handle_of(record))
        ]
        if not waits:
            return
        with self._unless(QueueUnavailable, Trouble.NOT_HIDDEN):
            for _ in range(self.consumer.queue.hide(waits)):
                self._notice("", Trouble.NOT_HIDDEN)

    # What is noticed on the way.

    @contextmanager
    def _unless(
        self,
        expected: type[Exception],
        trouble: Trouble,
        delivery: Delivery | None = None,
        message_id: str = "",
    ) -> Iterator[None]:
        """Go on whatever is raised here; anything but `expected` is a bug of ours."""
        try:
            yield
        except Exception as error:
            named = delivery.letter.message_id if delivery is not None else message_id
            self._explain(named, trouble if isinstance(error, expected) else Trouble.BROKEN, error)

    def _notice(self, message_id: str, trouble: Trouble, why: str = "") -> None:
        self.noticed.append(NoticedTrouble(message_id, trouble, why))

    def _explain(self, message_id: str, trouble: Trouble, error: Exception) -> None:
        found = diagnose(error, None, now=self.started)
        # Only our own errors are known to quote no message.
        said = found.error_type if trouble is Trouble.BROKEN else found.message
        self._notice(message_id, trouble, said)


def _read(reader: Reader, record: Record) -> Delivery | Exception:
    """The delivery, or why there is none: a record that is no letter disturbs nobody else."""
    try:
        return reader.read(record)
    except Exception as error:
        return error


def _letter(reading: Delivery | Exception) -> Letter | None:
    return reading.letter if isinstance(reading, Delivery) else None


def _letter_in(record: Record) -> Letter | None:
    try:
        return from_event(record)
    except NotALetter:
        return None
