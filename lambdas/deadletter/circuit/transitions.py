"""The transitions of a circuit: each event, and the state that it leads to.

CLOSED ── too many failures ─────────────► OPEN ── cooled down, permit taken ──► HALF_OPEN
  ▲                                         ▲                                     │   │
  │                                         └── any failure, or no answer: longer ┘   │
  └──────────────── as many successes in a row as the policy asks for ────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Protocol

from deadletter.circuit.state import (
    FEW_TENANTS,
    Circuit,
    CircuitPolicy,
    Override,
    Pause,
    Permit,
    Pollers,
    State,
)
from deadletter.contract import is_config_key

if TYPE_CHECKING:
    from deadletter.pace.pace import CallPace

CLOCK_SKEW = 10.0
"""Seconds by which the clocks of two machines may differ, added to a lease before it is over."""

SHORTEST_COOLDOWN = 0.6
"""The least share of a cooldown that is waited; the rest is jitter. Above 1/factor, so that a
longer cooldown is never drawn shorter than the one before."""

_MOST_BECAUSE = 200  # characters: each KB of the row costs at every write

_REPORTED = "a source that is relied on said that the dependency is down"


class CanaryVerdict(StrEnum):
    """The result of a canary. NEUTRAL is no evidence (the letter's own fault, or a duplicate);
    NO_ANSWER counts as a failure although the canary may have worked. ELSEWHERE is evidence for
    or against another circuit, such as that of the letter's endpoint: it closes only what a
    person opened, as nothing speaks against that."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"
    ELSEWHERE = "elsewhere"
    NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class Reported:
    """Consumers reported outcomes. With zeros, only the counts in the circuit are judged."""

    good: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Tripped:
    """A reliable source reports that the dependency is down."""


@dataclass(frozen=True, slots=True)
class PermitTaken:
    """A prober asks for the permit. `owner` is new for each canary, retries included."""

    owner: str


@dataclass(frozen=True, slots=True)
class CanarySent:
    """The canary of this generation and owner will be sent through the main queue, as the letter
    `origin` in its life `attempt`. Recorded before it is sent, so that it is never unknown."""

    generation: int
    owner: str
    origin: str
    attempt: int


@dataclass(frozen=True, slots=True)
class CanaryAnswered:
    """The canary of this generation and owner has ended."""

    generation: int
    owner: str
    verdict: CanaryVerdict


@dataclass(frozen=True, slots=True)
class CanaryLost:
    """The lease of this generation's permit has ended without a report of its owner."""

    generation: int


@dataclass(frozen=True, slots=True)
class ExecutionLost:
    """The execution that runs the outage is lost: the next one is due."""

    generation: int
    restart: int


@dataclass(frozen=True, slots=True)
class OverrideBegun:
    """A person opens or closes the circuit, regardless of outcomes. It begins now, whatever the
    override says."""

    force: Override


@dataclass(frozen=True, slots=True)
class OverrideEnded:
    """A person ends the manual override."""


@dataclass(frozen=True, slots=True)
class MappingPaused:
    """The consumer's mapping is about to be disabled. Reported only by code that saw it enabled."""

    mapping: str
    concurrency: int | None
    pollers: Pollers | None = None


@dataclass(frozen=True, slots=True)
class MappingPutBack:
    """The consumer's mapping is restored."""

    mapping: str


@dataclass(frozen=True, slots=True)
class MappingSeen:
    """The consumer's mapping was looked at: whether it has a MaximumConcurrency."""

    bounded: bool


Event = (
    Reported
    | Tripped
    | PermitTaken
    | CanarySent
    | CanaryAnswered
    | CanaryLost
    | ExecutionLost
    | OverrideBegun
    | OverrideEnded
    | MappingPaused
    | MappingPutBack
    | MappingSeen
)


class Refusal(StrEnum):
    """The reason why an event changes nothing."""

    HEALTHY = "there are too few failures"
    NOT_CLOSED = "the circuit is not closed"
    NOT_OPEN = "the circuit is closed"
    COOLING = "the cooldown is not over"
    PERMIT_TAKEN = "another canary is under way"
    LEASE_ENDED = "the permit's lease has ended without a result"
    STALE = "the event belongs to an older generation"
    NOT_OWNER = "the permit belongs to another owner"
    FORCED = "a manual override holds the circuit"
    NOT_FORCED = "the circuit has no manual override"
    EXPIRED = "the expiry is not in the future"
    ANOTHER_MAPPING = "another mapping is paused"
    UNREADABLE = "the circuit's record cannot be read"


def transition(
    circuit: Circuit, event: Event, policy: CircuitPolicy, now: float, random: Random
) -> Circuit | Refusal:
    """The circuit after an event, or the reason why the event is refused.

    A circuit for configuration follows a policy of its own (`CircuitPolicy.of`). An event whose
    work is already done returns the circuit unchanged. The result depends on
    the arguments alone: the same circuit, event, policy, time and random state give the
    same result.
    """
    if circuit.unreadable and not isinstance(event, OverrideBegun | OverrideEnded):
        return Refusal.UNREADABLE
    policy = policy.of(circuit.key)
    match event:
        case Reported():
            return _reported(circuit, event, policy, now, random)
        case Tripped():
            return _tripped(circuit, policy, now, random, _REPORTED)
        case PermitTaken():
            return _permit_taken(circuit, event, policy, now)
        case CanarySent():
            return _sent(circuit, event, now)
        case CanaryAnswered():
            return _answered(circuit, event, policy, now, random)
        case CanaryLost():
            return _canary_lost(circuit, event, policy, now, random)
        case ExecutionLost():
            return _execution_lost(circuit, event, now)
        case OverrideBegun():
            return _override_begun(circuit, event.force, policy, now)
        case OverrideEnded():
            return _override_ended(circuit, now)
        case MappingPaused():
            return _paused(circuit, event, now)
        case MappingPutBack():
            return _put_back(circuit, event)
        case MappingSeen():
            return replace(circuit, bounded=event.bounded)


def _reported(
    circuit: Circuit, event: Reported, policy: CircuitPolicy, now: float, random: Random
) -> Circuit | Refusal:
    counted = circuit.with_outcomes(event.good, event.bad, policy, now)
    if circuit.is_closed and not circuit.is_forced(now) and _fails(counted, policy, now):
        because = _failures(counted, policy, now)
        return _tripped(counted, policy, now, random, because)
    return counted if event.good or event.bad else Refusal.HEALTHY


def _fails(circuit: Circuit, policy: CircuitPolicy, now: float) -> bool:
    buckets = circuit.in_window(policy, now)
    bad, slow = sum(bucket.bad for bucket in buckets), sum(bucket.slow for bucket in buckets)
    total = bad + sum(bucket.good for bucket in buckets)
    enough = total >= max(1, policy.minimum)
    too_many = bad > 0 and bad >= policy.failure_rate * total
    in_a_row = policy.consecutive > 0 and circuit.streak >= policy.consecutive
    too_slow = slow > 0 and slow >= policy.failure_rate * total
    failing = _tenants(bucket.bad_tenants for bucket in buckets)
    seen = failing | circuit.streak_tenants | _tenants(bucket.good_tenants for bucket in buckets)
    half_fail = 2 * len(failing) >= len(seen)
    # When all at once fail, those that succeeded before had no turn to fail yet.
    all_at_once = bad < 2 * circuit.streak
    if circuit.paced(now) is not None:
        from deadletter.pace.pace import failed_lately

        # Messages that return are most of what is called: so many in a row show that it is dead.
        if policy.consecutive > 0 and circuit.streak >= 2 * policy.consecutive:
            return True
        if not failed_lately(circuit.calls, now):
            # The pace has its chance first.
            return False
    half_of_streak = all_at_once and 2 * len(failing) >= min(len(seen), circuit.streak)
    all_dead = (
        enough and too_many and (half_fail or not failing) and not _are_few(failing, seen)
    ) or (
        in_a_row
        and (half_fail or half_of_streak or not failing)
        and not _are_few(circuit.streak_tenants, seen)
    )
    return (all_dead and not _is_explained(circuit, policy, now)) or (enough and too_slow)


def _is_explained(circuit: Circuit, policy: CircuitPolicy, now: float) -> bool:
    """Whether all that fails is of a few kinds of messages, while the others succeed."""
    if not circuit.kinds:
        return False
    from deadletter.pace.kinds import MOST_IN_A_ROW, explains

    others_had_turn = circuit.streak >= max(MOST_IN_A_ROW, 2 * policy.consecutive)
    return not others_had_turn and explains(circuit.kinds, circuit.closed_at, now)


def _failures(circuit: Circuit, policy: CircuitPolicy, now: float) -> str:
    """The outcomes for which a circuit opens, as its window counts them."""
    buckets = circuit.in_window(policy, now)
    bad, slow = sum(bucket.bad for bucket in buckets), sum(bucket.slow for bucket in buckets)
    total = bad + sum(bucket.good for bucket in buckets)
    counted = [
        f"{bad} of {total} calls failed in {policy.window:g} s" if bad else "",
        f"{circuit.streak} failed in a row" if circuit.streak > 1 else "",
        f"{slow} of {total} took over {policy.slow_call:g} s" if slow else "",
    ]
    return ", ".join(text for text in counted if text)


def _tenants(groups: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*groups)


def _are_few(tenants: frozenset[int], seen: frozenset[int]) -> bool:
    """True if these are few of the tenants that are seen; without any, nothing is known."""
    return 0 < len(tenants) < min(FEW_TENANTS, len(seen))


def _tripped(
    circuit: Circuit, policy: CircuitPolicy, now: float, random: Random, because: str
) -> Circuit | Refusal:
    if not circuit.is_closed:
        return Refusal.NOT_CLOSED
    if circuit.is_forced(now):
        return Refusal.FORCED
    settled = _has_settled(circuit, policy, now)
    opened = _new_outage(circuit, policy, now, because)
    cooldown = policy.cooldown if settled else _longer(circuit, policy)
    trips = 1 if settled else circuit.trips + 1
    return _cooling(replace(opened, trips=trips), cooldown, now, random)


def _has_settled(circuit: Circuit, policy: CircuitPolicy, now: float) -> bool:
    return not circuit.closed_at or now - circuit.closed_at >= policy.settle


def _rate_before(circuit: Circuit, policy: CircuitPolicy, now: float) -> float:
    """Successes per second in the window's best bucket.

    A circuit that had just closed, or is paced, keeps the higher rate of before.
    """
    best = max((bucket.good for bucket in circuit.in_window(policy, now)), default=0)
    rate = best / policy.bucket
    is_itself = _has_settled(circuit, policy, now) and circuit.paced(now) is None
    return rate if is_itself else max(rate, circuit.rate)


def _new_outage(circuit: Circuit, policy: CircuitPolicy, now: float, because: str) -> Circuit:
    """OPEN for a reason, for a new outage that an execution of its own runs."""
    generation = circuit.generation + 1
    return replace(
        circuit,
        state=State.OPEN,
        generation=generation,
        outage=generation,
        restart=0,
        started=now,
        openings=circuit.openings + 1,
        opened_at=now,
        permit=None,
        successes=0,
        rate=_rate_before(circuit, policy, now),
        by_hand=False,
        forced=None,
        because=because[:_MOST_BECAUSE],
    )


def _cooling(circuit: Circuit, cooldown: float, now: float, random: Random) -> Circuit:
    drawn = cooldown * (SHORTEST_COOLDOWN + (1 - SHORTEST_COOLDOWN) * random.random())
    return replace(circuit, cooldown=cooldown, open_until=now + drawn)


def _longer(circuit: Circuit, policy: CircuitPolicy) -> float:
    last = circuit.cooldown or policy.cooldown
    return min(policy.cooldown_cap, last * policy.cooldown_factor)


def _permit_taken(
    circuit: Circuit, event: PermitTaken, policy: CircuitPolicy, now: float
) -> Circuit | Refusal:
    if circuit.is_closed:
        return Refusal.NOT_OPEN
    if circuit.is_forced(now):
        return Refusal.FORCED
    if circuit.state is State.OPEN and now < circuit.open_until:
        return Refusal.COOLING
    if circuit.permit is not None:
        return Refusal.LEASE_ENDED if _lease_is_over(circuit.permit, now) else Refusal.PERMIT_TAKEN
    return replace(
        circuit,
        state=State.HALF_OPEN,
        generation=circuit.generation + 1,
        permit=Permit(event.owner, now + policy.lease),
        forced=None,
    )


def _lease_is_over(permit: Permit, now: float) -> bool:
    """True if it is over by every machine's clock, the owner's included."""
    return now > permit.until + CLOCK_SKEW


def _sent(circuit: Circuit, event: CanarySent, now: float) -> Circuit | Refusal:
    permit = _permit_of(circuit, event)
    if isinstance(permit, Refusal):
        return permit
    named = replace(permit, origin=event.origin, attempt=event.attempt, sent_at=now)
    return replace(circuit, permit=named)


def _permit_of(circuit: Circuit, event: CanarySent | CanaryAnswered) -> Permit | Refusal:
    """The permit that the event belongs to, if it is still valid."""
    if circuit.state is not State.HALF_OPEN or circuit.generation != event.generation:
        return Refusal.STALE
    if circuit.permit is None or circuit.permit.owner != event.owner:
        return Refusal.NOT_OWNER
    return circuit.permit


def _answered(
    circuit: Circuit, event: CanaryAnswered, policy: CircuitPolicy, now: float, random: Random
) -> Circuit | Refusal:
    permit = _permit_of(circuit, event)
    if isinstance(permit, Refusal):
        return permit
    match event.verdict:
        case CanaryVerdict.SUCCESS:
            return _succeeded(circuit, policy, now)
        case CanaryVerdict.ELSEWHERE if circuit.by_hand:
            # Nothing speaks against this one, and the other circuit holds its own letters.
            return _succeeded(circuit, policy, now)
        case CanaryVerdict.NEUTRAL | CanaryVerdict.ELSEWHERE:
            return replace(circuit, generation=circuit.generation + 1, permit=None)
        case CanaryVerdict.FAILURE | CanaryVerdict.NO_ANSWER:
            return _reopened(circuit, policy, now, random)


def _succeeded(circuit: Circuit, policy: CircuitPolicy, now: float) -> Circuit:
    successes = circuit.successes + 1
    if successes >= policy.successes:
        return _closed(circuit, now)
    generation = circuit.generation + 1
    return replace(circuit, generation=generation, permit=None, successes=successes)


def _closed(circuit: Circuit, now: float) -> Circuit:
    """CLOSED, with no outcomes counted."""
    return replace(
        circuit,
        state=State.CLOSED,
        generation=circuit.generation + 1,
        open_until=0.0,
        closed_at=now,
        permit=None,
        successes=0,
        buckets=(),
        streak=0,
        streak_tenants=frozenset(),
        pace=circuit.pace if circuit.is_closed else _pace(circuit, now),
        calls=(),
        by_hand=False,
        forced=None,
    )


def _pace(circuit: Circuit, now: float) -> CallPace | None:
    """The pace of a dependency that comes back; a repaired configuration needs none."""
    if is_config_key(circuit.key):
        return None
    from deadletter.pace.pace import after_outage

    return after_outage(circuit.rate, circuit.pace, now)


def _reopened(circuit: Circuit, policy: CircuitPolicy, now: float, random: Random) -> Circuit:
    """OPEN for longer, in the same outage."""
    opened = replace(
        circuit,
        state=State.OPEN,
        generation=circuit.generation + 1,
        permit=None,
        successes=0,
        by_hand=False,
    )
    return _cooling(opened, _longer(circuit, policy), now, random)


def _canary_lost(
    circuit: Circuit, event: CanaryLost, policy: CircuitPolicy, now: float, random: Random
) -> Circuit | Refusal:
    if circuit.generation != event.generation or circuit.permit is None:
        return Refusal.STALE
    if not _lease_is_over(circuit.permit, now):
        return Refusal.PERMIT_TAKEN
    return _reopened(circuit, policy, now, random)


def _execution_lost(circuit: Circuit, event: ExecutionLost, now: float) -> Circuit | Refusal:
    if circuit.is_closed:
        return Refusal.NOT_OPEN
    # A newer generation shows that the execution is alive.
    if (circuit.generation, circuit.restart) != (event.generation, event.restart):
        return Refusal.STALE
    return replace(circuit, restart=circuit.restart + 1, started=now)


def _override_begun(
    circuit: Circuit, override: Override, policy: CircuitPolicy, now: float
) -> Circuit | Refusal:
    if override.until <= now:
        return Refusal.EXPIRED
    override = replace(override, begun=now, canary_until=_canary_until(circuit))
    current = _taken_over(circuit, now)
    if override.state is State.CLOSED:
        closed = _closed(current, current.closed_at if current.is_closed else now)
        return replace(closed, forced=override)
    # No execution has been started: the reconciler may start one at once.
    because = f"{override.by} opened it: {override.reason}"
    opened = (
        replace(_new_outage(current, policy, now, because), started=0.0, by_hand=True)
        if current.is_closed
        else current
    )
    return replace(
        opened,
        state=State.OPEN,
        generation=current.generation + 1,
        open_until=_after_canary(override, override.until),
        cooldown=opened.cooldown or policy.cooldown,
        permit=None,
        successes=0,
        forced=override,
    )


def _override_ended(circuit: Circuit, now: float) -> Circuit | Refusal:
    if not circuit.unreadable and circuit.forced is None:
        return Refusal.NOT_FORCED
    current = _taken_over(circuit, now)
    free = replace(current, generation=current.generation + 1, forced=None)
    if current.state is not State.OPEN:
        return free
    # It was open because a person said so: a canary may test the dependency at once.
    moment = now if current.forced is None else _after_canary(current.forced, now)
    return replace(free, open_until=moment)


def _canary_until(circuit: Circuit) -> float | None:
    """When the lease ends of the canary that may be under way."""
    if circuit.permit is not None:
        return circuit.permit.until
    return None if circuit.forced is None else circuit.forced.canary_until


def _after_canary(override: Override, moment: float) -> float:
    """The moment, or a later one at which the canary from before the override has ended."""
    until = override.canary_until
    return moment if until is None else max(moment, until + CLOCK_SKEW)


def _taken_over(circuit: Circuit, now: float) -> Circuit:
    """The circuit, taken from the execution that ran it so far.

    That execution may wait until the expiry of an earlier override. When it wakes, it finds
    another restart number and ends. The reconciler continues the outage at once.
    """
    readable = _readable(circuit, now)
    if readable.is_closed:
        return readable
    return replace(readable, restart=readable.restart + 1, started=0.0)


def _readable(circuit: Circuit, now: float) -> Circuit:
    """The circuit, or a new OPEN one if it is unreadable.

    The old generation is unknown. The seconds since 1970 are above any number of changes.
    """
    if not circuit.unreadable:
        return circuit
    generation = int(now)
    return Circuit(
        circuit.key, State.OPEN, generation, outage=generation, opened_at=now, unreadable=False
    )


def _paused(circuit: Circuit, event: MappingPaused, now: float) -> Circuit | Refusal:
    if circuit.is_closed:
        return Refusal.NOT_OPEN
    if circuit.paused is None:
        return replace(circuit, paused=Pause(event.mapping, event.concurrency, now, event.pollers))
    # Keep the first record: the present state of the mapping may be our own change.
    return circuit if circuit.paused.mapping == event.mapping else Refusal.ANOTHER_MAPPING


def _put_back(circuit: Circuit, event: MappingPutBack) -> Circuit | Refusal:
    if circuit.paused is None:
        return circuit
    if not circuit.is_closed:
        return Refusal.NOT_CLOSED
    if circuit.paused.mapping != event.mapping:
        return Refusal.ANOTHER_MAPPING
    return replace(circuit, paused=None)


@dataclass(frozen=True, slots=True)
class TransitionResult:
    """The circuit after an event, and the reason if the event was refused."""

    circuit: Circuit
    refused: Refusal | None = None


class Breaker(Protocol):
    """The store of circuits, for changing; raises CircuitsUnavailable if the result is unknown.

    The caller then has no permit, and asks again with another owner.
    """

    def apply(self, key: str, event: Event) -> TransitionResult:
        """Apply an event to the stored circuit; the result has the refusal if there is one."""

    def troubled(self) -> Sequence[Circuit]:
        """The circuits that are not closed, have an override, or have a paused consumer."""
