"""CLOSED, OPEN or HALF_OPEN for one downstream dependency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol

from deadletter.contract import DAY, MINUTE, is_config_key
from deadletter.settings.setting import Constant, Derived, Seconds, Setting

if TYPE_CHECKING:
    from deadletter.pace.kinds import KindCount, Seen, SickKinds
    from deadletter.pace.pace import CallCount, CallPace, PaceGrant, Wish

BUCKETS = 6
"""The number of buckets in a window; the oldest bucket leaves the window as a whole."""

RAMP_STEPS = 5
"""Steps in which a closed circuit returns to its full rate; each changes the mapping once."""

NO_END = 253_402_214_400.0
"""The end of an override that has none: 9999-12-31 in epoch seconds.

A time, so that nothing that compares it needs a case for it."""


CONFIG_COOLDOWN = 60.0
"""Seconds between two canaries of a circuit for configuration."""


FEW_TENANTS = 3
"""Failures of fewer tenants do not open a circuit, unless no other tenants are seen."""


class State(StrEnum):
    """CLOSED: the dependency works. OPEN: it does not. HALF_OPEN: it is being tried."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class CircuitsUnavailable(Exception):
    """The circuits could not be read or written. Hold the letters: re-driving is never urgent."""


@dataclass(frozen=True, slots=True)
class CircuitPolicy:
    """When a circuit opens, how long it stays open, and how it recovers.

    All durations are seconds. A circuit opens

    - when at least `minimum` outcomes lie within `window` and `failure_rate` of them (0 to 1)
      are failures, or took longer than `slow_call`,
    - after `consecutive` failures in a row (0: never by that).

    Where tenants are known, failures open it only if they are not those of a few among many: at
    least half of the tenants seen in the window fail, and FEW_TENANTS of them or all. Of failures
    in a row that come all at once, half of as many tenants as there are failures are enough: the
    others had no turn yet.

    The first cooldown is `cooldown`; each failed canary makes the next one `cooldown_factor`
    times as long, up to `cooldown_cap`. A circuit that opens again within `settle` after it
    closed continues with the longer cooldown.

    WARNING: `lease` must be longer than the downstream may take to answer a canary, or
    a second canary may be sent while the first still waits. With `successes` below 2, one
    lucky answer of a flapping dependency closes its circuit.
    """

    failure_rate: Annotated[float, Setting(above=0, most=1)] = 0.5
    """Part of the outcomes in the window, failed or slow, that opens it."""
    # An outage shows within two minutes, and a bad minute is not all of the window.
    window: Constant[float] = 2 * MINUTE
    minimum: Annotated[int, Setting(least=1, most=100000)] = 20
    """Outcomes in the window below which no rate opens."""
    consecutive: Annotated[int, Setting(least=0, most=100000)] = 10
    """Failures in a row that open it too; 0: no number does."""
    cooldown: Annotated[Seconds, Setting(least=1, most=DAY)] = 30
    """How long it stays open the first time."""
    # What does not come back is asked less and less.
    cooldown_factor: Constant[float] = 2.0
    # A canary a minute costs little, and finds the end of an outage soon.
    cooldown_cap: Constant[float] = MINUTE
    # What fails again so soon was not over.
    settle: Constant[float] = 10 * MINUTE
    lease: Derived[float] = 2 * MINUTE
    # One lucky answer closes nothing.
    successes: Constant[int] = 2
    # As long as caches and pools need to fill.
    ramp: Constant[float] = MINUTE
    # A call that takes longer is slow.
    slow_call: Constant[float] = MINUTE
    # The webhook dispatcher's mapping is ours, and a function's is named to be paused.
    pause_consumer: Derived[bool] = False

    def of(self, key: str) -> CircuitPolicy:
        """The policy of the circuit of a key.

        A circuit for configuration waits for a person: it is tried once a minute, closes with the
        first success and admits everything at once, and never pauses the consumer, which may have
        other work.
        """
        if not is_config_key(key):
            return self
        return replace(
            self,
            cooldown=CONFIG_COOLDOWN,
            cooldown_factor=1.0,
            cooldown_cap=CONFIG_COOLDOWN,
            successes=1,
            ramp=0.0,
            pause_consumer=False,
        )

    @property
    def bucket(self) -> float:
        """Seconds that one bucket counts."""
        return self.window / BUCKETS

    def bucket_of(self, moment: float) -> int:
        """The number of the bucket for a moment (epoch seconds); numbers never repeat."""
        return int(moment // self.bucket)


@dataclass(frozen=True, slots=True)
class OutcomeBucket:
    """The outcomes in one part of the window. Outcomes that are no evidence are not counted.

    The tenants are hashes of some whose calls succeeded or failed, while there are failures.
    """

    number: int
    good: int = 0
    bad: int = 0
    slow: int = 0
    good_tenants: frozenset[int] = frozenset()
    bad_tenants: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to send one canary, exclusive until `until` (epoch seconds).

    For a canary that goes through the main queue it names the letter: the origin id, the
    life that it was sent into, and the time (epoch seconds). The next probe looks up the
    result in the ledger.
    """

    owner: str
    until: float
    origin: str | None = None
    attempt: int | None = None
    sent_at: float | None = None

    def lasts_for(self, seconds: float, now: float) -> bool:
        """True if a canary that may take `seconds` ends before the lease does.

        A prober that was delayed checks this before it sends: the permit may have passed to
        another prober.
        """
        return now + seconds <= self.until


@dataclass(frozen=True, slots=True)
class Override:
    """A manual override: a circuit stays OPEN or CLOSED until `until` (epoch seconds).

    With `NO_END` it stays so until a person ends the override. `begun` is when it began; None
    before it has. `canary_until` is when the lease ends of a canary that was
    under way when it began: until then no other may be sent.
    """

    state: State
    by: str
    reason: str
    until: float
    begun: float | None = None
    canary_until: float | None = None

    @property
    def has_end(self) -> bool:
        return self.until < NO_END


class Pollers(NamedTuple):
    """The limits of a mapping in provisioned mode; each poller serves 10 invocations at once."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of the consumer's event source mapping, written before the mapping is changed.

    `mapping` is its id, `concurrency` the limit to restore (None: it had no limit), `at`
    the time in epoch seconds. A mapping in provisioned mode has `pollers` to restore instead.
    """

    mapping: str
    concurrency: int | None
    at: float
    pollers: Pollers | None = None


@dataclass(frozen=True, slots=True)
class Circuit:
    """One dependency's state; `key` is the pipeline's name or a value from the message.

    All times are epoch seconds, 0 if unset: circuits are shared by machines, and no machine
    can read another's monotonic clock.

    generation  grows with each change of state or permit; events of an older generation
                change nothing
    outage      the generation that the last trip began; with `restart` it names the
                execution that runs the outage
    started     when that execution was last due to start
    cooldown    the longest duration of the present cooldown; `open_until` is drawn from it
    trips       how often it has opened without settling in between
    successes   canaries in a row that succeeded
    streak      failures in a row
    streak_tenants  hashes of some tenants whose calls failed in that streak
    rate        successes per second before the last trip, 0 if unknown
    pace        how fast calls may go while it is closed; that of before while it is not
    calls       all calls of the last seconds, which the pace is set by
    kinds       first receives of the last minutes, by the kinds that failed
    sick        kinds of messages that are slowed, as they fail while all others succeed
    because     why it last opened, for people; empty if that is not on record
    bounded     the consumer's mapping has a MaximumConcurrency, as the watch saw it last; of the
                pipeline's own circuit alone
    by_hand     a person opened it while it was closed, and no canary has failed since: nothing
                speaks against its dependency
    total_calls    all calls since `counted_since` that spoke for or against it
    total_failed   those that failed, or were answered that there are too many
    total_refused  messages given back since then while it was not closed; at least: what a
                   process refuses goes with its next report of a call
    openings    how often it has opened, by itself or by a person
    unreadable  its record cannot be read: no letter passes, and only a person changes it
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
    streak_tenants: frozenset[int] = frozenset()
    rate: float = 0.0
    pace: CallPace | None = None
    calls: tuple[CallCount, ...] = ()
    bounded: bool = False
    kinds: tuple[KindCount, ...] = ()
    sick: SickKinds | None = None
    by_hand: bool = False
    forced: Override | None = None
    paused: Pause | None = None
    because: str = ""
    total_calls: int = 0
    total_failed: int = 0
    total_refused: int = 0
    openings: int = 0
    counted_since: float = 0.0
    unreadable: bool = False

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    def admits_canary(self, canary: str | None, now: float) -> bool:
        """True if a letter with this stamp is the canary that may try the dependency now."""
        permit = self.permit
        return permit is not None and permit.owner == canary and now < permit.until

    def is_forced(self, now: float) -> bool:
        """True while a manual override holds."""
        return self.forced is not None and now < self.forced.until

    def is_calm(self, policy: CircuitPolicy, now: float) -> bool:
        """True while nothing speaks against its dependency, and nothing has for a while."""
        counted = self.streak or self.calls or self.kinds or self.sick
        return (
            self.is_closed
            and now - self.closed_at > policy.settle
            and not counted
            and self.paced(now) is None
            and not any(bucket.bad or bucket.slow for bucket in self.in_window(policy, now))
        )

    def paced(self, now: float) -> CallPace | None:
        """The pace that limits calls now, if one does."""
        limits = self.is_closed and self.pace is not None and self.pace.is_on(now)
        return self.pace if limits else None

    def takes_letters(self, now: float) -> bool:
        """Whether a letter that goes back would be tried soon: no outage, no long wait."""
        pace = self.paced(now)
        return self.is_closed and (pace is None or not pace.waits_long(now))

    @property
    def held_since(self) -> float | None:
        """When a person began to hold it without an end; None if no such override holds it."""
        return None if self.forced is None or self.forced.has_end else self.forced.begun

    def ramp_step(self, policy: CircuitPolicy, now: float) -> int:
        """The step of the ramp since it closed: 1 to RAMP_STEPS; 0 while it is not closed."""
        if not self.is_closed:
            return 0
        ramp = policy.of(self.key).ramp
        if not self.closed_at or ramp <= 0:
            return RAMP_STEPS
        # This machine's clock may be behind the clock of the one that closed it.
        since = max(0.0, now - self.closed_at)
        return min(RAMP_STEPS, 1 + int(since / ramp * RAMP_STEPS))

    def admitted_share(self, policy: CircuitPolicy, now: float) -> float:
        """The share (0 to 1) of the full rate at which letters are sent now."""
        return self.ramp_step(policy, now) / RAMP_STEPS

    def with_outcomes(self, good: int, bad: int, policy: CircuitPolicy, now: float) -> Circuit:
        """The circuit with outcomes added to the present bucket, and without outdated buckets."""
        number = policy.bucket_of(now)
        buckets = {bucket.number: bucket for bucket in self.in_window(policy, now)}
        present = buckets.get(number, OutcomeBucket(number))
        if good or bad:
            buckets[number] = replace(present, good=present.good + good, bad=present.bad + bad)
        streak = (0 if good else self.streak + bad) if good or bad else self.streak
        return replace(
            self,
            buckets=tuple(buckets[key] for key in sorted(buckets)),
            streak=streak,
            streak_tenants=self.streak_tenants if streak else frozenset(),
        )

    def in_window(self, policy: CircuitPolicy, now: float) -> tuple[OutcomeBucket, ...]:
        """The buckets that count now; outcomes from before the circuit closed do not."""
        last = policy.bucket_of(now)
        first = max(last - BUCKETS + 1, policy.bucket_of(self.closed_at))
        # One ahead, because clocks differ.
        return tuple(bucket for bucket in self.buckets if first <= bucket.number <= last + 1)


class Circuits(Protocol):
    """The store of circuits, for reading; raises CircuitsUnavailable."""

    def read(self, keys: Sequence[str], *, lagging: bool = False) -> Mapping[str, Circuit]:
        """The circuit of each key; a key without a record has a CLOSED one.

        A `lagging` read costs half as much, and may miss what was written just now.
        """


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """Outcomes of calls to one dependency, in their order; those that are no evidence are left out.

    good, bad     votes: calls for messages that were received for the first time
    retried_good  successes of messages that were received before; they end a streak
    retried_bad   their failures
    throttled     calls that a dependency which works refused because there are too many
    slow          how many of the votes took longer than the policy's `slow_call`
    last_bad      how many failed after the last success, None if that is unknown
    good_at       when the last call that succeeded began (epoch seconds), None if unknown
    good_tenants  hashes of the tenants whose calls succeeded, where the tenant is known
    bad_tenants   hashes of the tenants whose calls failed
    kinds         the votes by the messages' kinds, once a failure is known
    refused       messages given back because the circuit is not closed; no calls
    """

    good: int = 0
    bad: int = 0
    slow: int = 0
    last_bad: int | None = None
    good_at: float | None = None
    good_tenants: frozenset[int] = frozenset()
    bad_tenants: frozenset[int] = frozenset()
    retried_good: int = 0
    retried_bad: int = 0
    throttled: int = 0
    kinds: Seen = field(default_factory=dict)
    refused: int = 0

    @property
    def total(self) -> int:
        """How many votes there are."""
        return self.good + self.bad

    @property
    def any_good(self) -> bool:
        """Whether a call succeeded."""
        return bool(self.good or self.retried_good)

    @property
    def streak(self) -> int:
        """Failures after the last success; none are known to be, where the order is unknown."""
        if not self.any_good:
            return self.bad
        return self.last_bad or 0

    def then(self, later: OutcomeCounts) -> OutcomeCounts:
        """These outcomes, and after them `later`."""
        kinds = self.kinds or later.kinds
        if self.kinds and later.kinds:
            from deadletter.pace.kinds import both

            kinds = both(self.kinds, later.kinds)
        return OutcomeCounts(
            self.good + later.good,
            self.bad + later.bad,
            self.slow + later.slow,
            later.streak if later.any_good else self.streak + later.bad,
            later.good_at if later.any_good else self.good_at,
            self.good_tenants | later.good_tenants,
            self.bad_tenants | later.bad_tenants,
            self.retried_good + later.retried_good,
            self.retried_bad + later.retried_bad,
            self.throttled + later.throttled,
            kinds,
            self.refused + later.refused,
        )


class Outcomes(Protocol):
    """The outcomes that consumers report. It never raises and never fails a message."""

    def report(
        self, key: str, outcomes: OutcomeCounts, known: Circuit | None = None
    ) -> Circuit | None:
        """Add outcomes to the circuit of a key; `known` is the circuit as it was last read.

        Returns the circuit as it is then, None if they were not written (yet).
        """

    def take(
        self, known: Circuit, outcomes: OutcomeCounts, wish: Wish
    ) -> tuple[Circuit, PaceGrant] | None:
        """Add outcomes to a circuit that is paced, and take calls or places from its pace.

        Returns the circuit as it is then and what it grants; None if it gives no answer. Never
        more than the pace allows is granted, however many processes ask: what is granted and not
        used is lost.
        """

    def slow(
        self, known: Circuit, change: Callable[[SickKinds], SickKinds | None]
    ) -> tuple[Circuit, bool] | None:
        """Change which kinds of messages are slowed; `change` returns None to leave them.

        Returns the circuit as it is then, and whether it was changed; None without an answer.
        """
