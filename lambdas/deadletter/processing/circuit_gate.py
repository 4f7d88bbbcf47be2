"""What one batch knows of its circuits: which letters they refuse, and what it reports to them."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from threading import RLock
from typing import TYPE_CHECKING, Any

from deadletter.circuit.state import (
    Circuit,
    Circuits,
    CircuitsUnavailable,
    OutcomeCounts,
    Outcomes,
)
from deadletter.contract import is_config_key, with_config_keys
from deadletter.failure.fate import Evidence
from deadletter.processing import visibility
from deadletter.processing.delivery import Delivery, receive_of
from deadletter.processing.result import CallOutcome, Trouble, Troubles
from deadletter.rules.document import TENANT
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from deadletter.pace.kinds import Seen, SickKinds
    from deadletter.pace.pace import PaceGrant, Wish
    from deadletter.processing.pacer import Pacer

SECONDS_BETWEEN_READS = 1.0
"""A batch learns this soon that a circuit has opened; a read costs a tenth of a message's claim."""

SECONDS_CALM = 60.0
"""A process reads a circuit for configuration again after this time, if the circuit was calm: it
opens by failures only, and a process whose messages fail so reads it at once."""


LONGEST_IN_HANDLER = 2.0
"""Seconds that a handler waits in place for a call to a dependency that it names: meanwhile it
holds the claim of its message, and what it has done before the call."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class CircuitGate:
    """The circuits of one batch. If it is `direct` they neither refuse nor learn of it: the probe
    or the replay run that sent it judges.

    A circuit that could not be read refuses nothing: the handler finds out. `named` holds the
    circuits of the dependencies that the handler has named in this process, and how many calls
    the last batch began: they are read with the others. `calm` holds the circuits that were calm
    when the process last read them, and when that was. `pause` waits for seconds: where a
    concurrency bounds the functions that wait, a message that a pace lets through later waits in
    place, until `waits_until` (epoch seconds).
    """

    pipeline: Pipeline
    circuits: Circuits
    outcomes: Outcomes
    troubles: Troubles
    clock: Callable[[], float]
    random: Random
    direct: bool
    named: dict[str, int]
    calm: dict[str, float]
    pause: Callable[[float], None]
    waits_until: Callable[[], float]
    _keys: set[str] = field(default_factory=set)
    _known: dict[str, Circuit] = field(default_factory=dict)
    # None before the first read.
    _read_at: float | None = None
    _counts: dict[str, OutcomeCounts] = field(default_factory=dict)
    # The keys that failures of this batch count against.
    _failing: set[str] = field(default_factory=set)
    # How many letters of the batch are still to come, by key.
    _expected: Counter[str] = field(default_factory=Counter)
    # Calls of named dependencies that this batch has begun.
    _began: Counter[str] = field(default_factory=Counter)
    _pacer: Pacer | None = None
    # The sick kinds that a letter tries, by its id and the circuit's key.
    _tries: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    # Several threads may handle the messages of one batch.
    _lock: Any = field(default_factory=RLock, repr=False)

    def expect(self, deliveries: Iterable[Delivery]) -> None:
        """Name the letters of the batch, so that their circuits are read in one request."""
        self._keys.update(with_config_keys(tuple(self.named)))
        # A batch is most often like the one before.
        self._expected.update(dict(self.named))
        for delivery in deliveries:
            keys = with_config_keys(self.keys(delivery))
            self._keys.update(keys)
            self._expected.update(keys)

    def keys(self, delivery: Delivery) -> list[str]:
        """The keys of the ordinary circuits that a letter depends on, its own circuit last."""
        own = delivery.document.circuit_key
        name = self.pipeline.name
        return [name] if own in (None, name) else [name, str(own)]

    def wait(self, delivery: Delivery) -> float | None:
        """Seconds that a refused letter waits for its circuits; None if it may be processed."""
        return self._wait(delivery, with_config_keys(self.keys(delivery)))

    def wait_for(self, delivery: Delivery, key: str) -> float | None:
        """Seconds that a letter waits for the circuit of a dependency that its handler names.

        Where the handler is a coroutine, which shares its thread, nothing waits in place; else
        not for long, because the handler has begun.
        """
        self.named.setdefault(key, 0)
        self._began[key] += 1
        longest = 0.0 if _is_coroutine() else LONGEST_IN_HANDLER
        return self._wait(delivery, with_config_keys([key]), longest)

    def _wait(
        self, delivery: Delivery, keys: Sequence[str], longest: float = math.inf
    ) -> float | None:
        if self.direct:
            return None
        try:
            return self._wait_for_call(delivery, keys, self.clock() + longest)
        finally:
            with self._lock:
                self._expected.subtract(keys)

    def _wait_for_call(self, delivery: Delivery, keys: Sequence[str], until: float) -> float | None:
        """As `wait`; until then a message that a pace lets through later waits here first."""
        while True:
            with self._lock:
                refusal = self._refusal(delivery, keys)
                if refusal is None:
                    refusal = self._sick_wait(delivery, keys)
                paced = [] if refusal is not None else self._without_call(delivery, keys)
                if not paced:
                    return refusal
                left = min(until, self.waits_until()) - self.clock()
                if left <= 0 or not self._is_bounded:
                    return self._place(delivery, paced)
                # What is read before the next look is what others have left by then.
                self._read_at = None
                seconds = min(self._paces.pause(), left)
                for key in set(keys) & self._counts.keys():
                    self._report(key)
            # Other threads go on meanwhile.
            self.pause(seconds)

    def _refusal(self, delivery: Delivery, keys: Sequence[str]) -> float | None:
        """Seconds that a letter waits for circuits that are not closed; None if all are."""
        now, canary = self.clock(), delivery.stamp.canary
        if self._read_at is None or now - self._read_at >= SECONDS_BETWEEN_READS:
            self._read(delivery, keys)
        refusing = [
            circuit
            for circuit in self._circuits(delivery, keys)
            if not circuit.is_closed and not circuit.admits_canary(canary, now)
        ]
        for circuit in refusing:
            counts = self._counts.get(circuit.key, OutcomeCounts())
            self._counts[circuit.key] = replace(counts, refused=counts.refused + 1)
        return visibility.while_open(refusing, now, self.random) if refusing else None

    def _sick_wait(self, delivery: Delivery, keys: Sequence[str]) -> float | None:
        """Seconds that a letter of a sick kind is hidden; None if it is well, or the kind's try."""
        for circuit in self._circuits(delivery, keys):
            sick, place = self._sick(delivery, circuit), (delivery.letter.message_id, circuit.key)
            if not sick or place in self._tries:
                continue
            from deadletter.pace.kinds import SickKinds, hidden_for

            slowed = self._slow(circuit, partial(SickKinds.tried, kinds=sick, now=self.clock()))
            if slowed is False and self._sick(delivery, self._known.get(circuit.key, circuit)):
                return hidden_for(self.random)
            # Without an answer it is let through as well: the handler finds out.
            self._tries[place] = sick
        return None

    def _sick(self, delivery: Delivery, circuit: Circuit | None) -> tuple[str, ...]:
        """The sick kinds of a letter."""
        if circuit is None or circuit.sick is None:
            return ()
        return circuit.sick.of(self._kinds_of(delivery))

    def _kinds_of(self, delivery: Delivery) -> tuple[str, ...]:
        # Loaded with the first failure.
        from deadletter.pace.kinds import kinds_of

        return kinds_of(delivery.document.value, len(delivery.letter.body))

    def _slow(
        self, circuit: Circuit, change: Callable[[SickKinds], SickKinds | None]
    ) -> bool | None:
        """Change which kinds are slowed; whether they changed, None without an answer."""
        with self.troubles.noticing(CircuitsUnavailable, Trouble.CIRCUITS):
            answer = self.outcomes.slow(circuit, change)
            if answer is not None:
                self._known[circuit.key] = answer[0]
                return answer[1]
        return None

    def _without_call(self, delivery: Delivery, keys: Sequence[str]) -> list[Circuit]:
        """The circuits whose pace lets the letter through later; if there are none, it goes now."""
        now = self.clock()
        paced = [
            circuit for circuit in self._circuits(delivery, keys) if circuit.paced(now) is not None
        ]
        returning = receive_of(delivery.record) > 1 or delivery.was_dead
        waiting = [
            circuit
            for circuit in paced
            if not self._paces.has_call(
                circuit,
                self._expected[circuit.key],
                returning=returning,
                whole=returning and self.pipeline.fifo,
            )
        ]
        if not waiting:
            for circuit in paced:
                self._paces.use(circuit)
        return waiting

    def _place(self, delivery: Delivery, paced: Sequence[Circuit]) -> float:
        """Seconds until a letter's place, with the circuits whose pace has no call left."""
        again = receive_of(delivery.record) > 1
        waits = [
            self._paces.place(
                self._known.get(circuit.key, circuit), self._expected[circuit.key], again=again
            )
            for circuit in paced
        ]
        known = [self._known.get(circuit.key, circuit) for circuit in paced]
        opened = [circuit for circuit in known if not circuit.is_closed]
        if opened:
            return visibility.while_open(opened, self.clock(), self.random)
        return max((wait for wait in waits if wait is not None), default=0.0)

    @property
    def _is_bounded(self) -> bool:
        """Whether functions that wait can't take all that the account may run at once."""
        own = self._known.get(self.pipeline.name)
        return own is not None and own.bounded

    @property
    def _paces(self) -> Pacer:
        if self._pacer is None:
            # Loaded with the first circuit that is paced, as few are.
            from deadletter.processing.pacer import Pacer

            self._pacer = Pacer(self._take, self.clock, self.random)
        return self._pacer

    def _take(self, circuit: Circuit, wish: Wish) -> tuple[Circuit, PaceGrant] | None:
        """Take from a circuit's pace, and report what was counted in the same write."""
        answer = None
        with self.troubles.noticing(CircuitsUnavailable, Trouble.CIRCUITS):
            outcomes = self._counts.pop(circuit.key, OutcomeCounts())
            answer = self.outcomes.take(circuit, outcomes, wish)
            if answer is not None:
                self._known[circuit.key] = answer[0]
        return answer

    def is_down(self, delivery: Delivery) -> bool:
        """Whether a circuit was not closed, or unknown, or fails messages of the letter's kind.

        Then the letter is not blamed.
        """
        with self._lock:
            circuits = self._circuits(delivery, with_config_keys(self.keys(delivery)))
            return not circuits or any(
                not circuit.is_closed or self._sick(delivery, circuit) for circuit in circuits
            )

    def count(self, delivery: Delivery, outcomes: Sequence[CallOutcome]) -> None:
        """Count what the calls for a letter, which just ended, showed about their circuits.

        A failure is reported when that is due, in the midst of a batch; if the circuit opens by
        it, the rest of the batch is refused.
        """
        if self.direct:
            return
        with self._lock:
            self._count(delivery, outcomes)

    def _count(self, delivery: Delivery, outcomes: Sequence[CallOutcome]) -> None:
        for outcome in outcomes:
            is_good = outcome.evidence is Evidence.SUCCESS
            if is_good and is_config_key(outcome.key) and not self._is_troubled(outcome.key):
                # In good times a circuit for configuration costs no write.
                continue
            known = self._counts.get(outcome.key, OutcomeCounts())
            self._counts[outcome.key] = known.then(self._counted(delivery, outcome))
            self._judge_try(delivery, outcome)
        failing = {outcome.key for outcome in outcomes if outcome.evidence in _BAD}
        self._failing |= failing
        for key in sorted(failing):
            self.calm.pop(key, None)
            self._report(key)

    def _judge_try(self, delivery: Delivery, outcome: CallOutcome) -> None:
        """Say what the try of a sick kind has shown, if this was one."""
        sick = self._tries.pop((delivery.letter.message_id, outcome.key), ())
        circuit = self._known.get(outcome.key)
        if sick and circuit is not None and outcome.evidence in (*_BAD, Evidence.SUCCESS):
            is_good = outcome.evidence is not Evidence.FAILURE
            self._slow(circuit, lambda slowed: slowed.showed(sick, is_good=is_good))

    def shown(self, outcomes: Iterable[CallOutcome]) -> tuple[CallOutcome, ...]:
        """What calls show: of a canary, a slow success shows a dependency that is not well yet."""
        return tuple(
            replace(outcome, evidence=Evidence.FAILURE)
            if self.direct
            and self._is_slow(outcome.seconds)
            and outcome.evidence is Evidence.SUCCESS
            and not is_config_key(outcome.key)
            else outcome
            for outcome in outcomes
        )

    def _counted(self, delivery: Delivery, outcome: CallOutcome) -> OutcomeCounts:
        """What a call counts: a vote, if the message is received for the first time.

        Retries are the same message once more, and ill ones are retried most. But a retry that
        succeeds shows that the dependency works.
        """
        # Loaded with the first outcome, as is what adds outcomes up.
        from deadletter.circuit.outcomes import hash_of_tenant

        slow = int(self._is_slow(outcome.seconds))
        tenant = delivery.document.value["context"].get(TENANT)
        tenants = frozenset() if tenant is None else frozenset({hash_of_tenant(str(tenant))})
        circuit = self._known.get(outcome.key)
        # One of a sick kind says nothing of the others, and has no vote either.
        is_sick = bool(self._sick(delivery, circuit))
        is_retry = receive_of(delivery.record) > 1 or delivery.was_dead or is_sick
        kinds: Seen = {}
        if not is_retry and outcome.evidence in _VOTES and self._counts_kinds(outcome, circuit):
            seen = (0, 1) if outcome.evidence is Evidence.SUCCESS else (1, 0)
            kinds = dict.fromkeys(("", *self._kinds_of(delivery)), seen)
        if outcome.evidence is Evidence.SUCCESS:
            began = self.clock() - outcome.seconds
            if is_retry:
                return OutcomeCounts(retried_good=1, good_at=began)
            return OutcomeCounts(1, slow=slow, good_at=began, good_tenants=tenants, kinds=kinds)
        if outcome.evidence is Evidence.THROTTLED:
            return OutcomeCounts(throttled=1)
        if is_retry:
            return OutcomeCounts(retried_bad=1)
        return OutcomeCounts(bad=1, slow=slow, bad_tenants=tenants, kinds=kinds)

    def _counts_kinds(self, outcome: CallOutcome, circuit: Circuit | None) -> bool:
        """Whether votes are counted by kind: from the first failure that is known."""
        if is_config_key(outcome.key):
            return False
        if outcome.evidence is Evidence.FAILURE or outcome.key in self._failing:
            return True
        if circuit is None or not circuit.kinds:
            return False
        from deadletter.pace.kinds import any_fails

        return any_fails(circuit.kinds, self.clock())

    def _is_slow(self, seconds: float) -> bool:
        return seconds > self.pipeline.circuit.slow_call

    def _is_troubled(self, key: str) -> bool:
        """Whether failures count against a circuit, in this batch or in its record."""
        if key in self._failing:
            return True
        circuit = self._known.get(key)
        if circuit is None:
            return False
        window = circuit.in_window(self.pipeline.circuit, self.clock())
        return circuit.streak > 0 or any(bucket.bad for bucket in window)

    def report(self) -> None:
        """Report what was counted and not reported yet: the batch ends."""
        with self._lock:
            self.named.update(self._began)
            for key in list(self._counts):
                self._report(key)

    def _report(self, key: str) -> None:
        outcomes = self._counts.pop(key)
        with self.troubles.noticing(CircuitsUnavailable, Trouble.CIRCUITS):
            circuit = self.outcomes.report(key, outcomes, self._known.get(key))
            if circuit is not None:
                self._known[key] = circuit

    def _read(self, delivery: Delivery, keys: Iterable[str]) -> None:
        """Read all circuits of the batch. If they give no answer they are not asked again."""
        self._keys.update(keys)
        if self.troubles.has(Trouble.CIRCUITS):
            return
        now = self._read_at = self.clock()
        message_id, policy = delivery.letter.message_id, self.pipeline.circuit
        asked = sorted(key for key in self._keys if not self._need_not_read(key, now))
        with self.troubles.noticing(CircuitsUnavailable, Trouble.CIRCUITS, message_id):
            lagging = self.calm.keys() >= set(asked)
            known = self.circuits.read(asked, lagging=lagging)
            if lagging and not all(circuit.is_calm(policy, now) for circuit in known.values()):
                # Of an answer that may be old nothing is believed but that all is well.
                known = self.circuits.read(asked)
            self._known = dict(known)
            for key in asked:
                self.calm.pop(key, None)
                if known[key].is_calm(policy, now):
                    self.calm[key] = now

    def _need_not_read(self, key: str, now: float) -> bool:
        return is_config_key(key) and 0 <= now - self.calm.get(key, -math.inf) < SECONDS_CALM

    def _circuits(self, delivery: Delivery, keys: Sequence[str]) -> list[Circuit]:
        if self._read_at is None or not self._keys.issuperset(keys):
            self._read(delivery, keys)
        return [self._known[key] for key in keys if key in self._known]


_VOTES = (Evidence.SUCCESS, Evidence.FAILURE)

_BAD = (Evidence.FAILURE, Evidence.THROTTLED)


def _is_coroutine() -> bool:
    """Whether the caller runs in an event loop."""
    # Who has not loaded it runs none.
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False
