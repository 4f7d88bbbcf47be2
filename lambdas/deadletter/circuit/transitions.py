"""What happens to a circuit, and what becomes of it: every change of state is decided here.

CLOSED ── too many failures ─────────────► OPEN ── cooled down, permit taken ──► HALF_OPEN
  ▲                                         ▲                                     │   │
  │                                         └── any failure, or no answer: longer ┘   │
  └──────────────── as many successes in a row as the policy asks for ────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Protocol

from deadletter.circuit.state import Circuit, CircuitPolicy, Override, Pause, Permit, State

CLOCK_SKEW = 10.0
"""Seconds by which two machines' clocks may differ: a lease is over for others only after it."""

SHORTEST_COOLDOWN = 0.75
"""The share of a cooldown that is waited out at least; the rest is jitter. Above 1/factor,
so that a longer cooldown is never drawn shorter than the one before."""


class CanaryVerdict(StrEnum):
    """What a canary says of the dependency; NEUTRAL says nothing (the letter's own fault, or a
    duplicate), NO_ANSWER is a failure that may have worked."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"
    NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class Reported:
    """Consumers said how letters fared; with zeros, what stands in the circuit is judged."""

    good: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Tripped:
    """Somebody who can tell says that the dependency is down."""


@dataclass(frozen=True, slots=True)
class PermitTaken:
    """A prober wants to send the canary. `owner` is new for each canary, retries included."""

    owner: str


@dataclass(frozen=True, slots=True)
class CanarySent:
    """The canary of this generation and owner is about to go through the main queue, as the
    letter `origin` in its life `attempt`: said before it is sent, so that it is never unknown."""

    generation: int
    owner: str
    origin: str
    attempt: int


@dataclass(frozen=True, slots=True)
class CanaryAnswered:
    """The canary of this generation and owner came to an end."""

    generation: int
    owner: str
    verdict: CanaryVerdict


@dataclass(frozen=True, slots=True)
class CanaryLost:
    """The lease of this generation's permit has ended, and its owner has said nothing."""

    generation: int


@dataclass(frozen=True, slots=True)
class ExecutionLost:
    """An outage has nobody who runs it: its next execution is due."""

    generation: int
    restart: int


@dataclass(frozen=True, slots=True)
class OverrideBegun:
    """A person opens or closes the circuit, whatever the outcomes say."""

    force: Override


@dataclass(frozen=True, slots=True)
class OverrideEnded:
    """A person leaves the circuit to itself again."""


@dataclass(frozen=True, slots=True)
class MappingPaused:
    """The consumer's mapping is about to be disabled. Only who saw it enabled may say so."""

    mapping: str
    concurrency: int | None


@dataclass(frozen=True, slots=True)
class MappingPutBack:
    """The consumer's mapping is again as it was."""

    mapping: str


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
)


class Refusal(StrEnum):
    """Why an event changes nothing."""

    HEALTHY = "there are too few failures"
    NOT_CLOSED = "the circuit is not closed"
    NOT_OPEN = "the circuit is closed"
    COOLING = "the cooldown is not over"
    PERMIT_TAKEN = "another canary is under way"
    LEASE_ENDED = "the permit's lease has ended and nobody has said so"
    STALE = "it comes from an older generation"
    NOT_OWNER = "the permit is another's"
    FORCED = "a person holds the circuit"
    NOT_FORCED = "nobody holds the circuit"
    EXPIRED = "the expiry is not in the future"
    ANOTHER_MAPPING = "another mapping is paused"
    UNREADABLE = "the circuit's record is not understood"


def bounces(sent: int, came_back: int, policy: CircuitPolicy) -> tuple[int, int]:
    """Good and bad outcomes of one redrive run, where the consumer does not report its own.

    Of as many letters as were sent, so many came back to the DLQ. Fewer than the policy's
    minimum say nothing: a handful of poisonous letters comes back whatever the dependency
    does. The window has to span two runs.
    """
    if came_back < policy.minimum:
        return 0, 0
    return max(0, sent - came_back), came_back


def transition(
    circuit: Circuit, event: Event, policy: CircuitPolicy, now: float, random: Random
) -> Circuit | Refusal:
    """What becomes of a circuit; the circuit itself where there is nothing left to do.

    Nothing here depends on who asks: the same circuit, event and chance give the same answer.
    """
    if circuit.unreadable and not isinstance(event, OverrideBegun | OverrideEnded):
        return Refusal.UNREADABLE
    match event:
        case Reported():
            return _reported(circuit, event, policy, now, random)
        case Tripped():
            return _tripped(circuit, policy, now, random)
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
            return _released(circuit, now)
        case MappingPaused():
            return _paused(circuit, event, now)
        case MappingPutBack():
            return _put_back(circuit, event)


def _reported(
    circuit: Circuit, event: Reported, policy: CircuitPolicy, now: float, random: Random
) -> Circuit | Refusal:
    counted = circuit.counted(event.good, event.bad, policy, now)
    if circuit.is_closed and not circuit.is_forced(now) and _fails(counted, policy, now):
        return _tripped(counted, policy, now, random)
    return counted if event.good or event.bad else Refusal.HEALTHY


def _fails(circuit: Circuit, policy: CircuitPolicy, now: float) -> bool:
    counted = circuit.in_window(policy, now)
    good, bad = sum(one.good for one in counted), sum(one.bad for one in counted)
    enough = good + bad >= max(1, policy.minimum)
    too_many = bad > 0 and bad >= policy.failure_rate * (good + bad)
    in_a_row = policy.consecutive > 0 and circuit.streak >= policy.consecutive
    return (enough and too_many) or in_a_row


def _tripped(
    circuit: Circuit, policy: CircuitPolicy, now: float, random: Random
) -> Circuit | Refusal:
    if not circuit.is_closed:
        return Refusal.NOT_CLOSED
    if circuit.is_forced(now):
        return Refusal.FORCED
    settled = not circuit.closed_at or now - circuit.closed_at >= policy.settle
    opened = _new_outage(circuit, now)
    cooldown = policy.cooldown if settled else _longer(circuit, policy)
    trips = 1 if settled else circuit.trips + 1
    return _cooling(replace(opened, trips=trips), cooldown, now, random)


def _new_outage(circuit: Circuit, now: float) -> Circuit:
    """OPEN, for a new outage that an execution of its own runs."""
    generation = circuit.generation + 1
    return replace(
        circuit,
        state=State.OPEN,
        generation=generation,
        outage=generation,
        restart=0,
        started=now,
        opened_at=now,
        permit=None,
        successes=0,
        forced=None,
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
    """Whether it is over by everybody's clock, the owner's included."""
    return now > permit.until + CLOCK_SKEW


def _sent(circuit: Circuit, event: CanarySent, now: float) -> Circuit | Refusal:
    permit = _permit_of(circuit, event)
    if isinstance(permit, Refusal):
        return permit
    named = replace(permit, origin=event.origin, attempt=event.attempt, sent_at=now)
    return replace(circuit, permit=named)


def _permit_of(circuit: Circuit, event: CanarySent | CanaryAnswered) -> Permit | Refusal:
    """The permit that the event is about, if it still stands."""
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
        case CanaryVerdict.NEUTRAL:
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
    """CLOSED, and nothing that was counted before speaks against it any more."""
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
        forced=None,
    )


def _reopened(circuit: Circuit, policy: CircuitPolicy, now: float, random: Random) -> Circuit:
    """OPEN for longer, in the same outage."""
    opened = replace(
        circuit,
        state=State.OPEN,
        generation=circuit.generation + 1,
        permit=None,
        successes=0,
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
    # A generation that has grown since is a sign of life.
    if (circuit.generation, circuit.restart) != (event.generation, event.restart):
        return Refusal.STALE
    return replace(circuit, restart=circuit.restart + 1, started=now)


def _override_begun(
    circuit: Circuit, override: Override, policy: CircuitPolicy, now: float
) -> Circuit | Refusal:
    if override.until <= now:
        return Refusal.EXPIRED
    known = _taken_over(circuit, now)
    if override.state is State.CLOSED:
        closed = _closed(known, known.closed_at if known.is_closed else now)
        return replace(closed, forced=override)
    # Nobody has started an execution: the sweep may at once.
    opened = replace(_new_outage(known, now), started=0.0) if known.is_closed else known
    return replace(
        opened,
        state=State.OPEN,
        generation=known.generation + 1,
        open_until=override.until,
        cooldown=opened.cooldown or policy.cooldown,
        permit=None,
        successes=0,
        forced=override,
    )


def _released(circuit: Circuit, now: float) -> Circuit | Refusal:
    if not circuit.unreadable and circuit.forced is None:
        return Refusal.NOT_FORCED
    known = _taken_over(circuit, now)
    released = replace(known, generation=known.generation + 1, forced=None)
    # It was open for as long as a person said so; now a canary says whether it has to be.
    return replace(released, open_until=now) if known.state is State.OPEN else released


def _taken_over(circuit: Circuit, now: float) -> Circuit:
    """A circuit that a person has spoken on, and not the execution that ran it so far.

    That one may be asleep until the expiry of an earlier word: when it wakes it finds
    another restart number and ends. The sweep sees to what is left to do, at once.
    """
    known = _understood(circuit, now)
    if known.is_closed:
        return known
    return replace(known, restart=known.restart + 1, started=0.0)


def _understood(circuit: Circuit, now: float) -> Circuit:
    """A circuit that can be gone on from: an unreadable one begins anew, OPEN.

    Its generation may have been any number of changes; seconds since 1970 are more.
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
        return replace(circuit, paused=Pause(event.mapping, event.concurrency, now))
    # What it was before is known from the first time; by now it may be our own doing.
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
    """What an event made of a circuit, and why not, if it made nothing of it."""

    circuit: Circuit
    refused: Refusal | None = None


class Breaker(Protocol):
    """Where circuits are changed; raises CircuitsUnavailable when it cannot tell what became.

    Whoever is told that has no permit, and asks again with another owner.
    """

    def apply(self, key: str, event: Event) -> TransitionResult:
        """Let an event happen to the circuit as it stands, or say why it can't."""

    def troubled(self) -> Sequence[Circuit]:
        """The circuits that are not closed, are forced, or have a consumer paused."""
