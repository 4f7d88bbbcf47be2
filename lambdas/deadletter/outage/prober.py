"""Sends canaries under the circuit's permit, to learn whether the dependency works again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

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
from deadletter.contract import CONFIG_SUFFIX, with_config_keys
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.message.queue import QueueUnavailable, ReceivedLetter
from deadletter.outage.canaries import (
    Canary,
    CanaryResult,
    CanarySource,
    NotInLaneYet,
    first_of,
)
from deadletter.outage.steps import (
    CircuitAnnouncer,
    Execution,
    ExecutionStep,
    Next,
    seconds_to_probe,
)
from deadletter.redrive.journal import JournalUnavailable
from deadletter.redrive.sending import LAST_SEND
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.router import RouterUnavailable
from deadletter.signals.figures import Count, Figure

if TYPE_CHECKING:
    # A pipeline without a health URL loads no client for one.
    from deadletter.outage.health import Health

    # Most pipelines have a consumer that can be invoked.
    from deadletter.outage.queue_canary import MainQueueSender, QueueCanary

LOCK_MARGIN_SECONDS = 60.0
"""How long a canary stays locked after the latest moment of its answer."""

MOST_SECONDS_TO_SEND = 120.0
"""How long finding and sending a canary through the main queue may take at most."""

EMPTY_PROBES_FOR_SUCCESS = 3
"""After this many probes in a row that found no letter, the probe counts as a success:
with no letter waiting, a closed circuit can harm none."""

SECONDS_FOR_HIDDEN = 10.0
"""Wait for hidden messages while a person's circuit has nothing that speaks against it. With
EMPTY_PROBES_FOR_SUCCESS it is longer than a refused message stays hidden after the hold."""

EMPTY_PROBES_WHILE_HIDDEN = 10
"""The same while messages of the main queue are hidden: they may become visible, and be tried. On
FIFO one hidden message keeps its whole group from us."""

MOST_CANARIES = 5
"""Letters that one probe tries at most, one after the other: those that fail by their own fault
show nothing of the dependency."""

SECONDS_FOR_MORE = 60.0
"""Seconds of a probe after which it tries no further letter: its function ends two minutes after
the longest answer."""


class ConsumerUnavailable(Exception):
    """The consumer certainly did not receive the letter: this says nothing of the dependency."""


class CanaryConsumer(Protocol):
    """The consumer of the main queue, invoked directly with one letter."""

    def process(
        self, received: ReceivedLetter, source_arn: str, permit: str, key: str
    ) -> CanaryResult:
        """Process the letter under the permit. Returns what it shows about the circuit `key`.

        Raises ConsumerUnavailable.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Prober:
    """What the probe function does in the execution of an outage.

    A health check comes first: while it says that the dependency is down, no letter is tried.
    `answer_seconds` is how long the consumer may take, `sources` are tried in their order.
    The circuits of `pipeline` itself come first: while one of them is not closed, no letter of
    another circuit is tried, because the consumer would refuse it.
    With a `sender`, canaries go through the main queue instead, and a later probe checks what
    became of them. `hides_messages` says of a circuit whether messages that could test it are
    hidden at present. `clock` gives epoch seconds, `new_id` a unique text; `count_metric` counts
    a metric by its name.
    """

    pipeline: str
    breaker: Breaker
    circuits: Circuits
    sources: Sequence[CanarySource]
    consumer: CanaryConsumer
    answer_seconds: float
    health: Health | None
    announcer: CircuitAnnouncer
    clock: Callable[[], float]
    new_id: Callable[[], str]
    count_metric: Callable[[str, int], None]
    sender: MainQueueSender | None = None
    hides_messages: Callable[[str], bool] = lambda _: False

    def probe(self, execution: Execution) -> ExecutionStep:
        """Take the permit, try letters until one shows something, return the next step.

        If a canary is under way through the main queue, check what became of it instead.

        If the canary could not be sent, the permit is given back and the error raised:
        CircuitsUnavailable, ConsumerUnavailable, or an error of a CanarySource. If the prober
        dies, the permit ends with its lease.
        """
        if execution.pause_failed:
            self.count_metric(Count.CONSUMER_NOT_PAUSED, 1)
        execution = replace(execution, probes=execution.probes + 1)
        circuit, *earlier = self._read_with_earlier(execution.key)
        if not execution.runs(circuit):
            return execution.step_to(Next.HAND_OVER, circuit)
        if self.sender is not None and circuit.permit is not None:
            circuit = self._check_sent_canary(self.sender, circuit, circuit.permit)
            return self._next_step(execution, circuit)
        if circuit.permit is None and not all(one.is_closed for one in earlier):
            # Its letters wait for that one too: none may be tried, and finding none shows nothing.
            wait = max(circuit.cooldown, seconds_to_probe(circuit, self.clock()))
            return self._next_step(execution, circuit, wait)
        attempt = self.breaker.apply(execution.key, PermitTaken(self.new_id()))
        circuit, is_by_hand = attempt.circuit, circuit.by_hand
        if attempt.refused is None and circuit.permit is not None:
            execution, circuit, shows_nothing = self._send_canary(
                execution, circuit, circuit.permit
            )
            if shows_nothing and not circuit.is_closed:
                # Letter after letter shows nothing: the wait does not grow, and is not short.
                by_hand = min(circuit.cooldown, SECONDS_FOR_HIDDEN)
                return self._next_step(
                    execution, circuit, by_hand if circuit.by_hand else circuit.cooldown
                )
        elif attempt.refused is Refusal.LEASE_ENDED:
            if circuit.permit is not None and circuit.permit.origin is not None:
                # Its prober died, and the message is still locked.
                self.count_metric(Figure.POSSIBLE_DUPLICATE, 1)
            circuit = self._end_lost_canary(circuit)
        step = self._next_step(execution, circuit)
        if is_by_hand and not circuit.by_hand and step.next is Next.PROBE:
            # What a person opened has become an outage.
            return replace(step, next=Next.PAUSE)
        return step

    def _next_step(
        self, execution: Execution, circuit: Circuit, wait: float | None = None
    ) -> ExecutionStep:
        """The next step, after `wait` seconds; without it, as long as the circuit says."""
        execution = self.announcer.announce(execution, circuit)
        if not execution.runs(circuit):
            return execution.step_to(Next.HAND_OVER, circuit)
        if circuit.is_closed:
            return execution.step_to(Next.RESUME, circuit)
        if wait is None:
            wait = seconds_to_probe(circuit, self.clock())
        return execution.step_to(Next.PROBE, circuit, wait)

    def _read_with_earlier(self, key: str) -> list[Circuit]:
        """The circuit of a key, and those that come before it."""
        keys = [key, *_earlier_keys(key, self.pipeline)]
        circuits = self.circuits.read(keys)
        return [circuits[each] for each in keys]

    def _answer(self, circuit: Circuit, owner: str, verdict: CanaryVerdict) -> Circuit:
        answer = CanaryAnswered(circuit.generation, owner, verdict)
        try:
            return self.breaker.apply(circuit.key, answer).circuit
        except CircuitsUnavailable:
            # If the first write took effect, the second is refused and returns the circuit.
            return self.breaker.apply(circuit.key, answer).circuit

    def _end_lost_canary(self, circuit: Circuit) -> Circuit:
        return self.breaker.apply(circuit.key, CanaryLost(circuit.generation)).circuit

    def _send_canary(
        self, execution: Execution, circuit: Circuit, permit: Permit
    ) -> tuple[Execution, Circuit, bool]:
        """The execution and the circuit after the canary, and whether no letter shows anything."""
        if self.health is not None and self.health():
            circuit = self._answer(circuit, permit.owner, CanaryVerdict.FAILURE)
            return replace(execution, empty=0), circuit, False
        try:
            if self.sender is not None:
                # A canary that is sent when its lock ends can still be answered under the lease.
                left = permit.until - self.answer_seconds - self.clock()
                lock = LAST_SEND + max(0.0, min(left, MOST_SECONDS_TO_SEND))
                canary = self.sender.take(circuit.key, permit.owner, lock)
                if canary is not None:
                    circuit = self._send_through_queue(circuit, permit, canary)
                    return replace(execution, empty=0), circuit, False
            verdict, tried = self._try_letters(circuit, permit)
        except NotInLaneYet:
            circuit = self._answer(circuit, permit.owner, CanaryVerdict.NEUTRAL)
            return replace(execution, empty=0), circuit, False
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
        if tried and (verdict is not CanaryVerdict.ELSEWHERE or circuit.by_hand):
            circuit = self._answer(circuit, permit.owner, verdict)
            shows_nothing = verdict is CanaryVerdict.NEUTRAL and tried == MOST_CANARIES
            return replace(execution, empty=0), circuit, shows_nothing
        # Letters of other circuits are none of this one, however many there are.
        execution, verdict = self._without_letter(
            replace(execution, empty=execution.empty + 1), circuit
        )
        return execution, self._answer(circuit, permit.owner, verdict), execution.empty > 0

    def _try_letters(self, circuit: Circuit, permit: Permit) -> tuple[CanaryVerdict, int]:
        """The verdict of the first letter that shows something of the dependency.

        ELSEWHERE if none does, and one shows something of another circuit; else NEUTRAL. Also
        returns how many letters were tried, none of them twice.
        """
        last = self.clock() + SECONDS_FOR_MORE
        said, tried = CanaryVerdict.NEUTRAL, set[str]()
        for _ in range(MOST_CANARIES):
            is_late = self.clock() > last
            if tried and (is_late or not permit.lasts_for(self.answer_seconds, self.clock())):
                break
            # Longer than the lease too: if this prober dies, the next one counts the letter
            # before it is seen again.
            longest = max(self.answer_seconds, permit.until - self.clock())
            canary = first_of(self.sources, circuit.key, longest + LOCK_MARGIN_SECONDS)
            if canary is None:
                break
            if canary.copy in tried:
                canary.give_back()
                break
            verdict = self._try_letter(canary, circuit, permit)
            tried.add(canary.copy)
            if verdict is None:
                break
            verdict = _said_to(circuit, verdict)
            if verdict is CanaryVerdict.ELSEWHERE and not circuit.by_hand:
                said = verdict
            elif verdict is not CanaryVerdict.NEUTRAL:
                return verdict, len(tried)
        return said, len(tried)

    def _send_through_queue(self, circuit: Circuit, permit: Permit, canary: QueueCanary) -> Circuit:
        """The circuit with the canary under way, or with the permit given back."""
        if not permit.lasts_for(self.answer_seconds, self.clock()):
            canary.give_back()
            return self._answer(circuit, permit.owner, CanaryVerdict.NEUTRAL)
        sent = CanarySent(circuit.generation, permit.owner, canary.origin, canary.attempt)
        try:
            transition = self.breaker.apply(circuit.key, sent)
        except CircuitsUnavailable:
            canary.give_back()
            raise
        if transition.refused is not None:
            # A person has overridden the circuit meanwhile.
            canary.give_back()
            return transition.circuit
        if not canary.send():
            raise QueueUnavailable("the canary could not be sent")
        return transition.circuit

    def _check_sent_canary(
        self, sender: MainQueueSender, circuit: Circuit, permit: Permit
    ) -> Circuit:
        """The circuit after the ledger's verdict on the canary, or after its lease has ended."""
        if permit.origin is not None and permit.attempt is not None:
            verdict = sender.verdict(permit.origin, permit.attempt, circuit.key)
            if verdict is not None:
                return self._answer(circuit, permit.owner, _said_to(circuit, verdict))
        return self._end_lost_canary(circuit)

    def _without_letter(
        self, execution: Execution, circuit: Circuit
    ) -> tuple[Execution, CanaryVerdict]:
        self.count_metric(Count.NOTHING_TO_PROBE, 1)
        if self.health is not None:
            # It says that the dependency works, or no letter would have been looked for.
            return replace(execution, empty=0), CanaryVerdict.SUCCESS
        if circuit.by_hand:
            most, least = EMPTY_PROBES_FOR_SUCCESS, 1
        else:
            most, least = EMPTY_PROBES_WHILE_HIDDEN, EMPTY_PROBES_FOR_SUCCESS
        enough = execution.empty >= most or (
            execution.empty >= least and not self._hides(execution.key)
        )
        return execution, CanaryVerdict.SUCCESS if enough else CanaryVerdict.NEUTRAL

    def _hides(self, key: str) -> bool:
        try:
            return self.hides_messages(key)
        except QueueUnavailable:
            # No answer is no evidence that nothing is there.
            return True

    def _try_letter(self, canary: Canary, circuit: Circuit, permit: Permit) -> CanaryVerdict | None:
        """What a letter shows about the circuit; None if it may not be tried any more."""
        if not permit.lasts_for(self.answer_seconds, self.clock()):
            # This prober was delayed: its lease could end, and another canary be sent, before
            # the answer.
            canary.give_back()
            return None
        try:
            _, *earlier = self._read_with_earlier(circuit.key)
            if not all(one.is_closed for one in earlier):
                # A person has opened it while the letter was looked for.
                canary.give_back()
                return None
            on_record = canary.record()
            if not on_record and not self._name_canary(circuit, permit, canary):
                # A person has overridden the circuit meanwhile.
                canary.give_back()
                return None
            result = self.consumer.process(canary.received, canary.arn, permit.owner, circuit.key)
        except (ConsumerUnavailable, CircuitsUnavailable, JournalUnavailable):
            canary.give_back()
            raise
        if not on_record and result.verdict is CanaryVerdict.NO_ANSWER:
            # SQS delivers it again when its lock ends.
            self.count_metric(Figure.POSSIBLE_DUPLICATE, 1)
        try:
            gone = canary.settle(result)
        except (QueueUnavailable, RoomUnavailable, JournalUnavailable, RouterUnavailable):
            gone = False
        if result.proof is not None and not gone:
            # It will be received again; the consumer's claim shows that it was processed.
            self.count_metric(Count.UNDELETED, 1)
            if not on_record:
                self.count_metric(Figure.POSSIBLE_DUPLICATE, 1)
        return result.verdict

    def _name_canary(self, circuit: Circuit, permit: Permit, canary: Canary) -> bool:
        """Name the letter in the permit, for the prober that finds it lost. False if refused."""
        sent = CanarySent(circuit.generation, permit.owner, canary.copy, 0)
        return self.breaker.apply(circuit.key, sent).refused is None


def _said_to(circuit: Circuit, verdict: CanaryVerdict) -> CanaryVerdict:
    """The verdict of a letter that was tried, for this circuit.

    Only a failure speaks against what a person opened. There a letter that fails by its own fault
    is enough: one after the other would be posted to an endpoint that answers 404.
    """
    is_neutral = verdict is CanaryVerdict.NEUTRAL
    return CanaryVerdict.ELSEWHERE if circuit.by_hand and is_neutral else verdict


def _earlier_keys(key: str, pipeline: str) -> list[str]:
    """The circuits that every letter of this one waits for as well, and that are tried first."""
    keys = with_config_keys(dict.fromkeys((pipeline, key.removesuffix(CONFIG_SUFFIX))))
    return keys[: keys.index(key)]
