"""The order in which a letter is judged: the first that speaks wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from deadletter.circuit.state import Circuit
from deadletter.contract import Body, Reason, circuit_lane
from deadletter.failure.failure import PERMANENT
from deadletter.failure.ledger import NO_ROW, LedgerRow
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import LONGEST_DELAY, Decision, Divert, Hold, Park, Redrive
from deadletter.rules.rule import Action, Rule
from deadletter.rules.rulebook import NO_MATCH, Match
from deadletter.settings.pipeline import Pipeline, RetryPolicy

DUE = "due"
"""The lane of letters that wait for nothing but time."""

# Seconds. The rule speaks first at each look, so looking each minute would change nothing.
_LOOK_AGAIN = 86_400.0


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known of one letter at the moment it is judged.

    `stamp` already counts what the ledger counts; `served` says that it has waited
    for its delay and must not start over; `now` is epoch seconds.
    """

    pipeline: Pipeline
    stamp: Stamp
    now: float
    random: Random = field(repr=False)
    row: LedgerRow = NO_ROW
    match: Match = NO_MATCH
    unreadable: str | None = None
    circuits: tuple[Circuit, ...] = ()
    served: bool = False

    @property
    def policy(self) -> RetryPolicy:
        named = self.match.rule.policy if self.match.rule else None
        return self.pipeline.policies[named] if named else self.pipeline.policy

    @property
    def next_attempt(self) -> int:
        return self.stamp.attempt + 1

    @property
    def expires(self) -> float:
        """Epoch seconds at which the letter is older than the pipeline's message TTL.

        A letter whose first send nobody knows is as old as this look at it.
        """
        sent = self.stamp.first_sent / 1000 if self.stamp.first_sent else self.now
        return sent + self.pipeline.message_ttl


Judgement = Callable[[Case], Decision | None]


def stopped_by_rule(case: Case) -> Decision | None:
    """QUARANTINE, DEDICATED_DLQ and HOLD stop a letter whatever else is true of it."""
    rule = case.match.rule
    if rule is None:
        return None
    because = f"rule {rule.rule_id} says {rule.action}"
    match rule.action:
        case Action.QUARANTINE:
            return Park(Reason.QUARANTINED, because, rule.rule_id)
        case Action.DEDICATED_DLQ if rule.queue is not None:
            return Divert(rule.queue, because, rule.rule_id)
        case Action.HOLD:
            return Hold(f"rule:{rule.rule_id}", _until(rule, case), because, rule.rule_id)
    return None


def malformed(case: Case) -> Decision | None:
    """A body that is not JSON fails for ever where the pipeline says its bodies are JSON."""
    if case.pipeline.body is Body.JSON and case.unreadable is not None:
        return Park(Reason.MALFORMED, f"the body cannot be read: {case.unreadable}")
    return None


def expired(case: Case) -> Decision | None:
    """A letter older than the pipeline's message TTL is parked, never dropped."""
    if case.now >= case.expires:
        return Park(Reason.EXPIRED, f"older than {case.pipeline.message_ttl:g} seconds")
    return None


def permanent(case: Case) -> Decision | None:
    """What failed for its schema or its business fails the same way for ever."""
    last = case.row.last
    if last is not None and last.category in PERMANENT:
        return Park(Reason.PERMANENT, f"last failure was of category {last.category}")
    return None


def poison(case: Case) -> Decision | None:
    """The same failure in several lives is the letter's own, unless the dependency explains it."""
    lives = max(case.row.lives_by_fingerprint().values(), default=0)
    if lives >= case.pipeline.poison_lives:
        return Park(Reason.POISON, f"the same failure in {lives} lives")
    return None


def silent(case: Case) -> Decision | None:
    """Back again, and the consumer that records every failure never recorded one: it dies of it."""
    back_again = case.stamp.attempt >= 1
    if case.pipeline.consumer_library and back_again and not case.row.since_release:
        return Park(Reason.SILENT, "came back without any recorded failure")
    return None


def exhausted(case: Case) -> Decision | None:
    """A letter that has had all its attempts is a person's now."""
    allowed = case.policy.max_attempts
    if case.next_attempt > allowed:
        return Park(Reason.EXHAUSTED, f"{case.stamp.attempt} of {allowed} attempts used")
    return None


def circuit_open(case: Case) -> Decision | None:
    """A letter whose dependency is down waits in that circuit's lane."""
    for circuit in case.circuits:
        if not circuit.is_closed:
            because = f"circuit {circuit.key} is {circuit.state}"
            return Hold(circuit_lane(circuit.key), case.expires, because)
    return None


def delayed(case: Case) -> Decision:
    """Everything else goes back, later each time: a rule's delay, else backoff."""
    rule = case.match.rule
    attempt = case.next_attempt
    rule_id = rule.rule_id if rule else None
    if case.served:
        return Redrive(0, f"attempt {attempt}, its delay is served", rule_id)
    if rule is not None and rule.delay_seconds is not None:
        delay, because = rule.delay_seconds, f"attempt {attempt}, delay of rule {rule.rule_id}"
    else:
        delay = case.policy.backoff.delay(attempt, case.random)
        because = f"attempt {attempt}, backoff"
    # FIFO queues keep no single message back: there any wait is outside SQS.
    fits_in_queue = delay <= LONGEST_DELAY and (not case.pipeline.fifo or delay == 0)
    if fits_in_queue:
        return Redrive(round(delay), because, rule_id)
    return Hold(DUE, min(case.now + delay, case.expires), because, rule_id)


def _until(rule: Rule, case: Case) -> float:
    """When a held letter is judged again: at its expiry, then daily, or when its rule ends."""
    again = max(case.expires, case.now + _LOOK_AGAIN)
    return again if rule.expires_at is None else min(rule.expires_at, again)


JUDGEMENTS: tuple[Judgement, ...] = (
    stopped_by_rule,
    malformed,
    expired,
    permanent,
    poison,
    silent,
    exhausted,
    circuit_open,
    delayed,
)
"""The policy. A rule can stop a letter or slow it; it comes before nothing else that stops one."""


def judge(case: Case) -> Decision:
    """What to do with this letter now: the first judgement that speaks."""
    for judgement in JUDGEMENTS:
        decision = judgement(case)
        if decision is not None:
            return decision
    raise AssertionError("the last judgement always speaks")
