"""The judgements on a letter, in order: the first that decides wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from deadletter.circuit.state import Circuit
from deadletter.contract import (
    MINUTE,
    Body,
    Reason,
    circuit_lane,
    delay_lane,
    rule_lane,
    run_lane,
)
from deadletter.failure.causes import NO_CAUSES, Causes, again, cause_of
from deadletter.failure.failure import Failure
from deadletter.failure.fate import COLLIDED, was_tried
from deadletter.failure.ledger import NO_ROW, LedgerRow, is_free
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import (
    DUE,
    LONGEST_DELAY,
    Decision,
    Divert,
    Hold,
    Park,
    Redrive,
)
from deadletter.rules.document import Document
from deadletter.rules.rule import Action, Rule
from deadletter.rules.rulebook import NO_MATCH, Match
from deadletter.settings.pipeline import Pipeline, RetryPolicy

if TYPE_CHECKING:
    from deadletter.routing.ordering import KeyPlace

# Seconds. A HOLD rule decides first each time, so judging each minute would change nothing.
_JUDGE_AGAIN = 86_400.0

# Characters of an error in the reason why a letter is parked: the stamp holds 200 in all.
_MOST_WORDS = 110

ROW_OF_POISON = 3
"""Letters of one FIFO group that failed alike and are in hand together."""

LIVES_IN_A_ROW = 2
"""Lives with the same failure that are enough for each of them: every further life of the row holds
up its group, and a trouble that lasts from one run of the redriver to the next is no moment's."""

PAST_OWN_EXPIRY = "past its own expiry"

_NO_DOCUMENT = Document({})


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that is known of one letter when it is judged.

    stamp     with the attempts that the ledger counts, if they are more
    now       epoch seconds
    row       the letter's row in the ledger
    document  the letter as rules see it
    match     the rule that matches it
    circuits  the circuits that the letter depends on: the pipeline's, the one of its key, and
              the one that its last failure speaks of
    causes    the pipeline's causes of failure
    served    the letter has waited for its delay, which must not start over
    admitted  the rule whose rate lets the letter go now
    waited    seconds that it has waited for a delay which is not over
    diverted  the letter lies in a dedicated DLQ
    forged    the letter had a Redrive attribute that none of our roles wrote
    foreign   the stamps that it carries, where it carries none to believe
    replay    a replay run is about to send the letter
    run_shard the shard of a live replay run's lane, if the run waits for this letter
    alike     the letters of its FIFO group in hand whose last failure is of the same kind as its
              own, this one among them
    """

    pipeline: Pipeline
    stamp: Stamp
    now: float
    random: Random = field(repr=False)
    row: LedgerRow = NO_ROW
    document: Document = _NO_DOCUMENT
    match: Match = NO_MATCH
    circuits: tuple[Circuit, ...] = ()
    causes: Causes = NO_CAUSES
    served: bool = False
    admitted: str | None = None
    waited: float = 0.0
    diverted: bool = False
    forged: bool = False
    foreign: int = 0
    replay: bool = False
    run_shard: int | None = None
    alike: int = 0

    @property
    def policy(self) -> RetryPolicy:
        named = self.match.rule.policy if self.match.rule else None
        return self.pipeline.policies[named] if named else self.pipeline.policy

    @property
    def is_free(self) -> bool:
        """Whether a re-drive uses no attempt. Each send of a replay run uses one."""
        return not self.replay and (self.is_excused or is_free(self.stamp, self.row))

    @property
    def excused_tries(self) -> int:
        """Tries of its replay run that failed by the dependency: they are none of the plan's.

        The ledger goes back eight lives. Earlier ones are excused: more tries, and none lost.
        """
        stamp = self.stamp
        if not self.replay or not stamp.attempts_used:
            return 0
        return stamp.attempts_used - self.row.own_failures(stamp.base + 1, stamp.attempt)

    @property
    def has_sudden_cause(self) -> bool:
        """Whether the cause of its last failure suddenly dominates now."""
        cause = cause_of(self.row.last)
        return bool(cause) and self.causes.hold_of(cause, self.now) is not None

    @property
    def is_excused(self) -> bool:
        """Whether the life that has ended failed while its cause suddenly dominated."""
        last = self.row.last
        if last is None or last.attempt != self.stamp.attempt:
            return False
        return self.causes.excuses(last, self.now)

    @property
    def attempts_used(self) -> int:
        """The attempts that the letter will have used after a re-drive.

        A stamp that is not believed may be ours, of a role that is gone or that SQS does not name.
        It stands for one attempt, whatever it says: so it can only stop its own letter.
        """
        return self.stamp.attempts_used + self.foreign + (0 if self.is_free else 1)

    @property
    def since_death(self) -> float:
        """Seconds since the letter failed for the last time in the life that has ended.

        0 if that is not on record: then it has waited for nothing yet. Negative if the consumer's
        clock is ahead.
        """
        last = self.row.last
        if last is None or last.attempt != self.stamp.attempt:
            return 0.0
        return self.now - last.at

    @property
    def was_tried(self) -> bool:
        """Whether its handler had it in the receive that ended its life, as far as is known."""
        last = self.row.last
        return last is None or was_tried(last)

    def counts(self, failure: Failure) -> bool:
        """Whether a failure may park the letter: not if its cause suddenly dominated then.

        In a replay run only the run's own failures count.
        """
        is_spared = failure.attempt < self.stamp.spared
        return not is_spared and not self.causes.excuses(failure, self.now)

    @property
    def expires(self) -> float:
        """Epoch seconds at which the letter is older than the pipeline's message TTL.

        A letter whose first send is unknown counts as sent now.
        """
        return self.stamp.too_old_at(self.pipeline.message_ttl, self.now)

    @property
    def ends(self) -> float:
        """Epoch seconds at which the letter expires, by its age or by itself."""
        own = self.document.expires
        return self.expires if own is None else min(self.expires, own)

    @property
    def is_past_own_expiry(self) -> bool:
        own = self.document.expires
        return own is not None and self.now >= own

    def is_expired(self, *, release: bool) -> bool:
        """Whether no replay run may send it any more.

        A letter that was parked for another reason was given up in time: in the parking lot it
        waits for a person, and a `release` is no matter of its age.
        """
        in_time = release and self.stamp.reason != Reason.EXPIRED
        return self.is_past_own_expiry or (self.now >= self.expires and not in_time)


NEAR, FAR = MINUTE, 5 * MINUTE
"""How often a letter is looked at whether its turn has come: one near the head of its line, or
right behind letters that go, and any other."""

SHORTEST_BEHIND = 30.0

_BUCKETS_A_DOUBLING = 8
"""Letters that wait twice as long come due so many seconds earlier in their minute: the lowest
places are most of them among the first that one request can take."""

Judgement = Callable[[Case], Decision | None]


def of_live_run(case: Case) -> Decision | None:
    """A letter that a live replay run sent, and that died again, goes back to the run.

    The run judges it then: left anywhere else, its ticket would stay open.
    """
    run = case.stamp.run
    if run is None or case.run_shard is None:
        return None
    # No time opens the lane of a run, whatever is due.
    because = f"run {run} is live"
    return Hold(run_lane(run), case.expires, because, shard=case.run_shard)


def stopped_by_rule(case: Case) -> Decision | None:
    """QUARANTINE, DEDICATED_DLQ and HOLD stop a letter whatever else is true of it."""
    rule = case.match.rule
    if rule is None:
        return None
    if case.match.unjudged:
        # Not counted as a match of the rule: whether it is one is not known.
        because = f"rule {rule.rule_id} is too costly to decide on this message"
        return Hold(rule_lane(rule.rule_id), _until(rule, case), because)
    because = f"rule {rule.rule_id} says {rule.action}"
    match rule.action:
        case Action.QUARANTINE:
            return Park(Reason.QUARANTINED, because, rule.rule_id)
        case Action.DEDICATED_DLQ if rule.queue is not None:
            return Divert(rule.queue, because, rule.rule_id)
        case Action.HOLD:
            return Hold(rule_lane(rule.rule_id), _until(rule, case), because, rule.rule_id)
    return None


def malformed(case: Case) -> Decision | None:
    """A body that is not JSON is parked in a pipeline of JSON bodies: it would always fail."""
    unreadable = case.document.unreadable
    if case.pipeline.body is Body.JSON and unreadable is not None:
        return Park(Reason.MALFORMED, f"the body cannot be read: {unreadable}")
    return None


def of_ended_run(case: Case) -> Decision | None:
    """A letter of a replay run that does not wait for it is parked: it never joins the schedule."""
    run = case.stamp.run
    if run is None or case.run_shard is not None:
        return None
    because = f"it came back from run {run}, which no longer waits for it"
    return permanent(case) or _given_up(Reason.RUN_FAILED, because, case)


def expired(case: Case) -> Decision | None:
    """A letter past its own expiry, or older than the message TTL, is parked, never dropped."""
    if case.is_past_own_expiry:
        return Park(Reason.EXPIRED, _with_words(PAST_OWN_EXPIRY, case))
    if case.now >= case.expires:
        because = f"older than {case.pipeline.message_ttl:g} seconds"
        return _given_up(Reason.EXPIRED, _with_words(because, case), case)
    return None


def expired_by_itself(case: Case) -> Decision | None:
    """A letter past its own expiry is sent by no run. Its age is the plan's: see `within`."""
    return Park(Reason.EXPIRED, PAST_OWN_EXPIRY) if case.is_past_own_expiry else None


def permanent(case: Case) -> Decision | None:
    """A letter whose last failure is permanent, such as a wrong schema, always fails again.

    One that failed while its cause suddenly dominated is tried once more.
    """
    last = case.row.last
    if last is not None and last.category.course.is_permanent and case.counts(last):
        if last.fingerprint == COLLIDED:
            because = "another message with its idempotency key was processed"
            return Park(Reason.KEY_CONFLICT, f"{because}; it {last.message}")
        because = f"last failure was of category {last.category}"
        return _given_up(Reason.PERMANENT, _with_words(because, case), case)
    return None


def poison(case: Case) -> Decision | None:
    """The same failure in several lives is the letter's own fault; in fewer, if others of its FIFO
    group have it too.

    Failures while the dependency was down, while their cause suddenly dominated, or of a category
    that is no poison are not counted: what somebody else can repair ends as RETRIES_EXHAUSTED.
    """
    needed, last = case.pipeline.poison_lives, case.row.last
    is_row = case.alike >= ROW_OF_POISON and needed > LIVES_IN_A_ROW
    if last is None or len(case.row.failures) < (LIVES_IN_A_ROW if is_row else needed):
        return None
    lives = case.row.lives_by_fingerprint(
        lambda failure: failure.category.course.is_poison and case.counts(failure)
    )
    most = max(lives.values(), default=0)
    if most >= needed:
        because = f"the same failure in {most} lives"
        return _given_up(Reason.POISON, _with_words(because, case), case)
    if is_row and lives.get(last.fingerprint, 0) >= LIVES_IN_A_ROW:
        because = f"the same failure in two attempts, and of {case.alike} messages of its group"
        return _given_up(Reason.POISON, _with_words(because, case), case)
    return None


def silent(case: Case) -> Decision | None:
    """A letter came back, and the consumer that records each failure recorded none.

    The letter probably kills the consumer.
    """
    back_again = case.stamp.attempts_used >= 1
    if case.pipeline.consumer_library and back_again and not case.row.failures:
        return Park(Reason.CRASH, "came back without any recorded failure")
    return None


def exhausted(case: Case) -> Decision | None:
    """A letter that has used all its attempts goes to a person."""
    allowed = case.policy.max_attempts
    if case.attempts_used > allowed:
        used = case.stamp.attempts_used + case.foreign
        because = f"{used} of {allowed} attempts used"
        if case.foreign:
            because += f", {case.foreign} by stamps of unknown senders"
        return _given_up(Reason.RETRIES_EXHAUSTED, _with_words(because, case), case)
    return None


def _given_up(reason: Reason, because: str, case: Case) -> Park:
    """Park a letter for what failed: its last failure's category may have a queue of its own."""
    last = case.row.last
    return Park(reason, because, category=None if last is None else str(last.category))


def _with_words(because: str, case: Case) -> str:
    """The reason with the words of the letter's last failure, which the ledger keeps redacted."""
    last = case.row.last
    if last is None:
        return because
    error = ": ".join(text for text in (last.error_type, last.message) if text)
    status = f"HTTP {last.http_status}" if last.http_status is not None else ""
    words = ", ".join(text for text in (error[:_MOST_WORDS], status) if text)
    return f"{because}; it last failed with {words}" if words else because


def circuit_open(case: Case) -> Decision | None:
    """A letter whose dependency is down waits in that circuit's lane.

    It waits there as well while a pace has more messages than it lets through in minutes: in the
    main queue it would use up its receives and die again.
    """
    for circuit in case.circuits:
        if not circuit.takes_letters(case.now):
            state = "paced, and messages wait long" if circuit.is_closed else circuit.state
            because = f"circuit {circuit.key} is {state}"
            return Hold(circuit_lane(circuit.key), case.expires, because)
    return None


def throttled(case: Case) -> Decision | None:
    """A letter that a THROTTLE rule matches waits in its lane until the rate lets it go."""
    rule = case.match.rule
    if rule is None or rule.action is not Action.THROTTLE or case.admitted == rule.rule_id:
        return None
    # The rate is no delay: a letter that has waited for its backoff may go at its turn.
    delay = 0.0 if case.served else _left_of(_backoff(case)[0], case)
    because = f"at most {rule.rate:g} messages a second by rule {rule.rule_id}"
    due = min(case.now + delay, case.ends)
    return Hold(rule_lane(rule.rule_id), due, because, rule.rule_id)


def _backoff(case: Case) -> tuple[float, str]:
    """Seconds from the letter's death to its next life, and the words before them."""
    if case.has_sudden_cause:
        # No letter has changed: whether its failure is over is found out by trying.
        return again(case.random), "its cause suddenly dominates, again after"
    # Lives that use no attempt make the backoff longer too: it keeps the pace bearable.
    return case.policy.backoff.delay(case.stamp.attempt + 1, case.random), "backoff of"


def _left_of(backoff: float, case: Case) -> float:
    """What is left of a backoff that began with the letter's death, not with this judgement."""
    return max(0.0, backoff - max(case.waited, case.since_death))


def delayed(case: Case) -> Decision:
    """Every other letter goes back, after a rule's delay or after backoff."""
    rule = case.match.rule
    rule_id = rule.rule_id if rule else None
    what = "no attempt used" if case.is_free else f"attempt {case.stamp.attempts_used + 1}"
    if case.served:
        return Redrive(0, f"{what}, its delay is served", rule_id)
    if rule is not None and rule.delay_seconds is not None:
        because = f"{what}, delay of {rule.delay_seconds:g} s by rule {rule.rule_id}"
        delay = max(0.0, rule.delay_seconds - case.waited)
    else:
        backoff, why = _backoff(case)
        because = f"{what}, {why} {backoff:.0f} s"
        delay = _left_of(backoff, case)
    # FIFO queues have no delay per message: there any wait is outside SQS.
    fits_in_queue = delay <= LONGEST_DELAY and (not case.pipeline.fifo or delay == 0)
    # In the queue it would be delivered after its expiry.
    if fits_in_queue and case.now + delay < case.ends:
        return Redrive(round(delay), because, rule_id)
    by_rule = rule is not None and rule.delay_seconds is not None
    lane = delay_lane(rule.rule_id) if rule is not None and by_rule else DUE
    left = not by_rule and case.since_death > 0
    return Hold(lane, min(case.now + delay, case.ends), because, rule_id, left=left)


def behind(case: Case, decision: Redrive, place: KeyPlace, ahead: KeyPlace, *, near: bool) -> Hold:
    """A letter that would go back waits while an earlier one of its ordering key is open.

    Those of a key wait in one shard, and come due together, in about the order of their first
    sends, so that they go one after the other.
    """
    from deadletter.routing.ordering import shard_of_hash

    because = f"behind message {ahead.origin} of its ordering key"
    step = NEAR if near else FAR
    full = math.ceil((case.now + max(decision.delay, SHORTEST_BEHIND)) / step) * step
    age = max(0.0, case.now - case.stamp.first_sent / 1_000)
    later = max(0.0, MINUTE - 1 - _BUCKETS_A_DOUBLING * math.log2(1 + age / MINUTE))
    due = min(full + int(later), case.ends)
    return Hold(DUE, due, because, decision.rule, shard=shard_of_hash(place.line))


def replayed(case: Case) -> Decision:
    """Every other letter of a replay run is sent: its age, poison and attempts are the plan's."""
    return Redrive(0, f"run {case.stamp.run}, attempt {case.attempts_used}")


def _until(rule: Rule, case: Case) -> float:
    """When a held letter is judged again: at its expiry, then daily, or when its rule ends."""
    again = max(case.expires, case.now + _JUDGE_AGAIN)
    return again if rule.expires_at is None else min(rule.expires_at, again)


JUDGEMENTS: tuple[Judgement, ...] = (
    of_live_run,
    stopped_by_rule,
    malformed,
    of_ended_run,
    expired,
    permanent,
    poison,
    silent,
    exhausted,
    circuit_open,
    throttled,
    delayed,
)
"""The policy. A rule that stops a letter comes first, one that delays it comes last: no rule can
send a letter that another judgement stops. A live run's own letters are judged by the run."""

REPLAY_JUDGEMENTS: tuple[Judgement, ...] = (
    stopped_by_rule,
    malformed,
    expired_by_itself,
    permanent,
    circuit_open,
    replayed,
)
"""The policy for a letter that a replay run is about to send."""


def judge(case: Case) -> Decision:
    """The decision of the first judgement that makes one."""
    for judgement in REPLAY_JUDGEMENTS if case.replay else JUDGEMENTS:
        decision = judgement(case)
        if decision is not None:
            return decision
    raise AssertionError("the last judgement always decides")


def park_of(case: Case, ignored: Collection[Reason] = ()) -> Park | None:
    """How automation gives the letter up; None if it does not, or only for ignored reasons."""
    for judgement in JUDGEMENTS:
        decision = judgement(case)
        if isinstance(decision, Park):
            if decision.reason not in ignored:
                return decision
        elif decision is not None:
            return None
    return None
