"""CLOSED, OPEN or HALF_OPEN for one downstream dependency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from deadletter.contract import CIRCUIT

BUCKETS = 6
"""Into how many parts a window is counted: the oldest part drops out as a whole."""

RAMP_STEPS = 5
"""Steps in which a closed circuit comes back to its full rate; a mapping is changed in each."""


class State(StrEnum):
    """Whether a dependency is believed to work (CLOSED), not to (OPEN) or is being tried."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class CircuitsUnavailable(Exception):
    """The circuits could not be read or written. Re-driving is never urgent: hold."""


@dataclass(frozen=True, slots=True)
class CircuitPolicy:
    """When a circuit opens, how long it stays open, and how it comes back.

    All durations are seconds. It opens when at least `minimum` outcomes lie within
    `window` and `failure_rate` of them (0 to 1) are failures, or after `consecutive`
    failures in a row (0: however many). The first cooldown is `cooldown`; each failed
    canary makes the next one `cooldown_factor` times as long, up to `cooldown_cap`; a
    circuit that opens again within `settle` after it closed goes on where it was.

    WARNING: `lease` must be longer than the downstream may take to answer a canary, or
    a second canary may be sent while the first still hangs. `successes` below 2 lets a
    flapping dependency close its circuit by one lucky answer.
    """

    failure_rate: float = CIRCUIT.failure_rate
    window: float = CIRCUIT.window
    minimum: int = CIRCUIT.minimum
    consecutive: int = CIRCUIT.consecutive
    cooldown: float = CIRCUIT.cooldown
    cooldown_factor: float = CIRCUIT.cooldown_factor
    cooldown_cap: float = CIRCUIT.cooldown_cap
    settle: float = CIRCUIT.settle
    lease: float = CIRCUIT.lease
    successes: int = CIRCUIT.successes
    ramp: float = CIRCUIT.ramp
    pause_consumer: bool = CIRCUIT.pause_consumer

    @property
    def bucket(self) -> float:
        """Seconds that one bucket counts."""
        return self.window / BUCKETS

    def bucket_of(self, moment: float) -> int:
        """The bucket that a moment (epoch seconds) is counted in; they are numbered for ever."""
        return int(moment // self.bucket)


@dataclass(frozen=True, slots=True)
class OutcomeBucket:
    """Outcomes of one part of the window; what said nothing of the dependency is not in it."""

    number: int
    good: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to send one canary; nobody else may until `until` (epoch seconds).

    Of a canary that goes through the main queue it says which letter it is: the origin id,
    the life it was sent into, and when (epoch seconds). Whoever probes next asks the ledger.
    """

    owner: str
    until: float
    origin: str | None = None
    attempt: int | None = None
    sent_at: float | None = None

    def lasts_for(self, seconds: float, now: float) -> bool:
        """Whether a canary that may take so long, sent now, is over before the lease is.

        A prober that was held up asks before it sends: by then the permit may be another's.
        """
        return now + seconds <= self.until


@dataclass(frozen=True, slots=True)
class Override:
    """A person's word that a circuit stays OPEN or CLOSED until `until` (epoch seconds)."""

    state: State
    by: str
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class Pause:
    """What was changed on the consumer's mapping, written before it is changed.

    `mapping` is the event source mapping's id, `concurrency` its own limit (None: it had
    none), to which it has to go back; `at` is epoch seconds.
    """

    mapping: str
    concurrency: int | None
    at: float


@dataclass(frozen=True, slots=True)
class Circuit:
    """One dependency's state; `key` is the pipeline's name or a value found in the message.

    All times are epoch seconds, 0 where there is none: circuits are shared by machines,
    and no machine knows another's monotonic clock.

    generation  grows with each change of state or permit; what comes from an older one
                changes nothing
    outage      the generation that the last trip began; with `restart` it names the
                execution that runs the outage
    started     when that execution was last due to start
    cooldown    what was, or will be, drawn from for `open_until`
    trips       how often it has opened without having settled in between
    successes   canaries in a row that came back well
    streak      failures in a row
    unreadable  its record is not understood: it lets nothing through, and only a person
                changes it
    """

    key: str
    state: State = State.CLOSED
    generation: int = 0
    outage: int = 0
    restart: int = 0
    started: float = 0.0
    open_until: float = 0.0
    cooldown: float = 0.0
    opened_at: float = 0.0
    closed_at: float = 0.0
    trips: int = 0
    permit: Permit | None = None
    successes: int = 0
    buckets: tuple[OutcomeBucket, ...] = ()
    streak: int = 0
    forced: Override | None = None
    paused: Pause | None = None
    unreadable: bool = False

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    def admits_canary(self, canary: str | None, now: float) -> bool:
        """Whether a letter with this mark is the one canary that may try the dependency now."""
        permit = self.permit
        return permit is not None and permit.owner == canary and now < permit.until

    def is_forced(self, now: float) -> bool:
        """Whether a person's word still counts."""
        return self.forced is not None and now < self.forced.until

    def ramp_step(self, policy: CircuitPolicy, now: float) -> int:
        """How far it has come back since it closed: 1 to RAMP_STEPS; 0 while it is not closed."""
        if not self.is_closed:
            return 0
        if not self.closed_at or policy.ramp <= 0:
            return RAMP_STEPS
        # Another machine's clock may be behind that of the one that closed it.
        since = max(0.0, now - self.closed_at)
        return min(RAMP_STEPS, 1 + int(since / policy.ramp * RAMP_STEPS))

    def admitted_share(self, policy: CircuitPolicy, now: float) -> float:
        """The share (0 to 1) of its rate at which letters go back now."""
        return self.ramp_step(policy, now) / RAMP_STEPS

    def counted(self, good: int, bad: int, policy: CircuitPolicy, now: float) -> Circuit:
        """With outcomes added to the present bucket, and those gone that no window holds."""
        number = policy.bucket_of(now)
        held = {one.number: one for one in self.in_window(policy, now)}
        one = held.get(number, OutcomeBucket(number))
        if good or bad:
            held[number] = OutcomeBucket(number, one.good + good, one.bad + bad)
        streak = (0 if good else self.streak + bad) if good or bad else self.streak
        return replace(self, buckets=tuple(held[at] for at in sorted(held)), streak=streak)

    def in_window(self, policy: CircuitPolicy, now: float) -> tuple[OutcomeBucket, ...]:
        """The buckets that count now; what came before the circuit closed does not."""
        last = policy.bucket_of(now)
        first = max(last - BUCKETS + 1, policy.bucket_of(self.closed_at))
        # One ahead: clocks differ.
        return tuple(one for one in self.buckets if first <= one.number <= last + 1)


class Circuits(Protocol):
    """Where the circuits are kept; raises CircuitsUnavailable when it cannot answer."""

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        """Each key's circuit; one that was never seen is CLOSED."""


class Outcomes(Protocol):
    """What consumers say of a dependency. It never raises and never costs a message."""

    def report(self, key: str, good: int, bad: int) -> None:
        """Add the outcomes of one batch; what says nothing of the dependency counts as neither."""
