"""One letter that says whether a dependency works again, sent under the circuit's permit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from deadletter.contract import Metric
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.message.queue import QueueUnavailable, ReceivedLetter
from deadletter.outage.canary_sources import CanaryResult, CanarySource
from deadletter.outage.execution_step import (
    CircuitAnnouncer,
    Execution,
    ExecutionStep,
    Next,
    seconds_to_probe,
)
from deadletter.redrive.journal import (
    JournalUnavailable,
)
from deadletter.redrive.mover import LAST_SEND
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.router import RouterUnavailable

LOCK_PAST_ANSWER = 60.0
"""Seconds a canary stays locked after it must have been answered."""


LONGEST_FINDING = 120.0
"""Seconds that finding and sending a canary may take, however long the lease is."""


ENOUGH_EMPTY = 3
"""Probes in a row without anything to probe with, after which there is nothing to harm."""

NOT_PAUSED = Metric.CONSUMER_NOT_PAUSED
EMPTY = Metric.NOTHING_TO_PROBE
UNDELETED = Metric.UNDELETED


class ConsumerUnavailable(Exception):
    """The consumer was surely not given the letter: it says nothing of the dependency."""


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


class Prober:
    """What the probe function does in the execution of an outage.

    `answer_seconds` is how long the consumer may take, `sources` are tried in their order.
    Where there is a `sender`, canaries go through the main queue instead, and a later probe
    asks what became of them. `clock` gives epoch seconds, `new_id` a text that nobody else
    has; `count_metric` counts a metric by its name.
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
        announcer: CircuitAnnouncer,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        count_metric: Callable[[str, int], None],
        sender: CanarySender | None = None,
    ) -> None:
        self._sender = sender
        self._breaker = breaker
        self._circuits = circuits
        self._sources = sources
        self._consumer = consumer
        self._answer_seconds = answer_seconds
        self._health = health
        self._announcer = announcer
        self._clock = clock
        self._new_id = new_id
        self._count_metric = count_metric

    def probe(self, execution: Execution) -> ExecutionStep:
        """Take the permit, send one canary, and say what became of the circuit.

        One that is under way through the main queue is asked after instead.

        Where the canary could not be sent the permit is given back and the error raised:
        CircuitsUnavailable, ConsumerUnavailable, or one of a CanarySource's. A prober that
        dies leaves the permit to its lease.
        """
        if execution.pause_failed:
            self._count_metric(NOT_PAUSED, 1)
        execution = replace(execution, probes=execution.probes + 1)
        circuit = self._circuits.read([execution.key])[execution.key]
        if not execution.runs(circuit):
            return execution.step_to(Next.HAND_OVER, circuit)
        if self._sender is not None and circuit.permit is not None:
            circuit = self._ask_after(self._sender, circuit, circuit.permit)
            return self._next_step(execution, circuit)
        moved = self._breaker.apply(execution.key, PermitTaken(self._new_id()))
        circuit = moved.circuit
        if moved.refused is None and circuit.permit is not None:
            execution, circuit = self._canary(execution, circuit, circuit.permit)
        elif moved.refused is Refusal.LEASE_ENDED:
            circuit = self._lost(circuit)
        return self._next_step(execution, circuit)

    def _next_step(self, execution: Execution, circuit: Circuit) -> ExecutionStep:
        execution = self._announcer.announce(execution, circuit)
        if not execution.runs(circuit):
            return execution.step_to(Next.HAND_OVER, circuit)
        if circuit.is_closed:
            return execution.step_to(Next.RESUME, circuit)
        wait = seconds_to_probe(circuit, self._clock())
        # There may be something to probe with after as long as it cooled down before.
        return execution.step_to(Next.PROBE, circuit, circuit.cooldown if execution.empty else wait)

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
        self, execution: Execution, circuit: Circuit, permit: Permit
    ) -> tuple[Execution, Circuit]:
        try:
            if self._sender is not None:
                # Sent at the very last moment that the lock allows, it can still be answered.
                left = permit.until - self._answer_seconds - self._clock()
                lock = LAST_SEND + max(0.0, min(left, LONGEST_FINDING))
                parcel = self._sender.take(circuit.key, permit.owner, lock)
                if parcel is not None:
                    return replace(execution, empty=0), self._mail(circuit, permit, parcel)
            for source in self._sources:
                taken = source.take(circuit.key, self._answer_seconds + LOCK_PAST_ANSWER)
                if taken is not None:
                    verdict = self._send(source, taken, permit)
                    circuit = self._answer(circuit, permit.owner, verdict)
                    return replace(execution, empty=0), circuit
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
        execution, verdict = self._without_letter(replace(execution, empty=execution.empty + 1))
        return execution, self._answer(circuit, permit.owner, verdict)

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

    def _ask_after(self, sender: CanarySender, circuit: Circuit, permit: Permit) -> Circuit:
        """The circuit by what the ledger says of the canary under way, or its lease."""
        if permit.origin is not None and permit.attempt is not None:
            verdict = sender.verdict(permit.origin, permit.attempt)
            if verdict is not None:
                return self._answer(circuit, permit.owner, verdict)
        return self._lost(circuit)

    def _without_letter(self, execution: Execution) -> tuple[Execution, CanaryVerdict]:
        self._count_metric(EMPTY, 1)
        if self._health is not None:
            well = self._health.is_well()
            return replace(
                execution, empty=0
            ), CanaryVerdict.SUCCESS if well else CanaryVerdict.FAILURE
        enough = execution.empty >= ENOUGH_EMPTY
        return execution, CanaryVerdict.SUCCESS if enough else CanaryVerdict.NEUTRAL

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
            self._count_metric(UNDELETED, 1)
        return given.verdict
