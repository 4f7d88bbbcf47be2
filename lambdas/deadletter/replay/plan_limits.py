"""What a run's plan makes of the router's decisions: its destination, and its limit of tries."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deadletter.contract import Reason, circuit_lane, with_config_keys
from deadletter.message.stamp import Stamp
from deadletter.replay.lineup import MOST_TRIES
from deadletter.replay.plan import DELIVER, DISCARD, MAIN_QUEUE, KeyPolicy, ReplayPlan
from deadletter.replay.ticket import ReplayOutcome
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """The decision that is carried out, and its stamp; one that `waits` stays in front of its
    ordering key until a person resumes the run."""

    decision: Decision
    stamp: Stamp
    waits: bool = False


def within(
    decision: Decision,
    stamp: Stamp,
    plan: ReplayPlan,
    *,
    key_stops: bool,
    let_go: bool,
    forgiven: bool,
    too_old: bool,
    excused: int = 0,
) -> PlannedMove:
    """What is done with a letter that the router has judged for the run.

    key_stops  whether the letter has an ordering key that may stop behind it
    let_go     whether its ticket says that it leaves the run: it is not sent any more
    forgiven   whether a person has resumed the run since its last try
    too_old    whether the letter is older than the pipeline's message TTL
    excused    tries that failed by the dependency: the plan counts the others. The run holds itself
               for them all the same, and its deadline ends it
    """
    if not isinstance(decision, Redrive):
        return PlannedMove(decision, stamp)
    if let_go:
        return _parked(stamp, f"run {plan.run_id}: it had left the run")
    to_consumer = plan.destination in (MAIN_QUEUE, DELIVER)
    # What a person releases was parked in time: see `judgement.Case.is_expired`.
    if too_old and to_consumer and not plan.is_release:
        because = f"run {plan.run_id}: older than the message TTL"
        return _parked(stamp, because, Reason.EXPIRED)
    tries = stamp.attempts_used - 1
    if tries >= MOST_TRIES:
        return _parked(stamp, f"run {plan.run_id}: it failed in each of {tries} tries")
    tries -= max(0, excused)
    if tries >= plan.attempts and plan.destination != DISCARD:
        stops = plan.ordered and plan.on_failure is KeyPolicy.STOP and key_stops
        if not stops:
            return _parked(stamp, f"run {plan.run_id}: it failed in each of {tries} tries")
        return PlannedMove(decision, stamp, waits=not forgiven)
    if to_consumer or plan.discards:
        return PlannedMove(decision, stamp)
    because = f"run {plan.run_id}"
    left = replace(
        stamp,
        attempt=stamp.attempt - 1,
        run=None,
        ticket=None,
        decision="DIVERT",
        because=because,
    )
    return PlannedMove(Divert(plan.destination, because), left)


def _parked(stamp: Stamp, because: str, reason: Reason = Reason.RETRIES_EXHAUSTED) -> PlannedMove:
    """The decision to park a letter that the router would have sent."""
    parked = replace(
        stamp,
        attempt=stamp.attempt - 1,
        ticket=None,
        rule=None,
        decision="PARK",
        reason=str(reason),
        because=because,
    )
    return PlannedMove(Park(reason, because), parked)


def is_send(decision: Decision, plan: ReplayPlan) -> bool:
    """Whether a decision sends a letter to the run's destination, and so needs a grant."""
    if isinstance(decision, Divert):
        return decision.queue == plan.destination
    return isinstance(decision, Redrive)


def is_own_circuit(decision: Decision, pipeline: str) -> bool:
    """Whether the letter would wait for the pipeline's own circuit: the whole run waits for it."""
    lanes = set(map(circuit_lane, with_config_keys([pipeline])))
    return isinstance(decision, Hold) and decision.lane in lanes


class Fates:
    """What the tickets of a run say: where an outcome is looked up, and where nothing is known."""

    def __init__(self, plan: ReplayPlan, consumer_library: bool) -> None:
        self._plan = plan
        self.sent = ReplayOutcome.DELIVERED
        if plan.destination == DISCARD:
            self.sent = ReplayOutcome.DISCARDED
        elif plan.destination == MAIN_QUEUE and consumer_library:
            self.sent = ReplayOutcome.SENT
        # Of a delivery whose worker ended before its ticket, the consumer's ledger knows the end.
        is_direct = plan.destination == DELIVER and consumer_library
        self.found_sent = ReplayOutcome.SENT if is_direct else self.sent

    def of(self, decision: Decision) -> ReplayOutcome:
        """The fate of a letter with this decision."""
        if is_send(decision, self._plan):
            return self.sent
        if isinstance(decision, Park):
            expired = decision.reason is Reason.EXPIRED
            return ReplayOutcome.EXPIRED if expired else ReplayOutcome.QUARANTINED
        return ReplayOutcome.STOPPED
